//! Kubernetes: the InferencePool that we pick for, its pods, and the objects that say what requests want.

pub mod objects;
pub mod types;
pub mod verdict;

#[cfg(test)]
mod crds;
