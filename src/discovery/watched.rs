//! A file whose changes are told, by polling: it works on every file system, and through the symbolic links by which
//! Kubernetes swaps the files of a mounted volume.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::discovery::{DiscoveryError, LONGEST_FILE};

/// How often to look. A changed text is taken once it was read twice, so that none is taken while it is written: a
/// change takes effect within two looks.
pub const POLL: Duration = Duration::from_millis(200);

/// A file and what was seen of it.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    stamp: Option<Stamp>,
    /// The text that was told last.
    told: Option<String>,
    /// A text that differs from it, read once.
    pending: Option<String>,
    /// How the last look failed, if it did: that was told.
    failure: Option<String>,
}

/// What differs between two versions of a file, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Watched {
    /// A file of which nothing is known.
    pub fn new(path: PathBuf) -> Self {
        Self { path, stamp: None, told: None, pending: None, failure: None }
    }

    /// A file that was read elsewhere: only another text is told.
    pub fn told(path: PathBuf, text: String) -> Self {
        Self { told: Some(text), ..Self::new(path) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text when it is new; the first at once, every other when it was read twice.
    ///
    /// # Errors
    /// When the file cannot be read, or is too long: each reason once, until it can be read again.
    pub async fn poll(&mut self) -> Result<Option<String>, DiscoveryError> {
        let (path, known) = (self.path.clone(), self.stamp.filter(|_| self.pending.is_none()));
        // A file system may hang; a worker of the runtime must not.
        let look = tokio::task::spawn_blocking(move || look(&path, known)).await;
        match look.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(None) => Ok(None),
            Ok(Some((stamp, text))) => {
                self.failure = None;
                self.stamp = Some(stamp);
                Ok(self.seen(text))
            }
            Err(error) => {
                self.stamp = None;
                self.pending = None;
                let failure = Some(error.to_string());
                if std::mem::replace(&mut self.failure, failure.clone()) == failure {
                    return Ok(None);
                }
                Err(DiscoveryError::Read { path: self.path.clone(), error })
            }
        }
    }

    /// Takes in a text that was read; it is returned when it is to be told.
    fn seen(&mut self, text: String) -> Option<String> {
        if self.told.as_ref() == Some(&text) {
            self.pending = None;
            return None;
        }
        if self.told.is_some() && self.pending.as_ref() != Some(&text) {
            self.pending = Some(text);
            return None;
        }
        self.pending = None;
        self.told = Some(text.clone());
        Some(text)
    }
}

/// The stamp and text of a file; none when its stamp is `known`.
fn look(path: &Path, known: Option<Stamp>) -> std::io::Result<Option<(Stamp, String)>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let stamp = Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    if known == Some(stamp) {
        return Ok(None);
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(std::io::Error::other("the file is longer than 1 MiB"));
    }
    Ok(Some((stamp, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_text_is_told_when_it_was_read_twice() {
        let mut watched = Watched::new(PathBuf::new());
        let mut seen = |text: &str| watched.seen(text.to_owned());
        assert_eq!(seen("a"), Some("a".to_owned()), "the first at once");
        assert_eq!((seen("a"), seen("half"), seen("whole")), (None, None, None));
        assert_eq!((seen("whole"), seen("whole")), (Some("whole".to_owned()), None));
        assert_eq!(
            (seen("b"), seen("whole"), seen("b")),
            (None, None, None),
            "a change taken back"
        );
    }

    #[test]
    fn what_was_read_elsewhere_is_not_told() {
        let mut watched = Watched::told(PathBuf::new(), "a".to_owned());
        let mut seen = |text: &str| watched.seen(text.to_owned());
        assert_eq!((seen("a"), seen("b"), seen("b")), (None, None, Some("b".to_owned())));
    }
}
