//! Reads the workspace's files for the prompt: regular files inside the workspace, at most so much
//! of each, and none again that has not changed (PR15 to PR17).

use crate::context::bootstrap::Found;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Most of one file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// How often a file is read that changes while it is read.
const TRIES: usize = 8;
/// What changed so recently may change again within the same tick of the file system's clock.
const YOUNG: Duration = Duration::from_secs(2);
/// Most files that are remembered.
const REMEMBERED_MAX: usize = 64;

/// What tells a file from another, and from itself after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }

    /// Whether a later change of the same file is certain to have another stamp.
    fn settled(self, now: SystemTime) -> bool {
        let seconds = u64::try_from(self.changed.0.max(self.modified.0)).unwrap_or(0);
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        now.duration_since(at).is_ok_and(|age| age > YOUNG)
    }
}

/// What was read, by path; a file that has not changed costs one look at it.
#[derive(Debug, Default)]
pub(super) struct Files {
    read: BTreeMap<PathBuf, (Stamp, Found)>,
}

impl Files {
    /// What is remembered of a path that has not changed.
    pub fn known(&self, path: &Path) -> Option<Found> {
        let (stamp, found) = self.read.get(path)?;
        let meta = std::fs::metadata(path).ok()?;
        (Stamp::of(&meta) == *stamp).then(|| found.clone())
    }

    /// Remembers what was read.
    fn keep(&mut self, path: &Path, stamp: Stamp, found: Found) {
        if self.read.len() >= REMEMBERED_MAX {
            self.read.pop_first();
        }
        self.read.insert(path.to_owned(), (stamp, found));
    }

    /// A file of a folder: what is known of it, or else read anew.
    pub fn get(&mut self, folder: &Path, name: &str) -> Found {
        let path = folder.join(name);
        if let Some(found) = self.known(&path) {
            return found;
        }
        self.read.remove(&path);
        let (found, stamp) = read(folder, &path);
        if let Some(stamp) = stamp.filter(|stamp| stamp.settled(SystemTime::now())) {
            self.keep(&path, stamp, found.clone());
        }
        found
    }
}

/// Reads a file that is to be inside a folder; with its stamp where it was read whole in one
/// version.
fn read(folder: &Path, path: &Path) -> (Found, Option<Stamp>) {
    for last in (0..TRIES).rev() {
        match once(folder, path) {
            Ok(Some((found, stamp))) => return (found, Some(stamp)),
            // It changes while it is looked at: once more.
            Ok(None) if last > 0 => {}
            Ok(None) => {
                return (Found::Refused("it changes all the time".to_owned()), None);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return missing(path),
            Err(e) => return (Found::Refused(why(&e)), None),
        }
    }
    (Found::Missing, None)
}

/// Nothing there, or a name that leads nowhere.
fn missing(path: &Path) -> (Found, Option<Stamp>) {
    match std::fs::symlink_metadata(path) {
        Ok(_) => (Found::Refused("it is a link that leads nowhere".to_owned()), None),
        Err(_) => (Found::Missing, None),
    }
}

fn why(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "reading it is not permitted".to_owned(),
        _ => error.to_string(),
    }
}

/// One attempt; nothing if the file changed under it.
fn once(folder: &Path, path: &Path) -> std::io::Result<Option<(Found, Stamp)>> {
    // Opening a pipe would wait for its other end, a device might do anything: they are not even
    // opened, and what takes their place in between does not block.
    let before = std::fs::metadata(path)?;
    if let Some(refused) = irregular(&before) {
        return Ok(Some((refused, Stamp::of(&before))));
    }
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    let stamp = Stamp::of(&meta);
    if let Some(refused) = irregular(&meta) {
        return Ok(Some((refused, stamp)));
    }
    // Where the name leads now must be what was opened, or nothing is known of where that is.
    let real = std::fs::canonicalize(path)?;
    let there = std::fs::metadata(&real)?;
    if (there.dev(), there.ino()) != (meta.dev(), meta.ino()) {
        return Ok(None);
    }
    if !real.starts_with(std::fs::canonicalize(folder)?) {
        let refused = Found::Refused("it is a link that leads out of the workspace".to_owned());
        return Ok(Some((refused, stamp)));
    }
    let mut bytes = Vec::new();
    (&file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    // A file that lost its name meanwhile is whole; one that was written into may not be.
    let after = Stamp::of(&file.metadata()?);
    if (after.size, after.modified) != (stamp.size, stamp.modified) {
        return Ok(None);
    }
    Ok(Some((text(bytes), stamp)))
}

/// Why something is not a file to read.
fn irregular(meta: &Metadata) -> Option<Found> {
    let kind = meta.file_type();
    if kind.is_file() {
        return None;
    }
    let what = if kind.is_dir() { "it is a directory" } else { "it is not a regular file" };
    Some(Found::Refused(what.to_owned()))
}

/// Bytes as text: what is too much is cut, what is no text is replaced, and both are noted.
fn text(mut bytes: Vec<u8>) -> Found {
    let most = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    let mut notes = Vec::new();
    if bytes.len() > most {
        bytes.truncate(most);
        // A character that the cut went through is left out whole.
        let torn = std::str::from_utf8(&bytes).err().filter(|e| e.error_len().is_none());
        if let Some(torn) = torn {
            bytes.truncate(torn.valid_up_to());
        }
        notes.push(format!("only its first {} MiB were read", FILE_BYTES_MAX >> 20));
    }
    let bad = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    if bad > 0 {
        let bad = if bad == 1 { "1 place".to_owned() } else { format!("{bad} places") };
        notes.push(format!("{bad} that are not UTF-8 were replaced"));
    }
    let text = String::from_utf8_lossy(&bytes);
    Found::Text(text.strip_prefix('\u{feff}').unwrap_or(&text).into(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn refused(found: &Found) -> &str {
        match found {
            Found::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    fn read_text(found: &Found) -> &str {
        match found {
            Found::Text(text, _) => text,
            other => panic!("{other:?}"),
        }
    }

    fn set_old(path: &Path) {
        let old = SystemTime::now() - Duration::from_secs(100);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }

    /// PR15: only regular files inside the workspace, each refusal by its reason; nothing blocks.
    #[test]
    fn what_is_no_file_of_the_workspace_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::write(at("real.md"), "inside").unwrap();
        symlink(at("real.md"), at("IDENTITY.md")).unwrap();
        symlink(outside.path().join("secret"), at("SOUL.md")).unwrap();
        symlink(at("nowhere"), at("USER.md")).unwrap();
        symlink(outside.path(), at("out")).unwrap();
        std::fs::create_dir(at("AGENTS.md")).unwrap();
        let fifo = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("MEMORY.md"), rustix::fs::FileType::Fifo, fifo, 0)
            .unwrap();
        let mut files = Files::default();
        let mut get = |name: &str| files.get(dir.path(), name);
        assert_eq!(read_text(&get("IDENTITY.md")), "inside");
        assert_eq!(refused(&get("SOUL.md")), "it is a link that leads out of the workspace");
        assert_eq!(refused(&get("out/secret")), "it is a link that leads out of the workspace");
        assert_eq!(refused(&get("USER.md")), "it is a link that leads nowhere");
        assert_eq!(refused(&get("AGENTS.md")), "it is a directory");
        assert_eq!(refused(&get("MEMORY.md")), "it is not a regular file");
        assert_eq!(get("BOOTSTRAP.md"), Found::Missing);
    }

    /// PR16: what is too long is cut at a character, what is no text is replaced, and both are
    /// noted.
    #[test]
    fn what_is_read_is_bounded_text() {
        let dir = tempfile::tempdir().unwrap();
        let write = |bytes: &[u8]| std::fs::write(dir.path().join("AGENTS.md"), bytes).unwrap();
        let get = || match Files::default().get(dir.path(), "AGENTS.md") {
            Found::Text(text, notes) => (text, notes),
            other => panic!("{other:?}"),
        };
        write(b"\xef\xbb\xbfa\xff\xfeb\xe2\x82");
        let (text, notes) = get();
        assert_eq!(&*text, "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(notes, ["3 places that are not UTF-8 were replaced"]);
        let most = usize::try_from(FILE_BYTES_MAX).unwrap();
        write(format!("{}€ and more", "x".repeat(most - 1)).as_bytes());
        let (text, notes) = get();
        assert_eq!(text.len(), most - 1);
        assert_eq!(notes, ["only its first 2 MiB were read"]);
    }

    /// PR17: what has not changed is not read again; what has, is, also within one tick.
    #[test]
    fn only_a_change_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("AGENTS.md");
        let mut files = Files::default();
        for n in 0..50 {
            let text = format!("{:02}", n % 100);
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read_text(&files.get(dir.path(), "AGENTS.md")), text);
        }
        assert!(files.read.is_empty(), "what is young is not trusted");
        set_old(&path);
        let meta = std::fs::metadata(&path).unwrap();
        files.keep(&path, Stamp::of(&meta), Found::Text("remembered".into(), vec![]));
        assert_eq!(read_text(&files.get(dir.path(), "AGENTS.md")), "remembered");
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(files.get(dir.path(), "AGENTS.md"), Found::Missing);
        std::fs::write(&path, "49").unwrap();
        set_old(&path);
        assert_eq!(read_text(&files.get(dir.path(), "AGENTS.md")), "49", "another inode");
    }

    /// PR17: a file that is replaced while it is read is read in one of its versions, whole.
    #[test]
    fn one_version_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("AGENTS.md");
        let text = |c: &str| c.repeat(300_000);
        std::fs::write(&path, text("a")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (stop, path, next) = (Arc::clone(&stop), path.clone(), dir.path().join("next"));
            move || {
                for c in ["b", "c"].iter().cycle() {
                    std::fs::write(&next, text(c)).unwrap();
                    std::fs::rename(&next, &path).unwrap();
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        let mut files = Files::default();
        let mut whole = 0;
        for _ in 0..200 {
            match files.get(dir.path(), "AGENTS.md") {
                Found::Text(got, _) => {
                    let first = &got[..1];
                    assert_eq!(*got, text(first));
                    whole += 1;
                }
                Found::Refused(why) => assert_eq!(why, "it changes all the time"),
                Found::Missing => panic!("a rename leaves no gap"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert!(whole > 0);
    }
}
