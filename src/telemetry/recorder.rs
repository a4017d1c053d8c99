//! Writes what is to be recorded into a file, on a thread of its own.
//!
//! A file that has half of the bytes that are allowed becomes `FILE.1`, in place of the one before, and a new one is
//! begun, under a new key; so it is when the file was removed or renamed. Whole lines are written, several at once while many requests pass. When the file cannot be
//! written, what is half written is cut off and the recording is over: the disk may be full, and nobody is to wait for it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::metrics::RecordingMetrics;
use crate::recording::{Blocks, Header, Key, Line, Passed, Recorder, VERSION};

/// Bytes that are written at once, about.
const BATCH: usize = 64 << 10;

/// A file of more bytes has more than a header in it.
const LONGEST_HEADER: u64 = 1 << 10;

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

/// Begins to record. The first request begins the file: until then what is there stays as it is. The thread ends when
/// the last recorder is gone and all is written, or when the file cannot be written.
///
/// # Errors
/// When the file cannot be made.
pub fn start(
    settings: Settings,
    metrics: RecordingMetrics,
) -> io::Result<(Recorder, JoinHandle<()>)> {
    if !is_fifo(&settings.file) {
        open(&settings.file)?;
    }
    let (recorder, mut queue) = Recorder::new(metrics.clone());
    metrics.active.set(1);
    let mut writer = Writer::new(settings, metrics);
    let thread = Builder::new().name("recorder".to_owned()).spawn(move || {
        if let Err(error) = writer.follow(&mut queue) {
            let file = writer.settings.file.display();
            tracing::warn!(%file, %error, "recording stopped");
            writer.give_up(queue);
        }
        writer.metrics.active.set(0);
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
    metrics: RecordingMetrics,
    /// None before the first request.
    part: Option<Part>,
    /// Lines that are not written yet, and of how many requests.
    batch: Vec<u8>,
    lines: u64,
    /// Requests taken that are not in a file.
    held: u64,
}

/// A file and what its lines are made with.
struct Part {
    output: Output,
    key: Key,
    begun: Instant,
    blocks: Blocks,
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
    fn new(settings: Settings, metrics: RecordingMetrics) -> Self {
        Self { settings, metrics, part: None, batch: Vec::new(), lines: 0, held: 0 }
    }

    /// Writes until nobody records any more.
    fn follow(&mut self, queue: &mut mpsc::Receiver<Passed>) -> io::Result<()> {
        while let Some(first) = queue.blocking_recv() {
            self.take(first)?;
            while let Ok(next) = queue.try_recv() {
                self.take(next)?;
            }
            self.write()?;
        }
        Ok(())
    }

    /// Counts what is not in a file and will not be: what was taken, and what waits.
    fn give_up(&self, mut queue: mpsc::Receiver<Passed>) {
        self.metrics.failed.inc_by(self.held);
        queue.close();
        while queue.blocking_recv().is_some() {
            self.metrics.failed.inc();
        }
    }

    /// Adds a request, unless it was cut in another way than prompts are now.
    fn take(&mut self, passed: Passed) -> io::Result<()> {
        let blocks = (self.settings.blocks)();
        if !passed.fits(blocks) {
            self.metrics.dropped.inc();
            return Ok(());
        }
        self.held += 1;
        let room = self.settings.max_bytes / 2;
        let batch = self.batch.len() as u64;
        let goes_on = |part: &Part| {
            let full = part.output.regular && part.output.written + batch >= room;
            let there = batch > 0 || part.output.is_at(&self.settings.file);
            !full && there && part.blocks == blocks
        };
        let part = match self.part.take_if(|part| goes_on(part)) {
            Some(part) => part,
            None => self.turn(blocks)?,
        };
        let line: Line = passed.line(part.begun, &part.key);
        self.part = Some(part);
        serde_json::to_writer(&mut self.batch, &line)?;
        self.batch.push(b'\n');
        self.lines += 1;
        if self.batch.len() >= BATCH { self.write() } else { Ok(()) }
    }

    /// Begins a new file; what is not written yet goes into the old one.
    fn turn(&mut self, blocks: Blocks) -> io::Result<Part> {
        self.write()?;
        let output = Output::begin(&self.settings.file)?;
        self.batch = header(blocks)?;
        Ok(Part { output, key: key(), begun: (self.settings.now)(), blocks })
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(part) = &mut self.part else { return Ok(()) };
        part.output.write(&self.batch)?;
        self.batch.clear();
        self.held = self.held.saturating_sub(self.lines);
        self.metrics.written.inc_by(std::mem::take(&mut self.lines));
        Ok(())
    }
}

impl Output {
    /// Opens an empty file; one that is there already is kept as the predecessor if it has more than a header.
    fn begin(path: &Path) -> io::Result<Self> {
        let found = match path.metadata() {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let regular = found.as_ref().is_none_or(std::fs::Metadata::is_file);
        let length = found.filter(|_| regular).map_or(0, |found| found.len());
        if length > 0 && !(length <= LONGEST_HEADER && is_header(&std::fs::read(path)?)) {
            std::fs::rename(path, predecessor(path))?;
        }
        let file = open(path)?;
        if regular {
            file.set_len(0)?;
        }
        Ok(Self { file, written: 0, regular })
    }

    /// Whether it is still what a reader finds.
    fn is_at(&self, path: &Path) -> bool {
        let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let (ours, found) = (self.file.metadata().map(id), path.metadata().map(id));
        !self.regular || ours.is_ok_and(|ours| found.is_ok_and(|found| ours == found))
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

/// Opens a file to write, and leaves what is in it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Whether a reader would take it for the end when the file is closed again.
fn is_fifo(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// Whether a file has a header and nothing else.
fn is_header(text: &[u8]) -> bool {
    serde_json::from_slice::<Header>(text).is_ok()
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
            blocks: Blocks::new(64, 2_048),
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
        record(settings(&file, 1 << 20), 0);
        assert_eq!((lines(&predecessor(&file)).len(), lines(&file).len()), (4, 6));
    }

    #[test]
    fn a_file_that_holds_only_its_header_replaces_no_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        record(settings(&file, 1 << 20), 3);
        std::fs::rename(&file, predecessor(&file)).unwrap();
        std::fs::write(&file, header(Blocks::default()).unwrap()).unwrap();
        record(settings(&file, 1 << 20), 5);
        assert_eq!((lines(&predecessor(&file)).len(), lines(&file).len()), (4, 6));
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_nothing_else() {
        let metrics = metrics();
        let (recorder, mut queue) = Recorder::new(metrics.clone());
        let mut writer = Writer::new(settings(Path::new("/dev/full"), 1 << 20), metrics.clone());
        // One batch is full before the third request is taken, which waits then.
        for hashes in [vec![1; 2_048], vec![2; 2_048], vec![3; 2_048]] {
            recorder.record(Passed { chain: Chain::from(hashes), ..passed(0) });
        }
        assert!(writer.follow(&mut queue).is_err());
        recorder.record(passed(4));
        writer.give_up(queue);
        recorder.record(passed(5));
        assert_eq!((metrics.written.get(), metrics.failed.get()), (0, 5));
        assert_eq!(record(settings(Path::new("/dev/full"), 1 << 20), 1).active.get(), 0);
        assert!(Path::new("/dev/full").exists() && !Path::new("/dev/full.1").exists());
    }

    #[test]
    fn prompts_that_are_cut_anew_go_into_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let tokens = Arc::new(AtomicU32::new(64));
        let read = Arc::clone(&tokens);
        let blocks = move || Blocks::new(read.load(Ordering::Relaxed), 9);
        let settings = Settings { blocks: Box::new(blocks), ..settings(&file, 1 << 20) };
        let (metrics, of) = (metrics(), |tokens| Blocks::new(tokens, 9));
        let mut writer = Writer::new(settings, metrics.clone());
        writer.take(Passed { blocks: of(64), ..passed(1) }).unwrap();
        tokens.store(128, Ordering::Relaxed);
        writer.take(Passed { blocks: of(64), ..passed(2) }).unwrap();
        writer.take(Passed { blocks: of(128), ..passed(3) }).unwrap();
        writer.write().unwrap();
        assert_eq!((lines(&predecessor(&file)).len(), lines(&file).len()), (2, 2));
        assert!(lines(&file)[0].contains(r#""block_tokens":128"#));
        assert_eq!((metrics.written.get(), metrics.dropped.get()), (2, 1));
    }

    #[test]
    fn a_file_that_was_removed_or_renamed_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (file, away) = (folder.path().join("trace"), folder.path().join("away"));
        let mut writer = Writer::new(settings(&file, 1 << 20), metrics());
        let mut record = |hash| writer.take(passed(hash)).and_then(|()| writer.write()).unwrap();
        record(1);
        std::fs::remove_file(&file).unwrap();
        record(2);
        std::fs::rename(&file, &away).unwrap();
        record(3);
        record(4);
        assert_eq!((lines(&away).len(), lines(&file).len()), (2, 3));
        assert!(!predecessor(&file).exists());
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error_at_the_start() {
        assert!(start(settings(Path::new("/absent/trace"), 1 << 20), metrics()).is_err());
    }
}
