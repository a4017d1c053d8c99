//! The picker as a gateway sees it: golden transcripts, faults and load over real gRPC.
//!
//! The picker runs in this process; the client speaks the published messages (`envoy-types`), not our trimmed ones.

#[cfg(test)]
mod grpc {
    mod adapters;
    mod answer;
    mod conformance;
    mod crowd;
    mod drain;
    mod explain;
    mod faults;
    mod feedback;
    mod framed;
    mod modes;
    mod oddities;
    mod placement;
    mod plugins;
    mod profiles;
    mod refusals;
    mod render;
    mod rewriting;
    mod rig;
    mod routes;
    mod stream;
    mod summary;
    mod usage;
}
