//! The lock on the state directory: one process holds it for its whole life, and a living process
//! is never taken over from outside. A dead one's lock is gone with it, since the system keeps it.

use super::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Holds the state directory until it is dropped or the process ends.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
    path: PathBuf,
}

impl StateLock {
    /// Takes the lock, creating the directory if it is missing. `who` is what a second process is
    /// told about the owner.
    ///
    /// # Errors
    /// `Locked` with the owner's words when another process has it; `ReadOnly`, `Full` or `Other`
    /// when the directory or the lock file cannot be made.
    pub fn take(dir: &Path, who: &str) -> Result<StateLock, StoreError> {
        create_private(dir)?;
        let path = dir.join("stepclaw.lock");
        let io = |e: std::io::Error| StoreError::from_io(&path, &e);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io)?;
        // The lock is the system's and the words in the file are only for people: a file without
        // words, or with a dead owner's, locks nothing (no grace period, nothing to reclaim).
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(io(error.into()));
            }
            let mut owner = Vec::new();
            let _ = Read::take(&mut file, 512).read_to_end(&mut owner);
            let owner = String::from_utf8_lossy(&owner);
            let owner = owner.trim();
            let owner = if owner.is_empty() { "another process" } else { owner };
            return Err(StoreError::Locked { dir: dir.to_owned(), owner: owner.to_owned() });
        }
        file.set_len(0).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        writeln!(file, "{who}").map_err(io)?;
        Ok(StateLock { _file: file, path })
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a directory and its parents; what is new belongs to its owner alone.
///
/// # Errors
/// What the system says.
pub fn create_private(dir: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| StoreError::from_io(dir, &e))
}
