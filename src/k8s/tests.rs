//! The followers over the real client, against an API server that does what a real one will not on demand.

mod faults;
mod flow;
mod server;
