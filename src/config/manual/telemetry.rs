//! `docs/telemetry.md`: the log, the lines of requests, traces.

use std::fmt::Write;

use crate::config::traces::VARIABLES;

const PAGE: &str = "\
# Logs and traces

What is told of single requests. [Metrics](metrics.md) tell of all of them, [`lodesman explain`](explain.md) of the reasons of a
decision. No prompt and no answer is in any of these.

## The log

Lines go to standard error, as text on a terminal and as JSON elsewhere (`--log-format`). `-v 2`, the default, tells of changes
of state, `-v 3` of each decision, `-v 5` of everything; `RUST_LOG`, where it is set, stands over it. The level can be changed
while it runs, on the admin port: by a number as after `-v`, a level, or directives for parts of the program.

```console
$ curl -X PUT -d debug 127.0.0.1:9091/debug/log-level
$ curl -X PUT -d lodesman=info,lodesman::scrape=trace 127.0.0.1:9091/debug/log-level
```

## The request log

`--request-log SHARE` writes a line for a share of the requests when they have ended, `0.01` for one of a hundred, and for every
one that was refused or that its server failed; `--request-log errors` for the latter alone. It is `off` unless asked for, and
can be changed while it runs:

```console
$ curl -X PUT -d errors 127.0.0.1:9091/debug/request-log
$ curl 127.0.0.1:9091/debug/request-log
errors
```

A line is one of level 2, its target is `lodesman::requests`. There are 100 in a second at most; how many requests were left out is
said before the next one, and by `lodesman_logged_requests_total{result=\"dropped\"}`.

| field | |
|---|---|
| `request_id` | the client's `x-request-id`, else the one that was given to it |
| `api` | the API that it spoke |
| `model`, `served_model` | what the client named, and what the server was asked for |
| `priority` | that of its objective |
| `endpoint` | who answered; absent where it had no place |
| `outcome`, `error` | how it ended, [as the metrics say](metrics.md#values-of-labels); `error` as `error_code` of `llm_d_epp_request_error_total`, absent where there was none |
| `status` | the HTTP status of the server's answer |
| `prompt_tokens`, `cached_tokens`, `generated_tokens` | as the server reported them, or `estimated` |
| `tokens` | `reported` or `estimated` |
| `first_token_ms`, `elapsed_ms` | from the request's headers to the first token of a streamed answer, and to the end |

## Traces

Requests are traced by OpenTelemetry where the environment asks for it, with the variables that its own libraries read:

```
OTEL_EXPORTER_OTLP_ENDPOINT=http://otel-collector:4317 lodesman …
```

(`env` of the chart's values, or `env` of the container.)

Spans are sent by OTLP over gRPC, in batches, from the control thread. A receiver that is slow or gone costs spans and nothing
else: `lodesman_traced_requests_total{result}` counts requests whose spans were `exported`, `dropped` as too many waited (512), or
`failed` as the receiver did not take them. What waits is sent when the process stops, for 5 s at most. `--tracing=false` sends
nothing whatever the environment says, and `console` is no exporter here.

A request with a `traceparent` belongs to that trace and is recorded if its parent is; of the others one in ten is. The model
server gets a `traceparent` of its own, which names our span as its parent and says whether it is recorded; `tracestate` and
`baggage` pass as they are. Without tracing these headers are neither read nor changed.

| span | kind | what it is | attributes |
|---|---|---|---|
| `gateway.request` | server | from the request's headers to the end of the stream; the root here | `gen_ai.request.id`, `gen_ai.request.model`, `gen_ai.response.model`, `gen_ai.usage.input_tokens`, `gen_ai.usage.cache_read.input_tokens`, `gen_ai.usage.output_tokens`, `http.response.status_code`, `lodesman.api`, `lodesman.outcome`, `lodesman.endpoint` |
| `gateway.request_orchestration` | server | the decision | `gen_ai.request.id`, `target_model`, `request_prio`, `llm_d.epp.decision.endpoint`, `.rung`, `.candidates`, `.queue_wait_ms` (where it waited for an endpoint) |
| `run_scheduler_profile` | internal | the plugins of the profile | `llm_d.epp.scheduling.profile.name` |
| `filter_endpoints` | internal | its filters | `llm_d.epp.filter.candidate_endpoints`, `llm_d.epp.filter.filtered_endpoints` |
| `llm_d.epp.scoring` | internal | its scorers | `llm_d.epp.scorer.count`, `llm_d.epp.scoring.candidate_endpoints` |
| `llm_d.epp.scorer.TYPE` | internal | a scorer | `llm_d.epp.scorer.type`, `.name`, `.weight`, `.candidate_endpoints`, `.endpoints_scored`, `.score.max`, `.score.avg` |
| `pick_endpoints` | internal | its picker | `llm_d.epp.picker.candidate_endpoints`, and of the best five `.top_endpoints`, `.top_scores` |

`gateway.request` has the events `first_token` and `complete`, the latter with the usage; its status is an error where the request
was refused or its server failed it. Names are those of the llm-d-router EPP where it has the span.

## Variables

A value that cannot be used is told in the log and leaves the process without traces; it serves nevertheless. Where two are
named the first stands over the second.

| variable | default | |
|---|---|---|
";

/// The page.
pub(super) fn page() -> String {
    let mut page = PAGE.to_owned();
    for (names, default, meaning) in VARIABLES {
        let names =
            names.split(", ").map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        writeln!(page, "| {names} | {default} | {meaning} |").unwrap();
    }
    page
}
