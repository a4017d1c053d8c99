//! Runs the fuzz targets for a bounded time with a fixed seed; `fuzz/` runs the same functions for as long as one likes.

#[cfg(test)]
#[path = "fuzz/targets.rs"]
mod targets;

#[cfg(test)]
mod fuzz {
    mod run;
}
