//! A program in a terminal: a real one of the kernel, by `script`, and what is to be seen in it.

mod picture;

use std::num::NonZeroU16;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Columns and lines.
pub type Size = (u16, u16);

/// A program that runs in a terminal. It is hung up on with this value.
#[derive(Debug)]
pub struct Terminal {
    process: Child,
    keys: ChildStdin,
    seen: watch::Receiver<Seen>,
    _reader: JoinSet<()>,
}

/// The screen, and whether it is the other one that programs take over.
#[derive(Clone, Default)]
struct Seen {
    screen: Option<vt100::Screen>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("text", &self.text()).finish()
    }
}

impl Seen {
    fn text(&self) -> String {
        self.screen.as_ref().map(vt100::Screen::contents).unwrap_or_default()
    }
}

impl Terminal {
    /// Runs a program in a terminal of this size.
    ///
    /// # Errors
    /// When there is no `script`.
    pub fn start(program: &Path, args: &[&str], (columns, lines): Size) -> Result<Self> {
        let size = |length: u16| NonZeroU16::new(length).context("a terminal of no size");
        let (wide, high) = (size(columns)?, size(lines)?);
        let program = program.display().to_string();
        let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let words = std::iter::once(program.as_str()).chain(args.iter().copied());
        let words: Vec<_> = words.map(quoted).collect();
        let line = format!("stty cols {columns} rows {lines}; exec {}", words.join(" "));
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
        command.env("TERM", "xterm-256color").env("SHELL", "/bin/sh").env_remove("NO_COLOR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.kill_on_drop(true).spawn().context("could not run script")?;
        let keys = process.stdin.take().context("no keys")?;
        let mut output = process.stdout.take().context("no screen")?;
        let (tell, seen) = watch::channel(Seen::default());
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let (mut parser, mut bytes) = (vt100::Parser::new(high, wide, 0), [0; 4096]);
            while let Ok(count @ 1..) = output.read(&mut bytes).await {
                parser.process(bytes.get(..count).unwrap_or_default());
                tell.send_replace(Seen { screen: Some(parser.screen().clone()) });
            }
        });
        Ok(Self { process, keys, seen, _reader: reader })
    }

    /// Types; `\r` is enter, `\x1b` escape, `\x03` Ctrl-C.
    ///
    /// # Errors
    /// When the program has ended.
    pub async fn press(&mut self, keys: &str) -> Result<()> {
        self.keys.write_all(keys.as_bytes()).await?;
        Ok(self.keys.flush().await?)
    }

    /// Waits until the screen is as wanted.
    ///
    /// # Errors
    /// When it is not in time, or the program ends before; the error shows the screen.
    pub async fn until(&mut self, patience: Duration, is: impl Fn(&str) -> bool) -> Result<String> {
        let shown = async { self.seen.wait_for(|seen| is(&seen.text())).await.map(|it| it.text()) };
        if let Ok(Ok(text)) = timeout(patience, shown).await {
            return Ok(text);
        }
        anyhow::bail!("not within {patience:?}:\n{}", self.text())
    }

    /// What is to be seen.
    pub fn text(&self) -> String {
        self.seen.borrow().text()
    }

    /// Whether the program has the terminal for itself, on the other screen.
    pub fn is_taken(&self) -> bool {
        self.seen.borrow().screen.as_ref().is_some_and(vt100::Screen::alternate_screen)
    }

    /// Waits for the end of the program and of its output.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let ended = timeout(patience, self.process.wait()).await;
        let status = ended.with_context(|| format!("it still runs:\n{}", self.text()))??;
        while self.seen.changed().await.is_ok() {}
        Ok(status)
    }

    /// The screen as a page for a browser, dark.
    pub fn picture(&self) -> String {
        self.seen.borrow().screen.as_ref().map(picture::page).unwrap_or_default()
    }
}
