//! The pages of `docs/` that the tables tell: the test of each fails when it is stale, and rewrites it with
//! `UPDATE_EXPECT=1`.

use std::fmt::Write;
use std::path::Path;

use clap::{Args, Command};
use expect_test::expect_file;

use crate::config::Flags;

mod plugins;
mod telemetry;

const NOTE: &str =
    "<!-- Written by `UPDATE_EXPECT=1 cargo test config::manual`; edit the tables instead. -->\n";

/// What stands before the tables of the configuration.
const CONFIGURATION: &str = "\
# Configuration

`--config-file FILE` or `--config-text YAML` gives a document of the kind `EndpointPickerConfig`, in YAML or JSON.
`lodesman check FILE` tells everything that is wrong with one, each with its line and what may have been meant, and what
it means with all defaults.

```yaml
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue-scorer}
- {name: few, type: active-request-scorer}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: few}
```

- `apiVersion` is `llm-d.ai/v1alpha1` or `llm-d.ai/v1`, which are one format here.
- `plugins` lists instances: `type` (see [plugins](plugins.md)), a `name` where it is not the type, `parameters`.
- `schedulingProfiles` says which of them decide: filters and scorers in order, a `weight` for each scorer (1 when
  absent), at most one picker (`max-score-picker` when absent). Without profiles all listed filters, scorers and pickers
  are one; without any of those the [default policy](policy.md) holds. Several profiles need `header-profile-handler`,
  which runs the one that a request names. A request without a body goes to the least loaded of those that
  the filters allow which guard what an endpoint can, not how full it is.
- `dataLayer.discovery.pluginRef` names a source of endpoints in place of Kubernetes; `dataLayer.injectDefaults: false`
  without a `metrics-data-source` among `dataLayer.sources` means that no metrics page is read.
- `flowControl.saturationDetector.pluginRef` names the detector by which requests are shed (`utilization-detector` when
  absent, with its defaults or those of an instance of that name): while it says that no endpoint has room, a request
  below priority 0 is answered with 429. Saturation is the mean of how full the endpoints are that could take the request,
  each counted for 1 at most. A detector that a profile names is a filter. Nothing queues requests yet: the rest of
  `flowControl` is checked and has no effect, and its feature gate is refused.
- A producer that a scorer needs and nobody lists has its defaults.
- `requestHandler.parsers` lists parsers by name or type; what none of them claims is routed unread where
  `passthrough-parser` is the last.
- `featureGates` takes `name`, `name=true` and `name=false`.

An unknown field, type or reference is an error: `lodesman` ends with exit code 78 and tells all of them; so is a type of the
reference that is [not there yet](plugins.md#not-yet). What is written and has no effect is a warning.

## Changes while it runs

The file of `--config-file` is looked at every 200 ms, also through the links of a mounted ConfigMap (which the kubelet
itself may take a minute to change). A good new version is in force within a second, in one step; requests under way end by
the version that they began with. A bad one is refused: all its problems are logged with path, line and hint, and the last
good one stays. Our manifests and the chart roll the pods instead, as each version is a ConfigMap of another name or has
another checksum; to have it adopted in place, change the mounted ConfigMap itself.

| changed | effect |
|---|---|
| profiles, plugins, weights, detector, `failureMode`, `limits.decisionDeadline` | from the next decision on |
| parsers, `destinationList`, other limits | for streams that begin from then on; `limits.bodyBudget` at once |
| sources, engines | the scraper begins anew; what it has read holds until it is stale |
| `approx-prefix-cache-producer` | other parameters, or another name, begin a new prefix index; else the index stays as it is |
| `dataLayer.discovery` and its file | at the next start, which a warning says |
| everything that is a flag | at the next start |

The pool, what is in flight and what was learnt of the endpoints stay in any case; what a plugin remembers, such as sessions,
stays while its name, type and parameters do. `lodesman_config_generation`,
`lodesman_config_reload_total{result}` and `lodesman_config_last_success_timestamp_seconds` tell what became of a change,
`/debug/config` on the admin port shows the configuration in force and why the newest version is not.
";

/// What stands before the limits.
const OWN: &str = "
## The `lodesman` section

What the reference does not have. Flags of the same meaning stand over it.

| field | default | |
|---|---|---|
| `failureMode` | `FailClose` | what a fault of ours means: `FailOpen` picks without a filter that failed, `FailClose` refuses |
| `destinationList` | `single` | `multi` tells the gateway all endpoints that the picker chose, best first |
";

/// By [`HoldSettings`](crate::config::HoldSettings) and [`AutoscalingSettings`](crate::config::AutoscalingSettings).
const AUTOSCALING: &str = "\
| `hold` | | present, `{}` at least: requests for a pool without endpoints [wait for the first](autoscaling.md#from-zero) |
| `hold.maxWait` | 2m | longest wait; then 503 |
| `hold.maxRequests` | 1000 | requests that wait at a time; further ones are answered 503 |
| `hold.maxBytes` | 64MiB | memory of their bodies, which counts for `limits.bodyBudget` too |
| `autoscaling.targetTtft` | 2s | time within which nine of ten first tokens are to come, for the [recommended replicas](autoscaling.md#recommended-replicas) |
| `autoscaling.targetUtilization` | 0.8 | share of their time that engines are to be busy at most |
| `autoscaling.lead` | 1m | time that a further replica takes to be ready; so far a growing load is foreseen |
";

fn configuration() -> String {
    let mut page = format!("{NOTE}{CONFIGURATION}");
    page.push_str(OWN);
    for flag in commands().get_arguments().filter(|arg| is_limit(arg)) {
        let name = camel(flag.get_long().unwrap());
        let help = flag.get_help().unwrap().to_string();
        let (summary, default) = help.rsplit_once(" [default: ").unwrap();
        writeln!(
            page,
            "| `limits.{name}` | {} | {summary} |",
            default.trim_end_matches(['.', ']'])
        )
        .unwrap();
    }
    page.push_str(AUTOSCALING);
    page
}

fn commands() -> Command {
    Flags::augment_args(Command::new("lodesman"))
}

fn is_limit(arg: &clap::Arg) -> bool {
    arg.get_help_heading() == Some("Limits")
}

/// `max-request-body` as `maxRequestBody`.
fn camel(kebab: &str) -> String {
    let mut upper = false;
    let letter = |letter: char| {
        let after_dash = std::mem::replace(&mut upper, letter == '-');
        (letter != '-').then(|| if after_dash { letter.to_ascii_uppercase() } else { letter })
    };
    kebab.chars().filter_map(letter).collect()
}

fn flags() -> String {
    let mut page = format!(
        "{NOTE}# Flags\n\nOf `lodesman` without a subcommand, which serves. A boolean flag may stand alone; one dash and camel case are read\ntoo (`-poolName=x`), and the last of a repeated flag counts.\n"
    );
    let command = commands();
    let mut heading = None;
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long() else { continue };
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            writeln!(page, "\n## {}\n\n| flag | default | |\n|---|---|---|", heading.unwrap())
                .unwrap();
        }
        let values: Vec<_> =
            arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
        let help = arg.get_help().unwrap_or_default().to_string();
        let (summary, told) = match help.rsplit_once(" [default: ") {
            Some((summary, default)) => (summary, default.trim_end_matches(['.', ']']).to_owned()),
            None => (help.as_str(), String::new()),
        };
        let given: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        let default = if told.is_empty() { given.join(",") } else { told };
        let value = values.join(",").replace('|', "\\|");
        writeln!(page, "| `--{long}` `{value}` | {default} | {} |", summary.replace('|', "\\|"))
            .unwrap();
    }
    page
}

fn current(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    expect_file![path].assert_eq(text);
}

#[test]
fn the_page_of_the_configuration_is_current() {
    current("configuration.md", &configuration());
}

#[test]
fn the_page_of_the_plugins_is_current() {
    current("plugins.md", &format!("{NOTE}{}", plugins::page()));
}

#[test]
fn the_page_of_logs_and_traces_is_current() {
    current("telemetry.md", &format!("{NOTE}{}", telemetry::page()));
}

#[test]
fn the_page_of_the_flags_is_current() {
    current("flags.md", &flags());
}
