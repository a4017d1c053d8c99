//! Builds everything, in order; the only place that knows all parts.
