//! The binary behind a real Envoy, in front of simulated model servers.
//!
//! Each module shows one part of what a gateway relies on: that messages are answered in the order
//! that Envoy needs, bodies arrive byte for byte, the choice is obeyed, and that nothing is lost,
//! leaked or wrong when pickers, servers, clients or connections die.

#[cfg(test)]
mod envoy {
    mod affinity;
    mod bodies;
    mod chaos;
    mod churn;
    mod demo;
    mod destination;
    mod drain;
    mod engines;
    mod failures;
    mod faults;
    mod hostile;
    mod istio;
    mod keda;
    mod limiter;
    mod messages;
    mod observer;
    mod openai;
    mod pages;
    mod policies;
    mod refusals;
    mod rename;
    mod scaling;
    mod see;
    mod shipped;
    mod soak;
    mod sse;
    mod stage;
    mod tokens;
    mod told;
    mod traffic;
    mod upstream;
    mod warming;
    mod wedged;
}
