//! The OpenAI client library of Python, as its users use it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lodesman_e2e::Process;

use super::stage::{Stage, at_rest, duplex};

/// From the start of the script to its end, the installation of the library included.
const PATIENCE: Duration = Duration::from_mins(3);

/// The exit code of the script when the library cannot be had.
const SKIPPED: i32 = 77;

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that was not run must say so")]
async fn openai_client_completes_and_streams() {
    let stage = Stage::with(2, "--decode-step-ms 20", "", duplex).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/openai-client.sh");
    let mut command = Command::new(script);
    command.arg(format!("http://{}/v1", stage.envoy.address())).arg("sim");
    let mut client = Process::spawn(command).unwrap();
    let status = client.wait(PATIENCE).await.unwrap();
    if status.code() == Some(SKIPPED) {
        eprintln!("SKIPPED openai_client_completes_and_streams:\n{}", client.output());
        return;
    }
    assert!(status.success(), "{status}:\n{}", client.output());
    at_rest(&stage.picker).await;
}
