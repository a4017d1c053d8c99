//! Compiles `proto/` without a system `protoc` and hands the commit to the crate.

use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/ext_proc.proto"], ["proto"])?;
    let mut config = prost_build::Config::new();
    config.bytes(["."]).compile_fds(descriptors)?;
    let scaler = protox::compile(["proto/externalscaler.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .compile_fds(scaler)?;
    let otlp = protox::compile(["proto/otlp.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).build_transport(false).compile_fds(otlp)?;
    println!("cargo::rerun-if-env-changed=LODESMAN_COMMIT");
    println!("cargo::rustc-env=LODESMAN_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    Ok(())
}

/// The commit to report in `--version` and `llm_d_epp_info`: from the environment, as in an image build, or from git.
fn commit() -> Option<String> {
    if let Ok(commit) = std::env::var("LODESMAN_COMMIT") {
        return Some(commit);
    }
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
