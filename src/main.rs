//! The `lodesman` binary.

fn main() {}
