//! Simulated model servers: one engine model in virtual time, and HTTP servers around it.

pub mod engine;
