//! Simulated model servers: real HTTP servers over the pure engine of [`engine`].
