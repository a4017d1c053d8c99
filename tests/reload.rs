//! The binary while its configuration file changes: what is good takes effect, what is bad does not, nothing is lost.

#[cfg(test)]
mod reload {
    mod rig;
    mod versions;
    mod volume;
}
