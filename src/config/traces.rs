//! Where traces go, by the variables of the environment that OpenTelemetry names.
//!
//! Whoever sets them may set them for all programs of a cluster: what they say that cannot be done here leaves a program
//! without traces, and never keeps it from serving.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use crate::spans::Sampler;

/// The variables, what holds where each is not set, and what they say.
#[rustfmt::skip]
pub const VARIABLES: &[(&str, &str, &str)] = &[
    ("OTEL_SDK_DISABLED", "false", "`true`: no traces, whatever the others say"),
    ("OTEL_TRACES_EXPORTER", "`otlp` where an endpoint is set, else `none`", "`otlp` or `none`"),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317", "the receiver: `https://` by TLS, `http://` without, `host:port` as the next one says"),
    ("OTEL_EXPORTER_OTLP_TRACES_INSECURE, OTEL_EXPORTER_OTLP_INSECURE", "`true` for this machine, else `false`", "whether a receiver without a scheme is spoken to without TLS"),
    ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE, OTEL_EXPORTER_OTLP_CERTIFICATE", "those of the system", "file of the authorities of the receiver's certificate, in PEM"),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS, OTEL_EXPORTER_OTLP_HEADERS", "", "headers of each call: `name=value,…`, values percent-encoded"),
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT", "10000", "milliseconds that a call may take"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "`grpc` and no other"),
    ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "also `traceidratio`, `always_on`, `always_off`, and these with `parentbased_` before"),
    ("OTEL_TRACES_SAMPLER_ARG", "0.1", "the share of a ratio sampler"),
    ("OTEL_SERVICE_NAME", "llm-d-epp", "attribute `service.name` of the resource"),
    ("OTEL_RESOURCE_ATTRIBUTES", "", "further attributes: `name=value,…`, values percent-encoded"),
];

/// Names and values.
type Pairs = Vec<(String, String)>;

/// Where traces go, and which.
#[derive(Clone)]
pub struct Traces {
    /// Of which requests there are any.
    pub sampler: Sampler,
    /// The URL of the receiver.
    pub endpoint: String,
    /// File of its authorities; none where those of the system are good.
    pub certificate: Option<PathBuf>,
    /// Headers of each call; secrets mostly.
    pub headers: Pairs,
    /// The time that a call may take.
    pub timeout: Duration,
    /// Attributes of the resource.
    pub resource: Pairs,
}

/// What cannot be done: a variable, its value, and what to give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {fix}")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    fix: &'static str,
}

/// Tells the value of a variable.
struct Environment<F>(F);

impl Traces {
    /// Reads what `variable` tells by name; none where no traces are wanted.
    ///
    /// # Errors
    /// When a variable asks for what is not there.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, BadVariable> {
        let environment = Environment(variable);
        if !environment.wanted()? {
            return Ok(None);
        }
        environment.protocol()?;
        Ok(Some(Self {
            sampler: environment.sampler()?,
            endpoint: environment.endpoint()?,
            certificate: environment.either(OTLP_CERTIFICATE).map(|(_, path)| PathBuf::from(path)),
            headers: pairs(environment.either(OTLP_HEADERS))?,
            timeout: environment.timeout()?,
            resource: environment.resource()?,
        }))
    }
}

/// Names of a variable: for traces, and for all that is sent.
type Names = [&'static str; 2];

const OTLP_ENDPOINT: Names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const OTLP_INSECURE: Names = ["OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"];
const OTLP_CERTIFICATE: Names =
    ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
const OTLP_HEADERS: Names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const OTLP_TIMEOUT: Names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const OTLP_PROTOCOL: Names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    /// A variable that is empty is not set.
    fn get(&self, name: &str) -> Option<String> {
        Some((self.0)(name)?.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// The first that is set, and its name.
    fn either(&self, names: Names) -> Option<(&'static str, String)> {
        names.into_iter().find_map(|name| Some((name, self.get(name)?)))
    }

    fn wanted(&self) -> Result<bool, BadVariable> {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let name = "OTEL_TRACES_EXPORTER";
        match self.get(name).as_deref() {
            None => Ok(self.either(OTLP_ENDPOINT).is_some()),
            Some("none") => Ok(false),
            Some("otlp") => Ok(true),
            Some(other) => Err(bad(name, other, "give otlp or none")),
        }
    }

    fn protocol(&self) -> Result<(), BadVariable> {
        match self.either(OTLP_PROTOCOL) {
            Some((name, value)) if value != "grpc" => {
                Err(bad(name, &value, "give grpc, and the receiver's port for it, mostly 4317"))
            }
            _ => Ok(()),
        }
    }

    fn sampler(&self) -> Result<Sampler, BadVariable> {
        let name = "OTEL_TRACES_SAMPLER";
        let value = self.get(name).unwrap_or_else(|| "parentbased_traceidratio".to_owned());
        let (by_parent, root) = match value.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, value.as_str()),
        };
        let share = match root {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.share()?,
            _ => return Err(bad(name, &value, "give parentbased_traceidratio or always_on")),
        };
        Ok(Sampler::new(share, by_parent))
    }

    fn share(&self) -> Result<f64, BadVariable> {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let Some(value) = self.get(name) else { return Ok(0.1) };
        let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.ok_or_else(|| bad(name, &value, "give a share from 0 to 1"))
    }

    fn endpoint(&self) -> Result<String, BadVariable> {
        let Some((name, value)) = self.either(OTLP_ENDPOINT) else {
            return Ok("http://localhost:4317".to_owned());
        };
        let fix = "give http://host:port or https://host:port";
        let url = if value.contains("://") {
            value.clone()
        } else {
            let insecure = self.either(OTLP_INSECURE).map(|(_, told)| told);
            let plain = insecure.map_or_else(|| is_here(&value), |told| told == "true");
            format!("{}://{value}", if plain { "http" } else { "https" })
        };
        let parsed: http::Uri = url.parse().map_err(|_error| bad(name, &value, fix))?;
        match parsed.scheme_str() {
            Some("http" | "https") if parsed.host().is_some() => Ok(url),
            _ => Err(bad(name, &value, fix)),
        }
    }

    fn timeout(&self) -> Result<Duration, BadVariable> {
        let Some((name, value)) = self.either(OTLP_TIMEOUT) else {
            return Ok(Duration::from_secs(10));
        };
        let milliseconds = value.parse().ok().filter(|milliseconds| *milliseconds > 0);
        let timeout = milliseconds.map(Duration::from_millis);
        timeout.ok_or_else(|| bad(name, &value, "give milliseconds, such as 10000"))
    }

    /// The service's name stands over what the attributes say.
    fn resource(&self) -> Result<Pairs, BadVariable> {
        const SERVICE: &str = "service.name";
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let mut resource = pairs(self.get(name).map(|value| (name, value)))?;
        let told = self.get("OTEL_SERVICE_NAME");
        if told.is_some() {
            resource.retain(|(key, _)| key != SERVICE);
        }
        if !resource.iter().any(|(key, _)| key == SERVICE) {
            resource.push((SERVICE.to_owned(), told.unwrap_or_else(|| "llm-d-epp".to_owned())));
        }
        Ok(resource)
    }
}

/// What is spoken to on this machine needs no TLS.
fn is_here(address: &str) -> bool {
    ["localhost", "127.", "[::1]"].iter().any(|here| address.starts_with(here))
}

/// What `name=value,…` says; its value, which may be a secret, is in no error.
fn pairs(told: Option<(&'static str, String)>) -> Result<Pairs, BadVariable> {
    let Some((name, value)) = told else { return Ok(Pairs::new()) };
    let pairs = value.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((key.trim().to_owned(), value.into_owned()))
    });
    let pairs: Option<Pairs> = pairs.collect();
    pairs.ok_or_else(|| bad(name, "…", "give name=value,name=value"))
}

fn bad(name: &'static str, value: &str, fix: &'static str) -> BadVariable {
    BadVariable { name, value: value.to_owned(), fix }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces")
            .field("endpoint", &self.endpoint)
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
