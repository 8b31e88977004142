//! What can go wrong with the store, said so that a person knows what and where.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// A failed store operation. Nothing that was stored is lost by any of these.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No space is left.
    #[error("the disk that holds {path} is full; the last step was not stored", path = .path.display())]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The directory or file cannot be written.
    #[error("{path} cannot be written: {detail}", path = .path.display())]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// The system's words.
        detail: String,
    },
    /// Another process has the database.
    #[error("{path} is locked by another program; try again when it has ended", path = .path.display())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// Another process has the state directory.
    #[error("the state directory {dir} is in use by {owner}", dir = .dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// Who has it: process number, command and start.
        owner: String,
    },
    /// The file is damaged or is no database.
    #[error(
        "{path} is damaged or not a database ({detail}); move it away to start anew, or restore it \
         from a copy", path = .path.display()
    )]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// The database's words.
        detail: String,
    },
    /// A newer program wrote it.
    #[error(
        "{path} has schema {found}, this program knows schema {known}: it was written by a newer \
         stepclaw and is left untouched", path = .path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// An older program wrote it, and it was opened for reading only.
    #[error(
        "{path} has schema {found}, this program reads schema {known}: the next command that \
         writes (as `stepclaw agent`) brings it up to date", path = .path.display()
    )]
    Older {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It is somebody else's database.
    #[error("{path} is a database of another program and is left untouched", path = .path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Something else than a file stands in its place.
    #[error("{path} is not a regular file and is left untouched", path = .path.display())]
    NoFile {
        /// The place.
        path: PathBuf,
    },
    /// What was asked for does not fit what is stored.
    #[error("{0}")]
    Refused(String),
    /// The same run was accepted before.
    #[error("run {0} exists already")]
    DuplicateRun(String),
    /// A message with the same idempotency key and other content is stored.
    #[error("idempotency key {0:?} is stored with different content")]
    KeyConflict(String),
    /// Anything else.
    #[error("{path}: {detail}", path = .path.display())]
    Other {
        /// The database.
        path: PathBuf,
        /// The database's words.
        detail: String,
    },
}

impl StoreError {
    /// The error of a database call, classified.
    #[must_use]
    pub fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
        let path = path.to_owned();
        let detail = error.to_string();
        let code = error.sqlite_error_code();
        match code {
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                StoreError::ReadOnly { path, detail }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Corrupt { path, detail }
            }
            _ => StoreError::Other { path, detail },
        }
    }

    /// The error of a file operation, classified.
    #[must_use]
    pub fn from_io(path: &Path, error: &std::io::Error) -> StoreError {
        let path = path.to_owned();
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                StoreError::Full { path }
            }
            std::io::ErrorKind::PermissionDenied
            | std::io::ErrorKind::ReadOnlyFilesystem
            | std::io::ErrorKind::NotADirectory
            | std::io::ErrorKind::AlreadyExists => {
                StoreError::ReadOnly { path, detail: error.to_string() }
            }
            _ => StoreError::Other { path, detail: error.to_string() },
        }
    }
}
