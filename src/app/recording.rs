//! The recording of requests, where that is asked for.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::app::{Parts, StartError};
use crate::config::Flags;
use crate::prefix::Index;
use crate::recording::{Blocks, Recorder};
use crate::server::clock;
use crate::telemetry::recorder::{self, Settings};

/// How long the stop waits for the last lines: a disk that is slower than this is not worth waiting for.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How often it is looked whether they are written.
const LOOK: Duration = Duration::from_millis(5);

/// Begins to record; none where no file is named.
pub(super) fn begin(
    flags: &Flags,
    parts: &Parts,
) -> Result<Option<(Recorder, JoinHandle<()>)>, StartError> {
    let Some(file) = flags.recording.record_trace.clone() else { return Ok(None) };
    let prefix = Arc::clone(&parts.prefix);
    let blocks = move || match prefix.load().as_deref().map(Index::settings) {
        Some(how) => Blocks::new(how.block_tokens.get(), how.chain_limit),
        None => Blocks::default(),
    };
    let name = file.display().to_string();
    let max_bytes = flags.recording.record_trace_max_bytes;
    let settings = Settings { file, max_bytes, blocks: Box::new(blocks), now: clock::now };
    let started = recorder::start(settings, parts.metrics.recording.clone());
    started.map(Some).map_err(|error| StartError::Setup(format!("--record-trace {name}: {error}")))
}

/// Waits for the last lines to be written, a while at most.
pub(super) async fn end(recording: Option<JoinHandle<()>>) {
    let Some(recording) = recording else { return };
    let written = async {
        while !recording.is_finished() {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(LAST_LINES, written).await.is_err() {
        tracing::warn!("the last recorded requests may be lost");
    }
}
