//! A folder that changes as the kubelet changes the volume of a `ConfigMap`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

/// What is before each configuration.
const HEAD: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

/// The volume, with one file.
pub(super) struct Volume {
    folder: TempDir,
    versions: usize,
}

impl Volume {
    pub(super) fn with(text: &str) -> Self {
        let mut volume = Self { folder: tempfile::tempdir().unwrap(), versions: 0 };
        volume.swap(text);
        symlink("..data/config.yaml", volume.file()).unwrap();
        volume
    }

    /// The path that is mounted: a link into a folder that is a link.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    /// Puts another version in place of all files, at once, and removes the one before.
    pub(super) fn swap(&mut self, text: &str) {
        let at = |version: usize| self.folder.path().join(format!("..version_{version}"));
        self.versions += 1;
        fs::create_dir(at(self.versions)).unwrap();
        fs::write(at(self.versions).join("config.yaml"), format!("{HEAD}{text}")).unwrap();
        let (link, data) =
            (self.folder.path().join("..data_tmp"), self.folder.path().join("..data"));
        symlink(at(self.versions).file_name().unwrap(), &link).unwrap();
        fs::rename(link, data).unwrap();
        if self.versions > 1 {
            fs::remove_dir_all(at(self.versions - 1)).unwrap();
        }
    }

    /// Takes all files away, until the next version.
    pub(super) fn empty(&self) {
        fs::remove_file(self.folder.path().join("..data")).unwrap();
    }

    /// Writes into the file as it is.
    pub(super) fn overwrite(&self, text: &str) {
        fs::write(self.file(), format!("{HEAD}{text}")).unwrap();
    }
}
