//! Listeners: ext_proc over gRPC, health, metrics and admin over HTTP.
