//! What is known of the endpoints: one immutable snapshot, one writer.

pub mod readiness;
