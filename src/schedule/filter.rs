//! Filters, one file each. What removes candidates is a [`Filter`](crate::schedule::Filter).

pub(in crate::schedule) mod header_based_testing;
