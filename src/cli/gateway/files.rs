//! Files of the Control UI, read on a worker (J17).

use crate::config::{Config, Paths};
use crate::gateway::{FileGot, FileWanted};
use httpdate::{fmt_http_date, parse_http_date};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

/// Largest file that is sent, bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files that are remembered while somebody is sent them.
const SHARED_MAX: usize = 256;

/// The directory. What several clients are sent at the same time is in memory once.
pub(super) struct Files {
    root: PathBuf,
    shared: Mutex<BTreeMap<PathBuf, Shared>>,
}

/// When a file was changed, and its bytes while somebody is sent them.
type Shared = (SystemTime, Weak<[u8]>);

/// The directory that the config names, if it names one.
pub(super) fn files(config: &Config, paths: &Paths) -> Option<Files> {
    let root = config.network.ui_root.as_deref()?;
    let tail = root.strip_prefix('~').filter(|tail| tail.is_empty() || tail.starts_with('/'));
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let root = match (tail, home) {
        (Some(tail), Some(home)) => PathBuf::from(home).join(tail.trim_start_matches('/')),
        // Not from wherever the process was started.
        _ => paths.state.join(root),
    };
    Some(Files { root, shared: Mutex::new(BTreeMap::new()) })
}

impl Files {
    /// Reads one.
    pub fn read(&self, wanted: &FileWanted) -> FileGot {
        let Ok(root) = self.root.canonicalize() else { return FileGot::Missing };
        let copies = wanted.packed.iter().map(|ending| (Some(*ending), format!(".{ending}")));
        for (packed, ending) in copies.chain([(None, String::new())]) {
            let path = root.join(format!("{}{ending}", wanted.path));
            match self.one(&root, &path, wanted.since.as_deref()) {
                Ok(None) => return FileGot::Unchanged,
                Ok(Some((bytes, modified))) => return FileGot::Found { bytes, packed, modified },
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return FileGot::Failed(format!("the file cannot be read: {e}")),
            }
        }
        FileGot::Missing
    }

    /// A regular file in the directory, with the time of its change; nothing if that is not after
    /// `since`.
    fn one(
        &self,
        root: &Path,
        path: &Path,
        since: Option<&str>,
    ) -> std::io::Result<Option<(Arc<[u8]>, String)>> {
        let path = path.canonicalize()?;
        // A link may lead anywhere, and a pipe would be waited for.
        if !path.starts_with(root) || !path.symlink_metadata()?.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let mut file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW).open(&path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let changed = about.modified()?;
        let modified = fmt_http_date(changed);
        // Both have whole seconds, and so are compared as the header has them.
        let since = since.and_then(|since| parse_http_date(since).ok());
        if since.is_some_and(|since| parse_http_date(&modified).is_ok_and(|at| at <= since)) {
            return Ok(None);
        }
        if let Some(bytes) = self.shared(&path, changed) {
            return Ok(Some((bytes, modified)));
        }
        let bytes = whole(&mut file)?;
        self.share(path, changed, &bytes);
        Ok(Some((bytes, modified)))
    }

    fn shared(&self, path: &Path, changed: SystemTime) -> Option<Arc<[u8]>> {
        let shared = self.shared.lock().ok()?;
        shared.get(path).filter(|(at, _)| *at == changed).and_then(|(_, bytes)| bytes.upgrade())
    }

    fn share(&self, path: PathBuf, changed: SystemTime, bytes: &Arc<[u8]>) {
        let Ok(mut shared) = self.shared.lock() else { return };
        if shared.len() >= SHARED_MAX {
            shared.retain(|_, (_, bytes)| bytes.strong_count() > 0);
        }
        shared.insert(path, (changed, Arc::downgrade(bytes)));
    }
}

/// Linux's flag for a file that is not opened through a link.
const O_NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

fn whole(file: &mut File) -> std::io::Result<Arc<[u8]>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let words = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, words));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn wanted(path: &str) -> FileWanted {
        FileWanted { ticket: 1, path: path.into(), packed: vec!["br", "gz"], since: None }
    }

    /// J17: links stay inside, only files are read, copies are chosen, times are compared.
    #[test]
    fn files_are_read_from_inside() {
        let dir = tempfile::tempdir().unwrap();
        let (root, out) = (dir.path().join("ui"), dir.path().join("secret.txt"));
        std::fs::create_dir_all(root.join("assets")).unwrap();
        std::fs::write(&out, "secret").unwrap();
        std::fs::write(root.join("a.txt"), "plain").unwrap();
        std::fs::write(root.join("a.txt.gz"), "packed").unwrap();
        symlink(&out, root.join("out.txt")).unwrap();
        symlink(root.join("a.txt"), root.join("in.txt")).unwrap();
        let big = File::create(root.join("big.txt")).unwrap();
        big.set_len(FILE_BYTES_MAX + 1).unwrap();
        let files = Files { root, shared: Mutex::default() };
        let found = |got: FileGot| match got {
            FileGot::Found { bytes, packed, .. } => {
                Some((String::from_utf8_lossy(&bytes).into_owned(), packed))
            }
            _ => None,
        };
        assert_eq!(found(files.read(&wanted("a.txt"))), Some(("packed".into(), Some("gz"))));
        assert_eq!(found(files.read(&wanted("in.txt"))), Some(("plain".into(), None)));
        for path in ["out.txt", "assets", "none.txt", "../secret.txt"] {
            assert_eq!(files.read(&wanted(path)), FileGot::Missing, "{path}");
        }
        assert!(matches!(files.read(&wanted("big.txt")), FileGot::Failed(_)));
        let FileGot::Found { modified, .. } = files.read(&wanted("a.txt")) else { panic!() };
        for (since, fresh) in [(modified.as_str(), true), ("Mon, 01 Jan 2001 00:00:00 GMT", false)]
        {
            let asked = FileWanted { since: Some(since.into()), ..wanted("a.txt") };
            assert_eq!(files.read(&asked) == FileGot::Unchanged, fresh, "{since}");
        }
    }
}
