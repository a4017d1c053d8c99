//! Flags of the reference without an effect here, accepted so that existing deployments start.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Why a flag has no effect.
const MEANINGLESS: &str = "has no meaning here";
const CONFIGURED: &str = "has no effect: give scheme, path, port and insecureSkipVerify to a metrics-data-source in the configuration";

/// Name, whether it is a boolean, why it has no effect.
const FLAGS: &[(&str, Kind, &str)] = &[
    ("allow-experimental-plugins", Kind::Boolean("false"), MEANINGLESS),
    ("destination-endpoint-hint-key", Kind::Value(""), MEANINGLESS),
    ("destination-endpoint-hint-metadata-namespace", Kind::Value(""), MEANINGLESS),
    ("enable-pprof", Kind::Boolean("false"), MEANINGLESS),
    ("model-server-metrics-https-insecure-skip-verify", Kind::Boolean("true"), CONFIGURED),
    ("model-server-metrics-path", Kind::Value("/metrics"), CONFIGURED),
    ("model-server-metrics-port", Kind::Value("0"), CONFIGURED),
    ("model-server-metrics-scheme", Kind::Value("http"), CONFIGURED),
    ("refresh-prometheus-metrics-interval", Kind::Value(""), MEANINGLESS),
    ("zap-devel", Kind::Boolean("false"), MEANINGLESS),
    ("zap-encoder", Kind::Value(""), MEANINGLESS),
    ("zap-log-level", Kind::Value(""), MEANINGLESS),
    ("zap-stacktrace-level", Kind::Value(""), MEANINGLESS),
    ("zap-time-encoding", Kind::Value(""), MEANINGLESS),
];

const HEADING: &str = "Accepted and without effect";

/// The flags without an effect that were given, and asked for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Later {
    given: Vec<(&'static str, &'static str)>,
}

/// What a flag takes, with the value that asks for what happens anyway; so does an empty one.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// May stand alone.
    Boolean(&'static str),
    /// Takes a value.
    Value(&'static str),
}

impl Kind {
    /// Whether `value` asks for something else than what happens.
    fn asks(self, value: &str) -> bool {
        match self {
            Self::Boolean(anyway) => super::boolean(value) != super::boolean(anyway),
            Self::Value(anyway) => !value.is_empty() && value != anyway,
        }
    }
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
                Kind::Boolean(_) => {
                    arg.num_args(0..=1).require_equals(true).default_missing_value("true")
                }
                Kind::Value(_) => arg,
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Later {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let asks = |name, kind: Kind| {
            let last = matches.get_many::<String>(name).and_then(|mut values| values.next_back());
            last.is_some_and(|value| kind.asks(value))
        };
        let flags = FLAGS.iter().filter(|(name, kind, _)| asks(name, *kind));
        Ok(Self { given: flags.map(|&(name, _, why)| (name, why)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
