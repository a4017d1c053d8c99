//! A real headless Chromium, driven by its `DevTools` protocol over a pair of pipes.
//!
//! The pipes are the leash: Chromium ends when they close, however this process ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Longest wait for an answer of the browser: its start is among them.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs its arguments with descriptors 3 and 4, which the protocol reads and writes, as pipes of ours.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// A browser with one page. It ends with this value.
#[derive(Debug)]
pub struct Browser {
    _process: Child,
    _profile: TempDir,
    ask: ChildStdin,
    told: BufReader<ChildStdout>,
    last: u64,
    /// Names the page in messages; empty before it is there.
    page: String,
    errors: Vec<String>,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of pixels, as CSS counts them.
    pub width: u32,
    /// Lines of pixels.
    pub height: u32,
    /// Whether dark colors are preferred.
    pub dark: bool,
}

impl Browser {
    /// Starts the Chromium that `scripts/chromium.sh` finds; none where there is none, which is an error where `CI` is
    /// `true`.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start() -> Result<Option<Self>> {
        let Some(binary) = binary().await? else { return Ok(None) };
        let profile = tempfile::Builder::new().prefix("chromium-").tempdir()?;
        let mut command = Command::new("sh");
        command.args(["-c", PIPES, "chromium"]).arg(&binary);
        // Inside containers there is neither a sandbox nor enough shared memory; the page is our own.
        command.args(["--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process =
            command.spawn().with_context(|| format!("could not start {}", binary.display()))?;
        let ask = process.stdin.take().context("no pipe to the browser")?;
        let told = BufReader::new(process.stdout.take().context("no pipe from the browser")?);
        let (page, errors) = (String::new(), Vec::new());
        let mut browser =
            Self { _process: process, _profile: profile, ask, told, last: 0, page, errors };
        browser.attach().await?;
        Ok(Some(browser))
    }

    async fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let attach = json!({"targetId": at(&target, "/targetId"), "flatten": true});
        let session = self.call("Target.attachToTarget", attach).await?;
        at(&session, "/sessionId").as_str().context("no session")?.clone_into(&mut self.page);
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(())
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// When there is nothing.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        let went = self.call("Page.navigate", json!({"url": url})).await?;
        match went.get("errorText").and_then(Value::as_str) {
            Some(why) => bail!("{url}: {why}"),
            None => Ok(()),
        }
    }

    /// Changes how the page is looked at.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn look(&mut self, Look { width, height, dark }: Look) -> Result<()> {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).await.map(drop)
    }

    /// The value of an expression of the page.
    ///
    /// # Errors
    /// When it throws.
    pub async fn eval(&mut self, expression: &str) -> Result<Value> {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let told = self.call("Runtime.evaluate", ask).await?;
        ensure!(told.get("exceptionDetails").is_none(), "{expression}: {told}");
        Ok(at(&told, "/result/value").clone())
    }

    /// Presses a key by its name: `Tab`, `Enter`, `Escape`, `ArrowDown`, or a letter.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn press(&mut self, key: &str) -> Result<()> {
        let codes = [("Tab", 9), ("Enter", 13), ("Escape", 27), ("ArrowDown", 40)];
        let code = codes.iter().find(|(name, _)| *name == key).map(|(_, code)| *code);
        let text = match (key, code) {
            ("Enter", _) => Some("\r"),
            (_, Some(_)) => None,
            (letter, None) => Some(letter),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = text.filter(|_| kind == "keyDown");
            let mut event = serde_json::Map::new();
            event.insert("type".to_owned(), json!(kind));
            event.insert("key".to_owned(), json!(key));
            event.extend(text.map(|text| ("text".to_owned(), json!(text))));
            event.extend(code.map(|code| ("windowsVirtualKeyCode".to_owned(), json!(code))));
            self.call("Input.dispatchKeyEvent", Value::Object(event)).await?;
        }
        Ok(())
    }

    /// What is to be seen, as PNG.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn screenshot(&mut self) -> Result<Vec<u8>> {
        let told = self.call("Page.captureScreenshot", json!({"format": "png"})).await?;
        Ok(STANDARD.decode(at(&told, "/data").as_str().context("no picture")?)?)
    }

    /// Errors on the console and exceptions so far.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(message) = message.as_object_mut().filter(|_| !self.page.is_empty()) {
            message.insert("sessionId".to_owned(), json!(self.page));
        }
        let answered = timeout(PATIENCE, self.exchange(message.to_string().into_bytes())).await;
        let answer = answered.with_context(|| format!("{method}: no answer"))??;
        match answer.get("error") {
            Some(error) => bail!("{method}: {error}"),
            None => Ok(at(&answer, "/result").clone()),
        }
    }

    /// Sends a message and reads until its answer comes; a zero ends each.
    async fn exchange(&mut self, mut message: Vec<u8>) -> Result<Value> {
        message.push(0);
        self.ask.write_all(&message).await?;
        loop {
            let mut bytes = Vec::new();
            self.told.read_until(0, &mut bytes).await?;
            ensure!(bytes.pop() == Some(0), "the browser has ended");
            let told: Value = serde_json::from_slice(&bytes)?;
            if at(&told, "/id").as_u64() == Some(self.last) {
                return Ok(told);
            }
            self.errors.extend(error(&told));
        }
    }
}

/// What went wrong in the page, if an event tells that.
fn error(event: &Value) -> Option<String> {
    let params = at(event, "/params");
    let wrong = match at(event, "/method").as_str()? {
        "Runtime.exceptionThrown" => true,
        "Runtime.consoleAPICalled" => {
            ["error", "assert"].iter().any(|it| at(params, "/type") == *it)
        }
        "Log.entryAdded" => at(params, "/entry/level") == "error",
        _ => false,
    };
    wrong.then(|| params.to_string())
}

/// What stands at a place of a message; null where there is nothing.
fn at<'a>(message: &'a Value, place: &str) -> &'a Value {
    static NOTHING: Value = Value::Null;
    message.pointer(place).unwrap_or(&NOTHING)
}

/// The browser that `scripts/chromium.sh` finds.
async fn binary() -> Result<Option<PathBuf>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/chromium.sh");
    let output = Command::new(&script).stderr(Stdio::inherit()).output().await;
    let output = output.with_context(|| format!("could not run {}", script.display()))?;
    if output.status.success() {
        return Ok(Some(PathBuf::from(String::from_utf8(output.stdout)?.trim_end())));
    }
    ensure!(std::env::var("CI").as_deref() != Ok("true"), "{} failed", script.display());
    Ok(None)
}
