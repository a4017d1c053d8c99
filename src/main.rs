//! The `lodesman` binary: command line in, exit code out.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Gives memory back within two seconds of a peak, from a thread of its own, so that no request waits for it.
///
/// By itself it would within ten (`dirty_decay_ms`, which `.cargo/config.toml` sets for the build). Each of its arenas keeps
/// what it has seen: uploads that come and go within a budget of 16 MiB took 36 to 52 MiB so, and take 30 now.
///
/// Measured on two cores under the settings of this build, before the framing was ours. Resident MiB: before, with 10,000
/// open streams, 30 s after; then the growth by three rounds of 200 bodies of 1 MB under a budget of 64, and what of it is
/// there 5 s after. Then millions of instructions for a request with 100 events, of 1 kB and of 32 kB, least and most of
/// three runs under callgrind, whose slow clock makes work by the clock, as this thread's, count for more than it is.
///
/// | allocator | before | open | after | growth | stays | 1 kB | 32 kB |
/// |---|---|---|---|---|---|---|---|
/// | jemalloc 5.3 | 25 | 147 | 29 | 141 | 46 | 1.69–1.80 | 1.96–2.01 |
/// | the C library's | 22 | 165 | 162 | 125 | 117 | 1.75–1.93 | 1.70–1.83 |
/// | mimalloc 3, no huge pages | 23 | 146 | 79 | 150 | 75 | 1.82–1.86 | 1.73–1.94 |
///
/// CPU time did not tell them apart: runs of one allocator differed by up to a fifth.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    lodesman::cli::run(std::env::args_os())
}
