//! `lodesman explain`: where a request would go, or went, and why.

use std::io::{IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::{HeaderName, HeaderValue};
use reqwest::Url;

use crate::app::offline::{self, OfflineError};
use crate::cli::failure::{Failure, bad, fault, usage};
use crate::cli::remote::{admin_port, answer, client, page};
use crate::cli::{FAULT, control_runtime, say};
use crate::director::Explanation;
use crate::extproc::{Refused, Rehearsal};

use self::table::table;

pub(super) mod table;

/// The request would be refused.
const REFUSED: u8 = 1;

/// Bytes of a file: those of the longest body that is taken anywhere.
const LONGEST: u64 = 256 << 20;

/// Longest wait for a picker's answer.
const PATIENCE: Duration = Duration::from_secs(30);

const AFTER_HELP: &str = "\
Examples:
  lodesman explain --body chat.json --at http://127.0.0.1:9091
  kubectl port-forward deploy/lodesman 9091 &
  lodesman explain --at http://127.0.0.1:9091 --request-id 4711
  curl -s 127.0.0.1:9091/debug/snapshot > pool.json
  lodesman explain --body chat.json --snapshot pool.json

A live decision is known by --request-id while the picker runs with --decision-log N. Nothing is \
sent to a model server, and a dry request leaves no trace. A snapshot does not tell what endpoints \
have in their caches.
Exit codes: 0 it has a place, 1 it would be refused, 64 wrong usage, 70 the picker does not answer, \
78 bad configuration.";

/// Says where a request would go and why: who was left out by what, every score, the age of what was known.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExplainArgs {
    /// The body of the request; - is standard input.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["request_id", "decision"])]
    body: Option<PathBuf>,
    /// A header of the request; may be repeated.
    #[arg(long, value_name = "NAME:VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Its path.
    #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
    path: String,
    /// Ask for this model instead of the one in the body.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The endpoints that the gateway would allow, as `ip:port` or `ip`, comma separated [default: all].
    #[arg(long, value_name = "ADDRESSES")]
    subset: Option<String>,
    /// What ties are drawn by, in hexadecimal digits [default: random].
    #[arg(long, value_name = "HEX", value_parser = dice)]
    dice: Option<u64>,
    #[command(flatten)]
    from: From,
    /// Decide by this configuration, not by the one in the snapshot.
    #[arg(long, value_name = "FILE", requires = "snapshot", conflicts_with = "at")]
    config_file: Option<PathBuf>,
    /// Show the last decision on the request with this x-request-id.
    #[arg(long, value_name = "ID", requires = "at", conflicts_with_all = ["body", "snapshot"])]
    request_id: Option<String>,
    /// Show the decision with this id, as the header x-lodesman-decision tells it.
    #[arg(long, value_name = "ID", value_parser = decision_id, requires = "at", conflicts_with_all = ["body", "request_id", "snapshot"])]
    decision: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct From {
    /// The admin port of a running picker, such as `http://127.0.0.1:9091`.
    #[arg(long, value_name = "URL", value_parser = admin_port)]
    at: Option<Url>,
    /// What /debug/snapshot of a picker showed; - is standard input.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

type Told = Result<Explanation, Refused>;

pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    match told(args).and_then(|told| print(&told, args.json)) {
        Ok(code) if args.from.snapshot.is_some() && !args.json => {
            let known =
                "a snapshot does not tell what endpoints have in their caches: all count as empty";
            let said = writeln!(stderr(), "note: {known}");
            if said.is_ok() { code } else { ExitCode::from(FAULT) }
        }
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

fn told(args: &ExplainArgs) -> Result<Told, Failure> {
    if let Some(snapshot) = &args.from.snapshot {
        return offline(args, snapshot);
    }
    let at = args.from.at.clone().ok_or_else(|| usage("give --at or --snapshot"))?;
    let runtime = control_runtime().map_err(|error| fault(error.to_string()))?;
    runtime.block_on(ask(args, at))
}

fn offline(args: &ExplainArgs, snapshot: &Path) -> Result<Told, Failure> {
    let configuration = args.config_file.as_deref().map(text).transpose()?;
    let request = Rehearsal {
        headers: headers(args),
        body: args.body.as_deref().map(read).transpose()?.unwrap_or_default(),
        subset: args.subset.clone(),
    };
    let dice = args.dice.unwrap_or_else(|| fastrand::u64(..));
    let told = offline::explain(&text(snapshot)?, configuration.as_deref(), request, dice);
    told.map_err(|error| match error {
        OfflineError::Snapshot(_) => usage(format!("{}: {error}", snapshot.display())),
        OfflineError::Configuration(problems) => {
            let name = args.config_file.as_deref().unwrap_or(snapshot).display().to_string();
            let lines = problems.iter().map(|problem| problem.in_file(&name).to_string());
            bad(lines.collect::<Vec<_>>().join("\n"))
        }
        OfflineError::System(_) => fault(error.to_string()),
    })
}

async fn ask(args: &ExplainArgs, at: Url) -> Result<Told, Failure> {
    let client = client(&at, PATIENCE)?;
    let live = args.request_id.as_ref().map(|id| ("request-id", id));
    let live = live.or_else(|| args.decision.as_ref().map(|id| ("id", id)));
    let Some((field, id)) = live else {
        let dice = args.dice.map(|dice| format!("{dice:x}"));
        let fields = [("path", Some(&args.path)), ("subset", args.subset.as_ref())];
        let fields = fields.into_iter().chain([("dice", dice.as_ref())]);
        let mut request = client.post(page(&at, ["debug", "explain"], fields)?);
        for (name, value) in headers(args).into_iter().filter(|(name, _)| !name.starts_with(b":")) {
            request = request.header(&*name, &*value);
        }
        let body = args.body.as_deref().map(read).transpose()?.unwrap_or_default();
        return answer(request.body(body)).await;
    };
    let one = "1".to_owned();
    let at = page(&at, ["debug", "decisions"], [(field, Some(id)), ("limit", Some(&one))])?;
    let found: Vec<Explanation> =
        answer(client.get(at)).await?.map_err(|refused| fault(refused.message))?;
    let none = || usage(format!("no decision with the {field} {id} is in the log of this picker"));
    found.into_iter().next().map(Ok).ok_or_else(none)
}

/// All that is said of the request before its body.
fn headers(args: &ExplainArgs) -> Vec<(Bytes, Bytes)> {
    let line = [(":method", "POST"), (":path", args.path.as_str())];
    let model = args.model.as_deref().map(|model| ("x-llm-d-model-name-rewrite", model));
    let given = args.header.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let owned = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let all = line.into_iter().chain(model).chain(given);
    all.map(|(name, value)| (owned(name), owned(value))).collect()
}

fn print(told: &Told, json: bool) -> Result<ExitCode, Failure> {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colors = stdout().is_terminal() && !no_color;
    let page = match (told, json) {
        (Ok(told), true) => serde_json::to_string_pretty(told).map(|json| json + "\n"),
        (Err(told), true) => serde_json::to_string_pretty(told).map(|json| json + "\n"),
        (Ok(told), false) => Ok(table(told, colors)),
        (Err(Refused { status, reason, message }), false) => {
            Ok(format!("refused with {status}, {reason}: {message}\n"))
        }
    };
    let page = page.map_err(|error| fault(error.to_string()))?;
    say(page.as_bytes()).map_err(|error| fault(error.to_string()))?;
    let placed = told.as_ref().is_ok_and(|told| told.outcome.refused.is_none());
    Ok(if placed { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

fn read(path: &Path) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    let took = if path == Path::new("-") {
        stdin().lock().take(LONGEST).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes))
    };
    took.map_err(|error| usage(format!("{}: {error}", path.display())))?;
    Ok(bytes.into())
}

fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(read(path)?.into())
        .map_err(|error| usage(format!("{}: {error}", path.display())))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("give NAME:VALUE")?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_bad| format!("`{name}` is no header name"))?;
    HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_bad| format!("`{value}` is no header value"))?;
    Ok((name, value))
}

fn decision_id(text: &str) -> Result<String, String> {
    dice(text).map(|_| text.to_owned())
}

fn dice(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        explain: ExplainArgs,
    }

    fn refused(more: [&str; 4]) -> String {
        let args = ["explain", "--body", "-"].into_iter().chain(more);
        Cli::try_parse_from(args).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_the_flag_and_its_value() {
        let at = ["--at", "http://h:1"];
        for (header, says) in [
            (": x", "`` is no header name"),
            ("a b: x", "`a b` is no header name"),
            ("a: x\ny", "is no header value"),
        ] {
            let error = refused([at[0], at[1], "--header", header]);
            let named = format!("'{header}' for '--header <NAME:VALUE>'");
            assert!(error.contains(&named) && error.contains(says), "{error}");
        }
        for address in ["ftp://x", "h:1", "127.0.0.1:9091"] {
            let error = refused(["--at", address, "--header", "a: b"]);
            assert!(error.contains(&format!("'{address}' for '--at <URL>'")), "{error}");
        }
        assert_eq!(header("X-A:  é ").unwrap(), ("x-a".to_owned(), "é".to_owned()));
    }
}
