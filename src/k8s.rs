//! Kubernetes: the InferencePool that we pick for, its pods, and the objects that say what requests want.

pub mod events;
pub mod lease;
pub mod objects;
pub mod status;
pub mod types;
pub mod verdict;

mod refusal;
#[cfg(test)]
mod testing;
