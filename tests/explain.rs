//! `lodesman explain` as a process, at a picker that is one.
#![expect(clippy::unwrap_used, clippy::tests_outside_test_module, reason = "an integration test")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lodesman_e2e::wait::now;
use serde_json::Value;

/// A body, of which no page shows the prompt.
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"a yellow canary"}]}"#;

/// A picker over three endpoints of which nothing is known, and its admin port; it ends with this value.
struct Picker {
    process: Child,
    admin: String,
}

impl Picker {
    fn start() -> Self {
        let flags = "--endpoints=127.0.1.1:1,127.0.1.2:1,127.0.1.3:1 --grpc-port=0 --grpc-health-port=0 \
                     --metrics-port=0 --admin-port=0 --log-format=json --decision-log=10";
        let mut command = Command::new(env!("CARGO_BIN_EXE_lodesman"));
        command.args(flags.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let admin = lines.find_map(|line| {
            let line: Value = serde_json::from_str(&line.unwrap()).ok()?;
            let told =
                |name: &str| line.pointer(&format!("/fields/{name}")).or_else(|| line.get(name));
            let admin = told("listener")?.as_str()? == "admin";
            admin.then(|| format!("http://{}", told("address").unwrap().as_str().unwrap()))
        });
        // Somebody must read on, or the picker blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, admin: admin.unwrap() }
    }
}

impl Drop for Picker {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn explain(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodesman"));
    command.arg("explain").args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read may have ended already.
    let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_picker_and_its_snapshot_say_the_same() {
    let picker = Picker::start();
    let at = ["--body", "-", "--at", &picker.admin, "--dice", "7"];
    // It takes a moment to know its endpoints.
    let deadline = now() + Duration::from_secs(20);
    let mut table = explain(&at, BODY);
    while table.status.code() == Some(1) && now() < deadline {
        table = explain(&at, BODY);
    }
    assert_eq!(table.status.code(), Some(0), "{}", text(&table.stderr));
    assert!(text(&table.stdout).contains("chosen as the least loaded"), "{}", text(&table.stdout));
    assert!(!text(&table.stdout).contains('\x1b'), "no colors where no terminal is");
    let json = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let online = explain(&[&at[..], &["--json"]].concat(), BODY);
    let snapshot = snapshot(&picker.admin);
    let path = std::env::temp_dir().join(format!("explain-{}.json", std::process::id()));
    std::fs::write(&path, &snapshot).unwrap();
    let file = path.to_str().unwrap();
    let offline = explain(&["--body", "-", "--snapshot", file, "--dice", "7", "--json"], BODY);
    let nowhere = ["--body", "-", "--snapshot", file, "--subset", "192.0.2.1"];
    let refused = explain(&nowhere, BODY);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(offline.status.code(), Some(0), "{}", text(&offline.stderr));
    let (online, offline) = (json(&online), json(&offline));
    for part in ["outcome", "request", "passes"] {
        assert_eq!(online[part], offline[part], "{part}");
    }
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    for told in [text(&table.stdout), &snapshot, &online.to_string(), &offline.to_string()] {
        assert!(!told.contains("canary"), "{told}");
    }
}

/// What `/debug/snapshot` shows.
fn snapshot(admin: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = admin.trim_start_matches("http://").parse().unwrap();
    let client = lodesman_e2e::Client::http1(address);
    let answer = runtime.block_on(async { client.get("/debug/snapshot").await }).unwrap();
    answer.text()
}

#[test]
fn wrong_usage_and_a_picker_that_is_not_there_are_told() {
    for (args, code) in [
        (&["--body", "-"][..], 64),
        (&["--at", "http://127.0.0.1:1"], 64),
        (&["--body", "/nowhere.json", "--at", "http://127.0.0.1:1"], 64),
        (&["--body", "-", "--at", "http://127.0.0.1:1"], 70),
        (&["--body", "-", "--snapshot", "/nowhere.json"], 64),
        (&["--at", "http://127.0.0.1:1", "--decision", "no hex"], 64),
        (&["--request-id", "4", "--snapshot", "/nowhere.json"], 64),
        (&["--body", "-", "--at", "http://127.0.0.1:1", "--config-file", "/nowhere"], 64),
    ] {
        let output = explain(args, BODY);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    }
}
