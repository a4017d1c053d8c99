//! The command line: which command, with what exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | good |
//! | 1 | what was to be checked is bad |
//! | 64 | wrong usage |
//! | 70 | our fault, or the machine's |
//! | 78 | bad configuration |

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::{Addresses, App, StartError};
use crate::config::{Flags, LogFormat, Traces, argv};
use crate::server::said::Said;
use crate::sim::{self, SimArgs};
use crate::telemetry;

use self::check::CheckArgs;
use self::doctor::DoctorArgs;
use self::drain::DrainArgs;
use self::explain::ExplainArgs;
use self::replay::ReplayArgs;
use self::shell::{CompletionsArgs, ManArgs};
use self::top::TopArgs;

mod check;
mod doctor;
mod drain;
mod explain;
mod failure;
mod remote;
mod replay;
mod shell;
mod top;

const USAGE: u8 = 64;
const FAULT: u8 = 70;
const CONFIGURATION: u8 = 78;

/// The endpoint picker for Kubernetes inference gateways: an Envoy external processor that places every LLM request on
/// the replica that will answer it soonest.
#[derive(Debug, Parser)]
#[command(name = "lodesman", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(CheckArgs),
    Sim(Box<SimArgs>),
    Explain(Box<ExplainArgs>),
    Drain(DrainArgs),
    Replay(Box<ReplayArgs>),
    Top(Box<TopArgs>),
    Doctor(Box<DoctorArgs>),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Runs the command that `args` (program name first) ask for.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(argv::spelled(args, &Flags::names())) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.command {
        None => match cli.flags.kubernetes.contradiction() {
            Some(why) => fail(USAGE, &why),
            None => serve(cli.flags),
        },
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Sim(args)) => simulate(*args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Drain(args)) => drain::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Completions(args)) => told(shell::completions(Cli::command(), args)),
        Some(Command::Man(args)) => shell::man(Cli::command(), &args),
    }
}

/// Writes to standard output; that nobody reads on is no failure.
fn say(text: &[u8]) -> std::io::Result<()> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn told(printed: std::io::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(FAULT, &error.to_string()),
    }
}

fn usage(error: &clap::Error) -> ExitCode {
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && error.get(ContextKind::SuggestedSubcommand).is_none()
    {
        return fail(USAGE, &format!("there is no subcommand `{name}`: without one it serves"));
    }
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    match error.print() {
        Ok(()) if asked => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::from(USAGE),
    }
}

fn serve(flags: Flags) -> ExitCode {
    let terminal = std::io::stderr().is_terminal();
    let format =
        flags.log.log_format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let directives = std::env::var("RUST_LOG").ok();
    let log = match telemetry::start(flags.log.verbosity, directives.as_deref(), format) {
        Ok(log) => log,
        Err(error) => return fail(USAGE, &format!("RUST_LOG: {error}")),
    };
    log_panics();
    raise_descriptors();
    match (data_runtime(), control_runtime()) {
        (Ok(data), Ok(control)) => {
            let app = App::new(flags).with_log_level(log.level).with_traces(traces());
            serve_on(&data, control, app)
        }
        (Err(error), _) | (_, Err(error)) => {
            fail(FAULT, &format!("cannot start a runtime: {error}"))
        }
    }
}

/// Where traces go by the environment; a mistake in it costs traces alone.
fn traces() -> Option<Traces> {
    Traces::read(|name| std::env::var(name).ok()).unwrap_or_else(|error| {
        tracing::warn!(%error, "no traces are sent");
        None
    })
}

fn serve_on(data: &Runtime, control: Runtime, app: App) -> ExitCode {
    let (data_handle, control_handle) = (data.handle().clone(), control.handle().clone());
    let over = CancellationToken::new();
    let until = over.clone();
    let control_thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        control.block_on(until.cancelled());
        control.shutdown_background();
    });
    let Ok(control_thread) = control_thread else { return fail(FAULT, "cannot start a thread") };
    let code = data.block_on(async {
        let (stop, at_once) = match signals() {
            Ok(tokens) => tokens,
            Err(error) => return fail(FAULT, &format!("cannot take signals: {error}")),
        };
        let running = match Box::pin(app.start(data_handle, control_handle)).await {
            Ok(running) => running,
            Err(error) => return start_failed(&error),
        };
        announce(&running.addresses);
        match running.stop_on(stop, at_once).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(error = %error, "stopped by a fault");
                ExitCode::from(if error.is_setup() { CONFIGURATION } else { FAULT })
            }
        }
    });
    over.cancel();
    if control_thread.join().is_err() { ExitCode::from(FAULT) } else { code }
}

fn announce(addresses: &Addresses) {
    let Addresses { grpc, health, metrics, admin, keda } = addresses;
    let always = [("ext_proc", grpc), ("health", health), ("metrics", metrics), ("admin", admin)];
    let keda = keda.iter().map(|keda| ("keda", keda));
    for (listener, address) in keda.chain(always) {
        tracing::info!(listener, address = %address, "listening");
    }
}

fn start_failed(error: &StartError) -> ExitCode {
    match error {
        StartError::Configuration(name, problems) => {
            let lines: Vec<String> =
                problems.iter().map(|problem| problem.in_file(name).to_string()).collect();
            fail(CONFIGURATION, &lines.join("\n"))
        }
        StartError::Setup(message) => fail(CONFIGURATION, message),
        StartError::System(error) => fail(FAULT, &format!("{error:#}")),
    }
}

/// Two tokens: for the first SIGTERM, SIGINT or SIGHUP, and for the second.
fn signals() -> std::io::Result<(CancellationToken, CancellationToken)> {
    let [mut terminate, mut interrupt, mut hangup] = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ];
    let (stop, at_once) = (CancellationToken::new(), CancellationToken::new());
    let tokens = [stop.clone(), at_once.clone()];
    let watch = async move {
        for token in tokens {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
            token.cancel();
        }
    };
    tokio::runtime::Handle::current().spawn(watch);
    Ok((stop, at_once))
}

fn simulate(args: SimArgs) -> ExitCode {
    let runtime = match data_runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAULT, &format!("cannot start a runtime: {error}")),
    };
    runtime.block_on(async {
        let stop = match signals() {
            Ok((stop, _)) => stop,
            Err(error) => return fail(FAULT, &format!("cannot take signals: {error}")),
        };
        match sim::run(args, stop.cancelled_owned()).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(CONFIGURATION, &format!("{error:#}")),
        }
    })
}

fn data_runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().thread_name("data").enable_all().build()
}

fn control_runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Takes all file descriptors that it may have: a connection to each endpoint may be more than a shell gives.
fn raise_descriptors() {
    let may = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: may.maximum, ..may }) {
        tracing::warn!(%error, limit = may.current, "limit of file descriptors stays");
    }
}

/// Panics are contained where they can be; here they get a line in the log, one in a while.
fn log_panics() {
    let said = Said::default();
    std::panic::set_hook(Box::new(move |panic| {
        if !said.may_speak() {
            return;
        }
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::capture().to_string();
        tracing::error!(location, backtrace, "panic");
    }));
}

/// Says on standard error why nothing runs.
fn fail(code: u8, message: &str) -> ExitCode {
    let told = writeln!(std::io::stderr(), "lodesman: {message}");
    if told.is_ok() { ExitCode::from(code) } else { ExitCode::from(FAULT) }
}
