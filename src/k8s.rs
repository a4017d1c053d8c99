//! Kubernetes: the InferencePool that we pick for, its pods, and the objects that say what requests want.

pub mod types;

#[cfg(test)]
mod crds;
