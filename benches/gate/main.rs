//! The gate: what a request costs above the null server, and what a decision costs, in instructions.
//!
//! `make gate` runs it on an optimized binary, `cargo bench --bench gate` builds one itself. Times are noisy where others
//! work too, instructions are not: valgrind runs one thread at a time, the server has one worker, the load is one stream
//! after the other on one connection and from one thread, and nothing is scraped meanwhile. Two runs differ in the number
//! of requests alone, so what one counts more than the other is what these requests cost. Where valgrind is not
//! installed nothing is checked; `make gate` does not let that pass where `CI` is `true`.
//!
//! A limit is the mean of five runs and 4 % of it, 5 % for the prompt of 32 kB: runs differ by 1 % and 2 % from their
//! mean. Whoever makes a figure smaller writes its new limit in the same change. A cheaper transport makes the null server
//! cheaper too, and so the ratios larger: then the limits follow upward, and the instructions above the null server,
//! which are printed, must not.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use lodesman_e2e::Fleet;

use crate::server::{Served, installed};

mod server;

/// Most instructions of a request, as a multiple of the null server's.
const REQUESTS: [Request; 2] = [
    Request { name: "1 kB and 100 events", load: "--body-bytes 1024 --events 100", at_most: 1.36 },
    Request { name: "32 kB", load: "--body-bytes 32768", at_most: 2.01 },
];

/// Most instructions of a decision of the default policy over [`DECIDED_OVER`] endpoints, all that the server does for
/// it included.
const DECISION: f64 = 65_000.0;

/// Model servers of the pool where requests are counted.
const ENDPOINTS: usize = 16;

/// Model servers of the pool where decisions are counted.
const DECIDED_OVER: usize = 100;

/// The function that is the decision.
const DECIDE: &str = "lodesman::director::Director::decide_noted";

/// A kind of request.
struct Request {
    name: &'static str,
    /// To the load generator.
    load: &'static str,
    at_most: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = installed() {
        server::say(&format!("NOT RUN: {error:#}"));
        return ExitCode::SUCCESS;
    }
    match Box::pin(check()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            server::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Measures all, prints it, and tells whether all is within its limit.
async fn check() -> Result<bool> {
    let binary = server::binary()?;
    let fleet = Fleet::start(&binary, DECIDED_OVER, ["--time-scale", "1000"]).await?;
    let endpoints: Vec<_> = fleet.servers.iter().map(ToString::to_string).collect();
    let pool = endpoints.get(..ENDPOINTS).context("too small a fleet")?.join(",");
    let real = Served::picker(&binary, &pool);
    let null = Served::null(&binary);
    let mut good = true;
    for Request { name, load, at_most } in &REQUESTS {
        let (of_real, of_null) = tokio::try_join!(real.request(load), null.request(load))?;
        ensure!(of_null > 0.0, "the null server did nothing");
        let above = of_real - of_null;
        let what = format!("{name}: {above:.0} instructions above {of_null:.0} of the null server");
        good &= within(&what, of_real / of_null, *at_most);
    }
    let many = Served::picker(&binary, &endpoints.join(","));
    let decision = many.within(DECIDE).await?;
    good &= within(&format!("decision over {DECIDED_OVER} endpoints"), decision, DECISION);
    Ok(good)
}

fn within(what: &str, figure: f64, at_most: f64) -> bool {
    let verdict = if figure <= at_most { "ok" } else { "TOO MUCH" };
    let rounded =
        |number: f64| if number < 100.0 { format!("{number:.3}") } else { format!("{number:.0}") };
    server::say(&format!("{what}: {}, at most {}: {verdict}", rounded(figure), rounded(at_most)));
    figure <= at_most
}
