//! Whether the API server answers.

use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "api-server", good: "the API server answers", run };

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster.as_ref().ok_or("no cluster is asked")?;
    let server = &cluster.server;
    let told = cluster.silent.as_ref().map(|why| {
        Finding::problem(
            CHECK,
            format!("the API server at {server} does not answer: {why}"),
            "a picker that runs goes on with what it knows; one that starts is not ready; nothing else here is checked",
            "mend KUBECONFIG or the network; in a pod, its service account",
        )
    });
    Ok(told.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    #[test]
    fn a_silent_server_is_told() {
        assert_eq!(told(CHECK, &with(cluster())), [""; 0]);
        let mut silent = cluster();
        silent.silent = Some("connection refused".to_owned());
        let found =
            "problem: the API server at https://10.0.0.1 does not answer: connection refused";
        assert_eq!(told(CHECK, &with(silent)), [found]);
    }
}
