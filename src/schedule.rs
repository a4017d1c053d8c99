//! How an endpoint is chosen: filters, weighted scorers, a picker.
