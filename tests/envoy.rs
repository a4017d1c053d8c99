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
    mod engines;
    mod failures;
    mod istio;
    mod messages;
    mod observer;
    mod openai;
    mod pages;
    mod refusals;
    mod rename;
    mod shipped;
    mod sse;
    mod stage;
    mod traffic;
    mod upstream;
}
