//! The lock on the state directory: one process holds it for its whole life, and a living process
//! is never taken over from outside. A dead one's lock is gone with it, since the system keeps it.

use super::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a lock that is held is tried again. Whoever asks for the owner holds it for an
/// instant, and must not make another process believe that the directory is in use.
const TRIES: u32 = 5;
/// The time between two tries.
const TRY_PAUSE: Duration = Duration::from_millis(4);

/// Holds the state directory until it is dropped or the process ends.
#[derive(Debug)]
pub struct StateLock {
    file: File,
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
        if let Err(error) = exclusive(&file) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(io(error.into()));
            }
            return Err(StoreError::Locked { dir: dir.to_owned(), owner: words(&mut file) });
        }
        sign(&file, who).map_err(io)?;
        Ok(StateLock { file, path })
    }

    /// The words of the process that has the state directory now, if one has. Nothing is written
    /// or made, and the lock stays with its owner. Where it cannot be told, nobody is assumed
    /// dead: the answer then is that another process may have it.
    #[must_use]
    pub fn owner(dir: &Path) -> Option<String> {
        let path = dir.join("stepclaw.lock");
        // What is no file cannot have been locked, and opening it might wait.
        if std::fs::metadata(&path).is_ok_and(|what| !what.is_file()) {
            return None;
        }
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
            Err(_) => return Some(SOMEBODY.to_owned()),
        };
        // Shared, so that two who ask do not see each other; given back with the file.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => None,
            Err(_) => Some(words(&mut file)),
        }
    }

    /// What a second process is told about the owner from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn describe(&self, who: &str) -> Result<(), StoreError> {
        let io = |e: std::io::Error| StoreError::from_io(&self.path, &e);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        sign(file, who).map_err(io)
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// An owner who left no words.
const SOMEBODY: &str = "another process";

/// Writes over the last owner's words; only a remainder is cut off, since giving a block back and
/// taking it again costs more than everything else that a lock needs.
fn sign(mut file: &File, who: &str) -> std::io::Result<()> {
    let words = format!("{who}\n");
    file.write_all(words.as_bytes())?;
    let length = u64::try_from(words.len()).unwrap_or(u64::MAX);
    if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
}

fn exclusive(file: &File) -> rustix::io::Result<()> {
    let mut tries = 1;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if tries < TRIES => tries += 1,
            done => return done,
        }
        std::thread::sleep(TRY_PAUSE);
    }
}

/// What the owner says of itself.
fn words(file: &mut File) -> String {
    let mut owner = Vec::new();
    let _ = Read::take(file, 512).read_to_end(&mut owner);
    let owner = String::from_utf8_lossy(&owner);
    match owner.trim() {
        "" => SOMEBODY.to_owned(),
        owner => owner.to_owned(),
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
