//! A child process whose output is captured and which ends with its handle.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal};
use tokio::sync::watch;

use crate::wait::eventually;

/// Lines kept of a process; older ones are dropped.
const LINES: usize = 2_000;
/// Bytes kept of a line; the rest counts as the next line.
const LINE_BYTES: u64 = 16 * 1024;
/// From the closing of the output to the end of the process.
const EXIT: Duration = Duration::from_secs(1);
/// Runs its arguments as a program, in its own place, and kills it once standard input is closed; then
/// it removes the folder that `LEASH_FOLDER` names. Whoever waits is a child of the program: with
/// another parent the program has ended, and its id may be another's. It outlives Ctrl-C to clean up.
const LEASH: &str = r#"exec 3<&0
{
  trap '' HUP INT TERM
  while read -r _; do :; done <&3
  read -r _ _ _ parent _ </proc/self/stat
  [ "$parent" = $$ ] && kill -KILL $$
  [ -z "$LEASH_FOLDER" ] || rm -rf "$LEASH_FOLDER"
} >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null"#;
/// Runs its arguments as a program, in its own place, and kills all of its process group, itself included, once standard
/// input is closed. The group cannot be another's: whoever waits belongs to it.
const GROUP_LEASH: &str = r#"exec 3<&0
{
  trap '' HUP INT TERM
  while read -r _; do :; done <&3
  kill -KILL 0
} >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null"#;
/// Lines shown of a process that ended too early or was alive when a test failed.
const TAIL: usize = 40;

/// A running program. Dropping it kills the program and waits for its end; when that happens in a
/// panic, the last lines of its output are printed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: watch::Receiver<Output>,
}

impl Process {
    /// Starts `command` with its standard output and standard error captured, line by line, in the
    /// order of arrival.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null());
        let name = command.get_program().to_string_lossy().into_owned();
        Self::captured(command, name)
    }

    /// Like [`Process::spawn`], for a program that must not outlive this process even when its handle
    /// is never dropped, as in a static, or when this process is killed; with the program goes `folder`, if one is given.
    ///
    /// The leash is the program's standard input. The kernel's own means (`PDEATHSIG`) will not do: it
    /// strikes when the *thread* ends that started the program, and each test is a thread.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn leashed(program: &Command, folder: Option<&Path>) -> Result<Self> {
        let name = program.get_program().to_string_lossy().into_owned();
        let mut command = Command::new("sh");
        command.args(["-c", LEASH, "leash"]).arg(program.get_program()).args(program.get_args());
        command.envs(folder.map(|folder| ("LEASH_FOLDER", folder))).stdin(Stdio::piped());
        Self::captured(command, name)
    }

    /// Like [`Process::leashed`], for a program whose own children must go with it, as they would not when it is killed.
    /// Signals from a terminal do not reach it.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn leashed_group(program: &Command) -> Result<Self> {
        let name = program.get_program().to_string_lossy().into_owned();
        let mut command = Command::new("sh");
        command
            .args(["-c", GROUP_LEASH, "leash"])
            .arg(program.get_program())
            .args(program.get_args());
        command.process_group(0).stdin(Stdio::piped());
        Self::captured(command, name)
    }

    fn captured(mut command: Command, name: String) -> Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("could not start {name}"))?;
        let (sender, output) = watch::channel(Output::default());
        let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        for pipe in [stdout, stderr].into_iter().flatten() {
            let sender = sender.clone();
            thread::spawn(move || capture(pipe, &sender));
        }
        Ok(Self { name, child, output })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The captured output so far, at most its last 2,000 lines.
    pub fn output(&self) -> String {
        self.output.borrow().to_string()
    }

    /// Waits until `found` makes something of the lines of output so far; it is called again with
    /// all of them when there are more.
    ///
    /// # Errors
    /// When the process ends first, or `deadline` passes; the error shows the output.
    pub async fn find<T>(
        &mut self,
        deadline: Duration,
        mut found: impl FnMut(&[&str]) -> Option<T>,
    ) -> Result<T> {
        let mut value = None;
        let mut output = self.output.clone();
        let seen = output.wait_for(|output| {
            let lines: Vec<&str> = output.lines.iter().map(String::as_str).collect();
            value = found(&lines);
            value.is_some()
        });
        let seen = tokio::time::timeout(deadline, seen).await.map(|seen| seen.is_ok());
        match (value, seen) {
            (Some(value), _) => Ok(value),
            (None, Ok(_)) => Err(self.ended().await),
            (None, Err(_)) => {
                bail!(
                    "{} did not print what was expected:
{}",
                    self.name,
                    self.output()
                )
            }
        }
    }

    /// Runs `work` unless the process ends before it is done.
    ///
    /// # Errors
    /// Those of `work`, or the end of the process with the last of its output.
    pub async fn while_alive<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut output = self.output.clone();
        tokio::select! {
            result = work => result,
            _ = output.wait_for(|_| false) => Err(self.ended().await),
        }
    }

    /// The error that the process has ended, which its closed output shows.
    async fn ended(&mut self) -> anyhow::Error {
        let status = match self.wait(EXIT).await {
            Ok(status) => status.to_string(),
            Err(_) => "output closed".to_owned(),
        };
        anyhow!(
            "{} ended ({status}); its output:
{}",
            self.name,
            self.output.borrow().tail(TAIL)
        )
    }

    /// Asks the process to end (SIGTERM).
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops the process where it is (SIGSTOP): its connections stay open and nothing answers.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen process go on (SIGCONT).
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("could not send {signal:?} to {}", self.name))
    }

    /// Kills the process (SIGKILL) and waits for its end. Does nothing if it has ended.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.child.kill().with_context(|| format!("could not kill {}", self.name))?;
        Ok(self.child.wait()?)
    }

    /// The exit status, if the process has ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// When it has not ended within `deadline`; the error shows the output.
    pub async fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let child = &mut self.child;
        let ended = eventually(deadline, async || match child.try_wait()? {
            Some(status) => Ok(status),
            None => bail!("still running"),
        });
        ended.await.with_context(|| format!("{}:\n{}", self.name, *self.output.borrow()))
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "shown with the failed test")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- last output of {}\n{}", self.name, self.output.borrow().tail(TAIL));
        }
        drop(self.kill());
    }
}

/// Captured lines, the newest last.
#[derive(Debug, Default)]
struct Output {
    lines: VecDeque<String>,
}

impl Output {
    fn push(&mut self, line: String) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    fn tail(&self, count: usize) -> String {
        let skipped = self.lines.len().saturating_sub(count);
        self.lines.iter().skip(skipped).flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tail(LINES))
    }
}

/// Reads lines until the pipe closes, so that the process never blocks on its output.
fn capture(pipe: impl Read, output: &watch::Sender<Output>) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while matches!(reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        output.send_modify(|output| output.push(text));
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn(command).unwrap()
    }

    #[tokio::test]
    async fn line_of_either_stream_is_found() {
        let mut process = shell("echo one; echo two >&2; exec sleep 60");
        for wanted in ["one", "two"] {
            let found = |lines: &[&str]| lines.contains(&wanted).then_some(());
            process.find(SOON, found).await.unwrap();
        }
    }

    #[tokio::test]
    async fn end_before_the_line_fails_at_once_with_the_output() {
        let error =
            shell("echo broken config; exit 3").find(SOON, |_| None::<()>).await.unwrap_err();
        assert!(
            error.to_string().contains("ended (exit status: 3); its output:\nbroken config"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn sigterm_ends_the_process() {
        let mut process = shell("exec sleep 60");
        process.terminate().unwrap();
        assert_eq!(process.wait(SOON).await.unwrap().signal(), Some(15));
    }

    #[test]
    fn drop_kills_the_process() {
        let process = shell("exec sleep 60");
        let id = Pid::from_child(&process.child);
        drop(process);
        assert!(rustix::process::test_kill_process(id).is_err());
    }

    #[tokio::test]
    async fn leashed_program_ends_with_its_leash_and_its_folder_goes() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Command::new("sh");
        program.args(["-c", "echo here; exec sleep 60"]);
        let mut process = Process::leashed(&program, Some(folder.path())).unwrap();
        process.find(SOON, |lines| lines.contains(&"here").then_some(())).await.unwrap();
        drop(process.child.stdin.take());
        assert_eq!(process.wait(SOON).await.unwrap().signal(), Some(9));
        let gone = eventually(SOON, async || {
            anyhow::ensure!(!folder.path().exists(), "the folder is still there");
            Ok(())
        });
        gone.await.unwrap();
    }

    #[tokio::test]
    async fn children_of_a_leashed_group_go_with_it() {
        let mut program = Command::new("sh");
        program.args(["-c", "sleep 60 & echo $!; wait"]);
        let mut process = Process::leashed_group(&program).unwrap();
        let child = process.find(SOON, |lines| Pid::from_raw(lines.first()?.parse().ok()?));
        let child = child.await.unwrap();
        process.kill().unwrap();
        let gone = eventually(SOON, async || {
            anyhow::ensure!(rustix::process::test_kill_process(child).is_err(), "it still runs");
            Ok(())
        });
        gone.await.unwrap();
    }

    #[test]
    fn oldest_lines_are_dropped() {
        let mut output = Output::default();
        (0..=LINES).for_each(|number| output.push(number.to_string()));
        assert_eq!(output.lines.len(), LINES);
        assert_eq!(output.tail(1), format!("{LINES}\n"));
        assert_eq!(output.lines[0], "1");
    }
}
