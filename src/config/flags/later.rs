//! Flags of the reference without an effect here, accepted so that existing deployments start.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Why a flag has no effect.
const NOT_YET: &str = "is not supported yet";
const MEANINGLESS: &str = "has no meaning here";

/// Name, whether it is a boolean, why it has no effect.
const FLAGS: &[(&str, Kind, &str)] = &[
    ("allow-experimental-plugins", Kind::Boolean, MEANINGLESS),
    ("destination-endpoint-hint-key", Kind::Value, MEANINGLESS),
    ("destination-endpoint-hint-metadata-namespace", Kind::Value, MEANINGLESS),
    ("enable-pprof", Kind::Boolean, MEANINGLESS),
    ("metrics-cert-dir", Kind::Value, NOT_YET),
    ("metrics-client-ca-file", Kind::Value, NOT_YET),
    ("metrics-endpoint-auth", Kind::Boolean, NOT_YET),
    ("model-server-metrics-https-insecure-skip-verify", Kind::Boolean, NOT_YET),
    ("model-server-metrics-path", Kind::Value, NOT_YET),
    ("model-server-metrics-port", Kind::Value, NOT_YET),
    ("model-server-metrics-scheme", Kind::Value, NOT_YET),
    ("refresh-prometheus-metrics-interval", Kind::Value, MEANINGLESS),
    ("tracing", Kind::Boolean, NOT_YET),
    ("zap-devel", Kind::Boolean, MEANINGLESS),
    ("zap-encoder", Kind::Value, MEANINGLESS),
    ("zap-log-level", Kind::Value, MEANINGLESS),
    ("zap-stacktrace-level", Kind::Value, MEANINGLESS),
    ("zap-time-encoding", Kind::Value, MEANINGLESS),
];

const HEADING: &str = "Accepted and without effect";

/// The flags without an effect that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Later {
    given: Vec<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// May stand alone.
    Boolean,
    /// Takes a value.
    Value,
}

impl Later {
    /// A sentence for each.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.given.iter().map(|(flag, why)| format!("--{flag} {why}"))
    }
}

impl Args for Later {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(|&(name, kind, why)| {
            let arg = Arg::new(name).long(name).action(ArgAction::Append).value_name("VALUE");
            let arg = arg.help(format!("Accepted; {why}")).help_heading(HEADING);
            match kind {
                Kind::Boolean => {
                    arg.num_args(0..=1).require_equals(true).default_missing_value("true")
                }
                Kind::Value => arg,
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Later {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given =
            |name| matches.value_source(name).is_some_and(|from| from == ValueSource::CommandLine);
        let flags = FLAGS.iter().filter(|(name, ..)| given(name));
        Ok(Self { given: flags.map(|&(name, _, why)| (name, why)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
