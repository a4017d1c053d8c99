//! The path of one request: from what the exchange read to a decision, and to its completion.
