//! Writes what is to be recorded into a file, on a thread of its own.
//!
//! A file that has half of the bytes that are allowed becomes `FILE.1`, in place of the one before, and a new one is
//! begun, under a new key. Whole lines are written, several at once while many requests pass. When the file cannot be
//! written, what is half written is cut off and the recording is over: the disk may be full, and nobody is to wait for it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::metrics::RecordingMetrics;
use crate::recording::{Blocks, Header, Key, Line, Passed, Recorder, VERSION};

/// Bytes that are written at once, about.
const BATCH: usize = 64 << 10;

/// How and where to record.
pub struct Settings {
    /// The file.
    pub file: PathBuf,
    /// Bytes that it and its predecessor may have together.
    pub max_bytes: u64,
    /// How prompts are cut now; when it changes, a new file is begun.
    pub blocks: Box<dyn Fn() -> Blocks + Send>,
    /// Reads the clock.
    pub now: fn() -> Instant,
}

/// Begins to record. The thread ends when the last recorder is gone and all is written, or when the file cannot be
/// written.
///
/// # Errors
/// When the file cannot be made.
pub fn start(
    settings: Settings,
    metrics: RecordingMetrics,
) -> io::Result<(Recorder, JoinHandle<()>)> {
    let mut writer = Writer::begin(settings)?;
    let (recorder, queue) = Recorder::new(metrics.clone());
    metrics.active.set(1);
    let thread = Builder::new().name("recorder".to_owned()).spawn(move || {
        if let Err(error) = writer.follow(queue, &metrics) {
            metrics.failed.inc_by(writer.held);
            let file = writer.settings.file.display();
            tracing::warn!(%file, %error, "recording stopped");
        }
        metrics.active.set(0);
    })?;
    Ok((recorder, thread))
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("file", &self.file).finish_non_exhaustive()
    }
}

struct Writer {
    settings: Settings,
    output: Output,
    key: Key,
    begun: Instant,
    blocks: Blocks,
    /// Lines that are not written yet, and how many.
    batch: Vec<u8>,
    held: u64,
}

/// An open file.
struct Output {
    file: File,
    /// Bytes in it.
    written: u64,
    /// It may be renamed: it is no device.
    regular: bool,
}

impl Writer {
    fn begin(settings: Settings) -> io::Result<Self> {
        let (begun, blocks) = ((settings.now)(), (settings.blocks)());
        let output = Output::begin(&settings.file)?;
        let (key, batch) = (key(), header(blocks)?);
        Ok(Self { settings, output, key, begun, blocks, batch, held: 0 })
    }

    /// Writes until nobody records any more.
    fn follow(
        &mut self,
        mut queue: mpsc::Receiver<Passed>,
        metrics: &RecordingMetrics,
    ) -> io::Result<()> {
        self.write(metrics)?;
        while let Some(first) = queue.blocking_recv() {
            self.take(first, metrics)?;
            while let Ok(next) = queue.try_recv() {
                self.take(next, metrics)?;
            }
            self.write(metrics)?;
        }
        Ok(())
    }

    fn take(&mut self, passed: Passed, metrics: &RecordingMetrics) -> io::Result<()> {
        self.held += 1;
        let full = self.output.written + self.batch.len() as u64 >= self.settings.max_bytes / 2;
        if (full && self.output.regular) || self.blocks != (self.settings.blocks)() {
            self.turn(metrics)?;
        }
        let line: Line = passed.line(self.begun, &self.key);
        serde_json::to_writer(&mut self.batch, &line)?;
        self.batch.push(b'\n');
        if self.batch.len() >= BATCH { self.write(metrics) } else { Ok(()) }
    }

    /// Begins a new file; what is not written yet but for the newest request goes into the old one.
    fn turn(&mut self, metrics: &RecordingMetrics) -> io::Result<()> {
        self.held -= 1;
        self.write(metrics)?;
        self.held = 1;
        self.blocks = (self.settings.blocks)();
        self.begun = (self.settings.now)();
        self.key = key();
        self.output = Output::begin(&self.settings.file)?;
        self.batch = header(self.blocks)?;
        Ok(())
    }

    fn write(&mut self, metrics: &RecordingMetrics) -> io::Result<()> {
        self.output.write(&self.batch)?;
        metrics.written.inc_by(std::mem::take(&mut self.held));
        self.batch.clear();
        Ok(())
    }
}

impl Output {
    /// Opens an empty file; one that is there already is kept as the predecessor.
    fn begin(path: &Path) -> io::Result<Self> {
        let found = match path.metadata() {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let regular = found.as_ref().is_none_or(std::fs::Metadata::is_file);
        if regular && found.is_some_and(|found| found.len() > 0) {
            std::fs::rename(path, predecessor(path))?;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).mode(0o600).open(path)?;
        Ok(Self { file, written: 0, regular })
    }

    /// Writes all, or leaves the file as it was.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let wrote = self.file.write_all(bytes);
        if let (Err(_), true) = (&wrote, self.regular) {
            self.file.set_len(self.written)?;
        }
        self.written += bytes.len() as u64;
        wrote
    }
}

/// `FILE.1`.
fn predecessor(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".1");
    name.into()
}

fn key() -> Key {
    let mut random = [0; 32];
    let halves = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
    random.iter_mut().zip(halves.into_iter().flatten()).for_each(|(to, from)| *to = from);
    Key::new(random)
}

fn header(blocks: Blocks) -> io::Result<Vec<u8>> {
    let started = jiff::Timestamp::now().to_string();
    let header = Header {
        lodesman_trace: VERSION,
        block_tokens: blocks.tokens,
        block_limit: blocks.limit,
        started,
    };
    let mut line = serde_json::to_vec(&header)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::metrics::Metrics;
    use crate::prefix::Chain;
    use crate::server::clock;

    fn metrics() -> RecordingMetrics {
        Metrics::new("ns", "pool", false).unwrap().recording.clone()
    }

    fn settings(file: &Path, max_bytes: u64) -> Settings {
        let blocks = Box::new(|| Blocks { tokens: 64, limit: 2_048 });
        Settings { file: file.to_owned(), max_bytes, blocks, now: clock::now }
    }

    fn passed(hash: u64) -> Passed {
        Passed {
            received: clock::now(),
            prompt_tokens: 100,
            output_tokens: 5,
            cached_tokens: None,
            model: Some("m".into()),
            adapter: false,
            outcome: "ok",
            chain: Chain::from(vec![hash]),
        }
    }

    /// Records so many requests, waits for the writer to end, and returns what it counted.
    fn record(settings: Settings, requests: u64) -> RecordingMetrics {
        let metrics = metrics();
        let (recorder, thread) = start(settings, metrics.clone()).unwrap();
        for hash in 0..requests {
            recorder.record(passed(hash));
        }
        drop(recorder);
        thread.join().unwrap();
        metrics
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_recording_can_be_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let metrics = record(settings(&file, 1 << 20), 100);
        assert_eq!((metrics.written.get(), metrics.active.get()), (100, 0));
        let reader = io::BufReader::new(File::open(&file).unwrap());
        assert_eq!(crate::replay::read(reader).unwrap().arrivals.len(), 100);
    }

    #[test]
    fn files_take_turns_within_the_bytes_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let metrics = record(settings(&file, 4_096), 200);
        assert_eq!(metrics.written.get(), 200);
        let (old, new) = (lines(&predecessor(&file)), lines(&file));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        for lines in [&old, &new] {
            assert!(
                lines[0].starts_with(r#"{"lodesman_trace":1,"#) && lines.len() > 1,
                "{lines:?}"
            );
            assert!(lines[1..].iter().all(|line| serde_json::from_str::<Line>(line).is_ok()));
            assert!(lines.iter().map(|line| line.len() + 1).sum::<usize>() < 2_048 + 200);
        }
    }

    #[test]
    fn what_an_earlier_process_recorded_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        record(settings(&file, 1 << 20), 3);
        record(settings(&file, 1 << 20), 5);
        assert_eq!((lines(&predecessor(&file)).len(), lines(&file).len()), (4, 6));
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_nothing_else() {
        let metrics = metrics();
        let (recorder, thread) =
            start(settings(Path::new("/dev/full"), 1 << 20), metrics.clone()).unwrap();
        thread.join().unwrap();
        recorder.record(passed(1));
        let counted = (metrics.written.get(), metrics.failed.get(), metrics.active.get());
        assert_eq!(counted, (0, 1, 0));
        assert!(Path::new("/dev/full").exists() && !Path::new("/dev/full.1").exists());
    }

    #[test]
    fn prompts_that_are_cut_anew_go_into_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let tokens = Arc::new(AtomicU32::new(64));
        let read = Arc::clone(&tokens);
        let blocks = move || Blocks { tokens: read.load(Ordering::Relaxed), limit: 9 };
        let settings = Settings { blocks: Box::new(blocks), ..settings(&file, 1 << 20) };
        let (metrics, mut writer) = (metrics(), Writer::begin(settings).unwrap());
        writer.take(passed(1), &metrics).unwrap();
        tokens.store(128, Ordering::Relaxed);
        writer.take(passed(2), &metrics).unwrap();
        writer.write(&metrics).unwrap();
        assert_eq!((lines(&predecessor(&file)).len(), lines(&file).len()), (2, 2));
        assert!(lines(&file)[0].contains(r#""block_tokens":128"#));
        assert_eq!(metrics.written.get(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error_at_the_start() {
        assert!(start(settings(Path::new("/absent/trace"), 1 << 20), metrics()).is_err());
    }
}
