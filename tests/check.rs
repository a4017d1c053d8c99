//! `lodesman check` and its companions as processes.
#![expect(clippy::unwrap_used, clippy::tests_outside_test_module, reason = "an integration test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs the binary to its end, with `input` on its standard input.
fn lodesman(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodesman"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read may have ended already.
    let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs").join(name)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const BAD: &str =
    "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scoer\n";

#[test]
fn a_good_file_is_written_out_and_that_is_good_too() {
    let path = sample("standalone.yaml");
    let first = lodesman(&["check", path.to_str().unwrap()], "");
    assert_eq!((first.status.code(), text(&first.stderr)), (Some(0), ""));
    let second = lodesman(&["check", "-"], text(&first.stdout));
    assert_eq!((second.status.code(), text(&second.stderr)), (Some(0), ""));
    assert_eq!(text(&first.stdout), text(&second.stdout));
}

// FR-126
#[test]
fn an_error_is_exit_1_with_its_place_and_serving_with_it_is_78() {
    let checked = lodesman(&["check", "-"], BAD);
    let expected = "-:4: error: plugins[0].type: unknown plugin type `queue-scoer` (did you mean `queue-scorer`?)\n";
    assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(1), expected));
    assert_eq!(text(&checked.stdout), "");
    let served = lodesman(&["--config-text", BAD, "--endpoints", "127.0.0.1:1"], "");
    assert_eq!(served.status.code(), Some(78), "{}", text(&served.stderr));
}

#[test]
fn what_is_not_there_yet_is_told_all_at_once_and_nothing_starts() {
    for (name, lacking) in [
        (
            "disaggregated.yaml",
            &[
                "topology-extractor",
                "topology-affinity-scorer",
                "disagg-profile-handler",
                "prefix-based-pd-decider",
            ][..],
        ),
        (
            "queued.yaml",
            &[
                "precise-prefix-cache-producer",
                "endpoint-notification-source",
                "round-robin-fairness-policy",
            ],
        ),
    ] {
        let path = sample(name);
        let path = path.to_str().unwrap();
        let checked = lodesman(&["check", path], "");
        let served = lodesman(&["--config-file", path, "--endpoints", "127.0.0.1:1"], "");
        assert_eq!((checked.status.code(), served.status.code()), (Some(1), Some(78)), "{name}");
        for type_name in lacking {
            let told = format!("plugin type `{type_name}` is not supported yet");
            assert!(text(&checked.stderr).contains(&told), "{name}: {type_name}");
            assert!(text(&served.stderr).contains(&told), "{name}: {type_name}");
        }
    }
}

#[test]
fn a_warning_is_exit_0() {
    let input = BAD.replace("queue-scoer", "queue-scorer\nparser: {pluginRef: openai-parser}");
    let checked = lodesman(&["check", "-"], &input);
    assert_eq!(checked.status.code(), Some(0));
    assert!(text(&checked.stderr).contains("-:5: warning: parser: is deprecated"));
}

#[test]
fn the_file_of_endpoints_is_looked_at_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    let input = BAD.replace(
        "queue-scoer",
        &format!(
            "file-discovery\n  parameters: {{path: {}}}\ndataLayer:\n  discovery: {{pluginRef: file-discovery}}",
            path.display()
        ),
    );
    let checked = lodesman(&["check", "-"], &input);
    assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(0), ""), "not here");
    let told = |listing: &str, code: i32, expected: &str| {
        std::fs::write(&path, listing).unwrap();
        let checked = lodesman(&["check", "-"], &input);
        let expected = format!("-:7: {}\n", expected.replace("FILE", path.to_str().unwrap()));
        assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(code), &*expected));
    };
    told(
        "endpoints:\n- {name: a, address: 10.0.0.1}\n- {name: b, address: 10.0.0.2, port: 8000}\n",
        0,
        "warning: dataLayer.discovery: FILE:2: endpoints[0].address: `10.0.0.1` has no port (give one as in host:8000 or [fd00::1]:8000)",
    );
    told(
        "endpoints:\n- {name: a, address: 10.0.0.1}\n",
        1,
        "error: dataLayer.discovery: FILE:2: endpoints[0].address: `10.0.0.1` has no port (give one as in host:8000 or [fd00::1]:8000)",
    );
    told(
        "endpoints: 5\n",
        1,
        "error: dataLayer.discovery: FILE:1: endpoints: invalid type: integer `5` (give a list)",
    );
}

#[test]
fn a_program_gets_one_object() {
    let json = |input: &str| -> serde_json::Value {
        serde_json::from_slice(&lodesman(&["check", "--json", "-"], input).stdout).unwrap()
    };
    let bad = json(BAD);
    assert_eq!(
        (&bad["resolved"], bad["problems"][0]["line"].as_u64()),
        (&serde_json::Value::Null, Some(4))
    );
    let good = json(&BAD.replace("scoer", "scorer"));
    assert_eq!(good["problems"], serde_json::json!([]));
    assert_eq!(good["resolved"]["schedulingProfiles"][0]["plugins"][0]["weight"], 1.0);
}

#[test]
fn a_file_that_is_not_there_is_wrong_usage() {
    assert_eq!(lodesman(&["check", "/nowhere.yaml"], "").status.code(), Some(64));
    assert_eq!(lodesman(&["check"], "").status.code(), Some(64));
}

#[test]
fn wrong_usage_is_told_with_what_is_right() {
    for (args, told) in [
        (&["serve"][..], "there is no subcommand `serve`: without one it serves"),
        (&["--pool-name=a/p", "--pool-namespace=b"], "--pool-namespace b"),
    ] {
        let output = lodesman(args, "");
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
}

#[test]
fn shells_get_completions_and_a_page() {
    let bash = lodesman(&["completions", "bash"], "");
    assert!(bash.status.success() && text(&bash.stdout).contains("--grpc-port"));
    assert_eq!(lodesman(&["completions", "cmd"], "").status.code(), Some(64));
    let page = lodesman(&["man"], "");
    assert!(page.status.success() && text(&page.stdout).contains(".TH lodesman 1"));
}

#[test]
fn files_for_shells_and_man_are_written_for_every_subcommand() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/shell-files.sh");
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_lodesman");
    let written = Command::new(script).arg(binary).arg(folder.path()).output().unwrap();
    assert!(written.status.success(), "{}", text(&written.stderr));
    let help = lodesman(&["--help"], "");
    let listed = text(&help.stdout).split("Commands:").nth(1).unwrap().lines().skip(1);
    // A longer word of help goes on in lines that begin further to the right.
    let entries =
        listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names: Vec<_> = entries.filter_map(|line| line.split_whitespace().next()).collect();
    let names: Vec<_> = names.into_iter().filter(|name| *name != "help").collect();
    assert!(names.contains(&"doctor") && names.len() > 5, "{names:?}");
    for name in names {
        let page = folder.path().join(format!("man/man1/lodesman-{name}.1"));
        let page =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
        assert!(page.contains(&format!("lodesman-{name}")), "{page}");
    }
    for file in ["bash-completion/completions/lodesman", "zsh/site-functions/_lodesman"] {
        assert!(std::fs::metadata(folder.path().join(file)).unwrap().len() > 10_000, "{file}");
    }
}
