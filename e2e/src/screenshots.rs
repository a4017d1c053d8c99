//! Pictures of the real thing for the documentation: `lodesman top` in a real terminal and the web page in a real browser,
//! at a picker with traffic.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::chat::PATH;
use crate::envoy::{Destination, ExtProc, Pool};
use crate::lodesman::{Fleet, Lodesman};
use crate::wait::eventually;
use crate::{Browser, Client, Envoy, EnvoyConfig, Look, Terminal};

/// Longest time until something is to be seen.
const SOON: Duration = Duration::from_mins(1);

/// Clients that ask without pause.
const CLIENTS: usize = 56;

/// Letters of the text with which all prompts of a kind begin.
const SHARED: usize = 9_000;

/// Kinds of prompts.
const KINDS: usize = 12;

/// What Kubernetes might call the servers.
const NAMES: [&str; 6] = ["b8k2f", "c5tqd", "h2wzr", "mk9vx", "q7n4s", "x2x4q"];

/// Makes all pictures, in this folder.
///
/// # Errors
/// When a part does not start, there is no browser, or something is not to be seen in time.
pub async fn take(binary: &Path, folder: &Path) -> Result<()> {
    let stage = Stage::start(binary).await?;
    let mut traffic = JoinSet::new();
    for number in 0..CLIENTS {
        traffic.spawn(ask_on(stage.envoy.client(), number));
    }
    let mut browser = Browser::start().await?.context("there is no Chromium")?;
    let at = format!("http://{}", stage.picker.admin);
    browser.look(Look { width: 1240, height: 720, dark: false }).await?;
    browser.open(&at).await?;
    // Until there is something to be seen: speeds learnt, caches filled, a line of requests per second.
    tokio::time::sleep(Duration::from_secs(45)).await;
    pages(&mut browser, folder).await?;
    let mut terminal = Terminal::start(binary, &["top", "--at", &at, "--sort", "kv"], (150, 32))?;
    terminal.until(SOON, |screen| screen.contains("req/s") && screen.contains("best of")).await?;
    picture(&mut browser, &terminal, folder.join("top.png")).await?;
    terminal.press("\t\x1b[B\r").await?;
    terminal.until(SOON, |screen| screen.contains("chosen by")).await?;
    picture(&mut browser, &terminal, folder.join("top-explain.png")).await
}

/// The web page, light and dark, wide and narrow, and a decision on it.
async fn pages(browser: &mut Browser, folder: &Path) -> Result<()> {
    let looks = [
        ("page-light.png", Look { width: 1240, height: 720, dark: false }),
        ("page-dark.png", Look { width: 1240, height: 720, dark: true }),
        ("page-narrow.png", Look { width: 360, height: 720, dark: false }),
    ];
    for (name, look) in looks {
        browser.look(look).await?;
        shown(browser, "document.querySelectorAll('#decisions tbody tr').length > 10").await?;
        fs::write(folder.join(name), browser.screenshot().await?)?;
    }
    browser.look(Look { width: 1240, height: 720, dark: false }).await?;
    browser
        .eval("document.querySelector('#decisions tbody tr:nth-child(3) button').click()")
        .await?;
    shown(browser, "/chosen by/.test(document.getElementById('dialog').innerText)").await?;
    fs::write(folder.join("page-explain.png"), browser.screenshot().await?)?;
    browser.press("Escape").await
}

async fn shown(browser: &mut Browser, expression: &str) -> Result<()> {
    eventually(SOON, async || {
        ensure!(browser.eval(expression).await? == true, "not so: {expression}");
        Ok(())
    })
    .await
}

/// A picture of a terminal, by way of the browser.
async fn picture(browser: &mut Browser, terminal: &Terminal, file: PathBuf) -> Result<()> {
    browser.open("about:blank").await?;
    let page = json!(terminal.picture());
    browser.eval(&format!("document.write({page}), document.close()")).await?;
    let side = async |browser: &mut Browser, side: &str| -> Result<u32> {
        let of = format!("Math.ceil(document.querySelector('pre').getBoundingClientRect().{side})");
        let pixels = browser.eval(&of).await?.as_u64().context("no size")?;
        Ok(u32::try_from(pixels)?)
    };
    let (width, height) = (side(browser, "width").await?, side(browser, "height").await?);
    browser.look(Look { width, height, dark: true }).await?;
    Ok(fs::write(file, browser.screenshot().await?)?)
}

/// Servers with names, of which one is slow, a picker and an Envoy.
struct Stage {
    envoy: Envoy,
    picker: Lodesman,
    _fleet: Fleet,
    _folder: TempDir,
}

impl Stage {
    async fn start(binary: &Path) -> Result<Self> {
        let args =
            "--model llama --lora sql --lora chat --lora support --kv-tokens 60000 --slow 4=2";
        let fleet = Fleet::start(binary, NAMES.len(), args.split(' ')).await?;
        let folder = tempfile::tempdir()?;
        let endpoint = |(name, address): (&&str, &std::net::SocketAddr)| json!({"name": format!("llama-7d9c5b-{name}"), "address": address.ip(), "port": address.port().to_string()});
        let endpoints: Vec<Value> = NAMES.iter().zip(&fleet.servers).map(endpoint).collect();
        let list = folder.path().join("endpoints.yaml");
        fs::write(&list, json!({"endpoints": endpoints}).to_string())?;
        let config = folder.path().join("config.yaml");
        let discovery = json!({"type": "file-discovery", "parameters": {"path": list}});
        let document = json!({
            "apiVersion": "llm-d.ai/v1alpha1",
            "kind": "EndpointPickerConfig",
            "plugins": [discovery],
            "dataLayer": {"discovery": {"pluginRef": "file-discovery"}},
        });
        fs::write(&config, document.to_string())?;
        let config = config.display().to_string();
        let picker =
            Lodesman::start(binary, ["--config-file", &config, "--pool-name", "llama"]).await?;
        let destination = Pool::OriginalDst(Destination::Header);
        let config = EnvoyConfig::picked(ExtProc::full_duplex(picker.ext_proc), destination);
        let envoy = Envoy::start(&config).await?;
        Ok(Self { envoy, picker, _fleet: fleet, _folder: folder })
    }
}

/// A client that asks without end: prompts of some kinds, each with its own beginning, for the model or an adapter.
async fn ask_on(client: Client, number: usize) {
    let models = ["llama", "llama", "llama", "sql", "chat", "support"];
    for round in 0.. {
        let kind = (number * 7 + round * 3) % KINDS;
        let shared =
            format!("{kind}. You are an assistant of department {kind}. ").repeat(SHARED / 40);
        let model = models.get((number + round) % models.len()).copied().unwrap_or("llama");
        let request = json!({
            "model": model,
            "max_tokens": 60 + (number * 13 + round * 29) % 160,
            "stream": true,
            "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": format!("{shared}{number} asks {round}")}],
        });
        // What fails is to be seen in the pictures.
        drop(client.post(PATH, &request).await);
    }
}
