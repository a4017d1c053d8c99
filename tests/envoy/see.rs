//! What operators see of a picker with traffic: `lodesman top` in a real terminal, the web page in a real browser.

use std::process::{Command, Output};

use anyhow::ensure;
use lodesman_e2e::chat::Clients;
use lodesman_e2e::{Browser, Client, Look, Terminal, eventually};
use serde_json::{Value, json};

use super::stage::{SOON, Stage, binary, duplex, order, unlike};

/// Wide enough for all columns.
const SIZE: (u16, u16) = (150, 30);

/// A stage with traffic that does not end, while somebody watches.
async fn busy() -> (Stage, Clients) {
    let stage = Stage::with(3, "--lora sql --time-scale 5", "", duplex).await;
    let mut clients = Clients::start(stage.client(), "sim", 4);
    clients.next(4).await.unwrap();
    (stage, clients)
}

fn at(stage: &Stage) -> String {
    format!("http://{}", stage.picker.admin)
}

/// Runs `lodesman top` outside a terminal, aside, so that others go on.
async fn top(args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("top").args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn top_prints_once_for_scripts() {
    let (stage, clients) = busy().await;
    let at = at(&stage);
    let printed = eventually(SOON, async || {
        let output = top(&["--at", &at, "--json"]).await;
        ensure!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout)?;
        // Decisions are kept since somebody asks, and endpoints are judged a few times a second.
        let told = json["decisions"].as_array().is_some_and(|decisions| decisions.len() > 5);
        ensure!(told && json["endpoints"][0]["state"] != "new", "{json:#}");
        Ok(json)
    });
    let json = printed.await.unwrap();
    let [endpoint, decision] = ["endpoints", "decisions"].map(|part| json[part][0].clone());
    let known = ["waiting", "running", "kv_usage", "scrape_age_seconds", "hit_rate"];
    assert!(known.iter().all(|fact| endpoint[*fact].is_number()), "{endpoint:#}");
    assert_eq!(endpoint["models"], json!(["sim"]));
    assert!(endpoint["state"] == "warming" || endpoint["state"] == "ready", "{endpoint:#}");
    assert!(!decision["why"].as_str().unwrap().is_empty(), "{decision:#}");
    assert!(!json.to_string().contains("Where is it"), "no prompt is told");
    let plain = top(&["--at", &at, "--once", "--sort", "running"]).await;
    let page = text(&plain.stdout);
    for server in &stage.fleet.servers {
        assert!(page.contains(&server.to_string()), "{page}");
    }
    assert!(page.contains("ENDPOINT") && page.contains("WHY") && !page.contains('\x1b'), "{page}");
    let one = stage.fleet.servers[1].to_string();
    let filtered = top(&["--at", &at, "--filter", &one]).await;
    let rows = text(&filtered.stdout).lines().filter(|line| line.starts_with("127.")).count();
    assert_eq!(rows, 1, "{}", text(&filtered.stdout));
    clients.finish().await.unwrap();
    let nobody = top(&["--at", "http://127.0.0.1:1", "--once"]).await;
    assert_eq!(nobody.status.code(), Some(70), "{}", text(&nobody.stderr));
}

#[tokio::test]
async fn top_shows_explains_and_gives_the_terminal_back() {
    let (stage, clients) = busy().await;
    let mut terminal = Terminal::start(binary(), &["top", "--at", &at(&stage)], SIZE).unwrap();
    let server = stage.fleet.servers[0].to_string();
    let shown = terminal.until(SOON, |screen| screen.contains(&server) && screen.contains("req/s"));
    shown.await.unwrap();
    assert!(terminal.is_taken());
    terminal
        .until(SOON, |screen| screen.contains("best of") || screen.contains("drawn"))
        .await
        .unwrap();
    terminal.press("\t\r").await.unwrap();
    terminal.until(SOON, |screen| screen.contains("chosen by")).await.unwrap();
    terminal.press("\x1b").await.unwrap();
    terminal
        .until(SOON, |screen| screen.contains("req/s") && screen.contains("WHY"))
        .await
        .unwrap();
    terminal.press("/nothing of the kind\r").await.unwrap();
    terminal.until(SOON, |screen| screen.contains("endpoints 0 of 3")).await.unwrap();
    terminal.press("\x1b?").await.unwrap();
    terminal.until(SOON, |screen| screen.contains("reverse the order")).await.unwrap();
    terminal.press("\x03").await.unwrap();
    assert!(terminal.wait(SOON).await.unwrap().success());
    assert!(!terminal.is_taken(), "the screen of before is back");
    clients.finish().await.unwrap();
}

#[tokio::test]
async fn top_says_that_a_picker_does_not_answer_and_goes_on_when_it_does() {
    let stage = Stage::start(2).await;
    let mut terminal = Terminal::start(binary(), &["top", "--at", &at(&stage)], SIZE).unwrap();
    terminal.until(SOON, |screen| screen.contains("2/2 endpoints")).await.unwrap();
    stage.picker.process.freeze().unwrap();
    terminal.until(SOON, |screen| screen.contains("trying on")).await.unwrap();
    stage.picker.process.thaw().unwrap();
    terminal.until(SOON, |screen| !screen.contains("trying on")).await.unwrap();
    terminal.press("q").await.unwrap();
    assert!(terminal.wait(SOON).await.unwrap().success());
}

/// A browser at the page of a picker; none where there is none.
async fn browse(stage: &Stage) -> Option<Browser> {
    let mut browser = Browser::start().await.unwrap()?;
    browser.look(Look { width: 1280, height: 800, dark: false }).await.unwrap();
    browser.open(&at(stage)).await.unwrap();
    Some(browser)
}

/// Waits until an expression of the page is true.
async fn holds(browser: &mut Browser, expression: &str) {
    let held = eventually(SOON, async || {
        let value = browser.eval(expression).await?;
        let body = browser.eval("document.body.innerText").await?;
        ensure!(value == true, "{expression}: {value}\n{}", body.as_str().unwrap_or_default());
        Ok(())
    });
    held.await.unwrap();
}

const ROWS: &str = "document.querySelectorAll('#endpoints tbody tr').length";

#[tokio::test]
async fn the_page_shows_sorts_filters_and_explains_by_keys_alone() {
    let (stage, clients) = busy().await;
    let Some(mut browser) = browse(&stage).await else { return };
    holds(&mut browser, &format!("{ROWS} === 3")).await;
    holds(&mut browser, "document.querySelectorAll('#decisions tbody tr').length > 5").await;
    holds(&mut browser, "/[0-9]%/.test(document.querySelector('td.c-kv').innerText)").await;
    holds(&mut browser, "document.getElementById('ready').textContent === 'ready'").await;
    for _ in 0..2 {
        browser.press("s").await.unwrap();
    }
    let sorted = "document.querySelector('#endpoints [aria-sort]').innerText";
    assert_eq!(browser.eval(sorted).await.unwrap(), "Queue");
    browser.press("/").await.unwrap();
    for letter in stage.fleet.servers[1].ip().to_string().chars() {
        browser.press(&letter.to_string()).await.unwrap();
    }
    holds(&mut browser, &format!("{ROWS} === 1")).await;
    browser.press("Escape").await.unwrap();
    holds(&mut browser, &format!("{ROWS} === 3")).await;
    browser.eval("document.querySelector('#decisions tbody button').focus()").await.unwrap();
    browser.press("Enter").await.unwrap();
    let dialog =
        "document.getElementById('dialog').open && document.getElementById('dialog').innerText";
    holds(&mut browser, &format!("/chosen by/.test({dialog})")).await;
    assert_eq!(browser.eval(&format!("/Where is it/.test({dialog})")).await.unwrap(), false);
    browser.press("Escape").await.unwrap();
    holds(&mut browser, "!document.getElementById('dialog').open").await;
    assert_eq!(browser.errors(), [""; 0]);
    clients.finish().await.unwrap();
}

#[tokio::test]
async fn the_page_fits_a_telephone_and_says_what_is_wrong() {
    let stage = Stage::start(2).await;
    let Some(mut browser) = browse(&stage).await else { return };
    for (width, dark) in [(360, false), (360, true), (1280, true)] {
        browser.look(Look { width, height: 740, dark }).await.unwrap();
        holds(&mut browser, &format!("{ROWS} === 2")).await;
        holds(&mut browser, "document.documentElement.scrollWidth <= window.innerWidth").await;
    }
    let named = "[...document.querySelectorAll('button, input')].every(it => it.labels?.length || it.ariaLabel || it.innerText.trim())";
    holds(&mut browser, named).await;
    order(stage.fleet.servers[0], json!({"kind": "down"})).await;
    holds(
        &mut browser,
        "/suspect|quarantined/.test(document.querySelector('#endpoints').innerText)",
    )
    .await;
    assert_eq!(browser.errors(), [""; 0], "before the picker is gone");
    stage.picker.process.freeze().unwrap();
    holds(&mut browser, "/^No answer/.test(document.getElementById('banner').innerText)").await;
    stage.picker.process.thaw().unwrap();
    holds(&mut browser, "document.getElementById('banner').hidden").await;
}

#[tokio::test]
async fn names_that_clients_choose_are_text() {
    let stage = Stage::start(1).await;
    let Some(mut browser) = browse(&stage).await else { return };
    holds(&mut browser, &format!("{ROWS} === 1")).await;
    let mut request = unlike(1, 4, false);
    request["model"] = json!("<img src=x onerror=\"document.title='owned'\">");
    let client: Client = stage.client();
    client.post(super::stage::CHAT, &request).await.unwrap();
    holds(&mut browser, "/onerror/.test(document.querySelector('#decisions').innerText)").await;
    assert_eq!(browser.eval("document.querySelectorAll('td img').length").await.unwrap(), 0);
    let inline = "fetch('https://example.invalid/').then(() => 'sent', () => 'kept')";
    assert_eq!(browser.eval(inline).await.unwrap(), "kept", "it talks to nobody else");
}
