//! What the file tools share: reading regular files, replacing them as a whole, naming what a
//! model may have meant.

use super::order::real_path;
use crate::tools::splice::{self, fold};
use serde_json::{Map, Value, json};
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Most bytes of a file that is edited or patched.
pub const EDIT_BYTES_MAX: u64 = 16 << 20;
/// Entries of a directory in which close names are looked for.
const NAMES_MAX: usize = 5_000;
/// Close names that are shown, and how alike they must be.
const CLOSE_MAX: usize = 3;
const CLOSE_LIKENESS: f32 = 0.6;

/// A failure of the system in words.
pub fn failed(what: &str, path: &str, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    format!("Cannot {what} {path}: {why}")
}

/// The metadata of a regular file that is not larger than `max`; others are refused.
pub fn regular(shown: &str, meta: &Metadata, max: u64) -> Result<(), String> {
    if meta.is_dir() {
        return Err(format!("{shown} is a directory."));
    }
    if !meta.is_file() {
        return Err(format!("{shown} is not a regular file (a device, a pipe or a socket)."));
    }
    if meta.len() > max {
        return Err(format!("{shown} has {} bytes; the limit is {max}.", meta.len()));
    }
    Ok(())
}

/// All bytes of a regular file.
pub fn read(shown: &str, path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let say = |error: io::Error| failed("read", shown, &error);
    // Before the file is opened: to open a pipe would wait for its other end.
    regular(shown, &fs::metadata(path).map_err(say)?, max)?;
    let file = File::open(path).map_err(say)?;
    regular(shown, &file.metadata().map_err(say)?, max)?;
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(say)?;
    if bytes.len() as u64 > max {
        return Err(format!("{shown} has more than {max} bytes, which is the limit."));
    }
    Ok(bytes)
}

/// The text of a file that is going to be changed.
pub fn read_text(shown: &str, path: &Path) -> Result<String, String> {
    String::from_utf8(read(shown, path, EDIT_BYTES_MAX)?)
        .map_err(|_| format!("{shown} is not valid UTF-8; it was not changed."))
}

/// Replaces a whole file, or makes it with its directories, and reads it back. Others see either
/// the old file or the new one, except where a rename would lose something: a file with several
/// names or another owner is overwritten in its place.
pub fn replace(shown: &str, path: &Path, bytes: &[u8]) -> Result<(), String> {
    let real = real_path(path);
    let say = |error: io::Error| failed("write", shown, &error);
    let old = match fs::metadata(&real) {
        Ok(meta) => {
            regular(shown, &meta, u64::MAX)?;
            // A rename would also replace a file that may not be written.
            drop(OpenOptions::new().write(true).open(&real).map_err(say)?);
            Some(meta)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(say(error)),
    };
    if let Some(parent) = real.parent() {
        fs::create_dir_all(parent).map_err(say)?;
    }
    if !by_rename(&real, bytes, old.as_ref()).map_err(say)? {
        fs::write(&real, bytes).map_err(say)?;
    }
    let back = fs::read(&real).map_err(say)?;
    if back != bytes {
        return Err(format!("{shown} was written, but reads back with other content."));
    }
    Ok(())
}

/// Whether the file was replaced by a rename; false where it has to be overwritten instead.
fn by_rename(real: &Path, bytes: &[u8], old: Option<&Metadata>) -> io::Result<bool> {
    if old.is_some_and(|meta| meta.nlink() > 1) {
        return Ok(false);
    }
    let temp = beside(real);
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temp) {
        Ok(file) => file,
        // The directory may not be written, the file itself may.
        Err(_) if old.is_some() => return Ok(false),
        Err(error) => return Err(error),
    };
    let done = (|| {
        if let Some(old) = old {
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                return Ok(false);
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        file.write_all(bytes)?;
        fs::rename(&temp, real)?;
        Ok(true)
    })();
    if !matches!(done, Ok(true)) {
        let _ = fs::remove_file(&temp);
    }
    done
}

/// A name for a temporary file in the same directory.
fn beside(real: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Short, so that a long file name does not pass the limit of the file system.
    real.with_file_name(format!(".stepclaw-{}-{count}.tmp", std::process::id()))
}

/// The details of a change.
pub fn change(shown: &str, old: Option<&str>, new: &str) -> Map<String, Value> {
    let mut details = Map::new();
    details.insert("changed".into(), json!(true));
    if let Some(diff) = old.and_then(|old| splice::diff(shown, old, new)) {
        details.insert("diff".into(), json!(diff.diff));
        details.insert("patch".into(), json!(diff.patch));
        if let Some(line) = diff.first_changed_line {
            details.insert("firstChangedLine".into(), json!(line));
        }
    }
    details
}

/// What else a missing file may be called.
#[derive(Debug, Default)]
pub struct Meant {
    /// Names that differ in the form of their characters or blanks only.
    pub same: Vec<PathBuf>,
    /// Names that are alike.
    pub close: Vec<String>,
}

/// Looks in the directory of a missing file for what may have been meant.
pub fn meant(path: &Path) -> Meant {
    let mut meant = Meant::default();
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return meant };
    let name = name.to_string_lossy();
    let Ok(entries) = fs::read_dir(parent) else { return meant };
    let mut names: Vec<String> = Vec::new();
    for entry in entries.take(NAMES_MAX).flatten() {
        let Ok(other) = entry.file_name().into_string() else { continue };
        if fold(&other) == fold(&name) {
            meant.same.push(parent.join(&other));
        }
        names.push(other);
    }
    names.sort_unstable();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = crate::tools::diff::close(name.as_ref(), &names, CLOSE_MAX, CLOSE_LIKENESS);
    meant.close = close.into_iter().map(str::to_owned).collect();
    meant.same.sort_unstable();
    meant
}
