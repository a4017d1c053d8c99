//! The binary against a real Kubernetes API server.
//!
//! The test plays the kubelets, simulated model servers on loopback addresses of their own are the
//! pods, and the binary runs with the token of its own account and the rights that we ship. Without a
//! server (see `scripts/testkube.sh`) the tests say that they were not run.

#[cfg(test)]
mod kube {
    mod canary;
    mod conformance;
    mod crds;
    mod crowd;
    mod doctor;
    mod failures;
    mod judged;
    mod leader;
    mod life;
    mod members;
    mod metrics;
    mod nodes;
    mod outage;
    mod rights;
    mod site;
    #[path = "../envoy/stage.rs"]
    #[expect(dead_code, reason = "shared with the tests behind Envoy, which use all of it")]
    mod stage;
    mod worth;
}
