//! Logs: one subscriber, JSON or text, its level changeable while running. Traces and recordings are below.
//!
//! Lines go to a thread of their own through a bounded queue: who logs never waits for a slow terminal or pipe. When
//! the queue is full, lines are dropped.

use tracing::Subscriber;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::config::LogFormat;

#[cfg(feature = "otel")]
pub mod otlp;
pub mod recorder;

/// Lines that may wait for the writer, some megabytes at most.
const QUEUED_LINES: usize = 8_192;

/// The level of this program's own lines by `-v`; the last for all higher values.
const LEVELS: [LevelFilter; 6] = [
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

/// The running log; dropping it writes what is queued.
#[derive(Debug)]
pub struct Telemetry {
    /// Changes what is logged.
    pub level: LogLevel,
    _writer: WorkerGuard,
}

/// What is logged, changeable while running.
#[derive(Clone, Debug)]
pub struct LogLevel {
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Why there is no log, or no change of it.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A filter that is none.
    #[error("no log filter, give directives such as lodesman=debug,h2=info")]
    Filter(#[from] ParseError),
    /// A word that is no level.
    #[error(
        "give 0 to 5 as in -v, a level such as debug, or directives such as lodesman=debug,h2=info"
    )]
    Level,
    /// The process has a log already.
    #[error("the process has a log already")]
    Started(#[from] SetGlobalDefaultError),
    /// The log is gone.
    #[error("the log is gone")]
    Gone(#[from] reload::Error),
}

/// Begins to log to standard error, for the whole process.
///
/// `verbosity` is that of `-v`; `directives`, the value of `RUST_LOG`, stand over it unless empty.
///
/// # Errors
/// When the directives are none, or the process has a log.
pub fn start(
    verbosity: u8,
    directives: Option<&str>,
    format: LogFormat,
) -> Result<Telemetry, TelemetryError> {
    let filter = filter(verbosity, directives)?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(QUEUED_LINES)
        .thread_name("log")
        .finish(std::io::stderr());
    let (subscriber, level) = subscriber(filter, format, writer);
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(Telemetry { level, _writer: guard })
}

impl LogLevel {
    /// The filter that holds, as directives; empty once the log is gone.
    pub fn get(&self) -> String {
        self.filter.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Replaces the filter: `0` to `5` as in `-v` or a level as `debug` for this program's own lines, or directives
    /// as `lodesman::scrape=trace,h2=debug`.
    ///
    /// # Errors
    /// When the text is neither; the filter stays.
    pub fn set(&self, text: &str) -> Result<(), TelemetryError> {
        let verbosity = text.parse().ok().and_then(|at: usize| LEVELS.get(at).copied());
        let named = || text.parse().ok().filter(|_| text.starts_with(char::is_alphabetic));
        let filter = match verbosity.or_else(named) {
            Some(level) => own(level),
            // A lone word would be the name of a program part, and mute all others.
            None if text.contains('=') => EnvFilter::builder().parse(text)?,
            None => return Err(TelemetryError::Level),
        };
        Ok(self.filter.reload(filter)?)
    }
}

fn filter(verbosity: u8, directives: Option<&str>) -> Result<EnvFilter, ParseError> {
    if let Some(directives) = directives.filter(|directives| !directives.is_empty()) {
        return EnvFilter::builder().parse(directives);
    }
    let level = LEVELS.get(usize::from(verbosity)).copied().unwrap_or(LevelFilter::TRACE);
    Ok(own(level))
}

/// Our own lines from `level` on, those of libraries from warnings on. The client of Kubernetes is mute: it would log each
/// attempt of an outage, and gives us the error besides.
fn own(level: LevelFilter) -> EnvFilter {
    let libraries = level.min(LevelFilter::WARN);
    EnvFilter::new(format!("{libraries},kube_client=off,{}={level}", env!("CARGO_CRATE_NAME")))
}

fn subscriber<W>(
    filter: EnvFilter,
    format: LogFormat,
    writer: W,
) -> (impl Subscriber + Send + Sync, LogLevel)
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(writer);
    let lines = match format {
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
        LogFormat::Text => lines.with_ansi(false).boxed(),
    };
    (Registry::default().with(filter).with(lines), LogLevel { filter: handle })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock())).expect("UTF-8")
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log(verbosity: u8, format: LogFormat) -> (impl Subscriber + Send + Sync, LogLevel, Lines) {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, level) =
            subscriber(filter(verbosity, None).expect("no directives"), format, move || {
                writer.clone()
            });
        (subscriber, level, lines)
    }

    #[test]
    fn json_lines_have_the_fields_at_the_top() {
        let (subscriber, _, lines) = log(2, LogFormat::Json);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(endpoint = "pod-1", elapsed_ms = 7, "endpoint unreachable");
        });
        let line: serde_json::Value = serde_json::from_str(&lines.take()).expect("one JSON line");
        assert_eq!((&line["endpoint"], &line["elapsed_ms"]), (&"pod-1".into(), &7.into()));
        assert_eq!(
            (&line["message"], &line["level"]),
            (&"endpoint unreachable".into(), &"INFO".into())
        );
    }

    // FR-131
    #[test]
    fn the_level_changes_while_running_and_a_wrong_one_changes_nothing() {
        let (subscriber, level, lines) = log(2, LogFormat::Text);
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("one");
            level.set("debug").expect("a level");
            tracing::debug!("two");
            level.set("lodesman=nonsense").expect_err("no level");
            tracing::debug!("three");
            level.set("lodesman=off").expect("directives");
            tracing::error!("four");
            assert_eq!(level.get(), "lodesman=off");
        });
        let text = lines.take();
        assert!(
            !text.contains("one")
                && text.contains("two")
                && text.contains("three")
                && !text.contains("four"),
            "{text}"
        );
    }

    // FR-131
    #[test]
    fn verbosity_is_for_our_own_lines() {
        let text = |verbosity| filter(verbosity, None).expect("no directives").to_string();
        let has = |verbosity, own: &str| text(verbosity).contains(own);
        assert!(
            has(0, "lodesman=error")
                && has(2, "lodesman=info")
                && has(4, "lodesman=debug")
                && has(200, "lodesman=trace")
        );
        assert!(text(5).contains("warn") && !text(0).contains("warn"), "{} {}", text(5), text(0));
        assert_eq!(filter(5, Some("h2=info")).expect("directives").to_string(), "h2=info");
        assert!(filter(2, Some("a=b=c")).is_err());
    }

    #[test]
    fn a_word_that_is_no_level_leaves_the_filter_as_it_is() {
        let (_subscriber, level) =
            subscriber(own(LevelFilter::INFO), LogFormat::Text, std::io::sink);
        let before = level.get();
        for bad in ["99", "nonsense", "", "lodesman=nix"] {
            assert!(level.set(bad).is_err(), "{bad}");
            assert_eq!(level.get(), before);
        }
        for (given, level_of) in [("4", "debug"), ("0", "error"), ("trace", "trace")] {
            level.set(given).unwrap();
            assert!(
                level.get().contains(&format!("lodesman={level_of}")),
                "{given}: {}",
                level.get()
            );
        }
    }
}
