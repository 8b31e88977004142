//! The config's file: read as it is, changed as a whole. A change is planned and checked before
//! anything is written, and is there whole or not at all (C14).

use super::Failed;
use crate::base::id;
use crate::config::{self, Change, ChangeError, Changed, Config, LoadError, Wanted, process_env};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Whether a config may be used here, beside being right in itself; else why not, in words.
type Fits = Box<dyn Fn(&Config) -> Result<(), Failed> + Send + Sync>;

/// The file, and what holds of it in this process. Everything it does may wait for the disk.
pub(super) struct Keeper {
    path: PathBuf,
    fits: Fits,
    held: Mutex<Held>,
}

/// Texts that this process has taken up.
struct Held {
    /// At its start.
    first: String,
    /// The last one.
    last: String,
}

/// What stands in the file.
pub(super) struct Stored {
    pub exists: bool,
    pub text: String,
    /// Of its bytes; nothing where there is no file.
    pub hash: Option<String>,
}

/// A change that is made.
pub(super) struct Made {
    pub config: Config,
    pub stored: Stored,
    /// The file was written.
    pub written: bool,
    /// What holds that did not before.
    pub applied: Vec<String>,
    /// What differs from what this process was started with, and waits for the next start.
    pub restart: Vec<String>,
}

/// Why a change was not made. Nothing was written then.
pub(super) enum Refusal {
    /// The file is another one than the asker has seen; or it has not said which it has seen.
    Hash { given: bool },
    /// The change itself is wrong.
    Wrong(ChangeError),
    /// The config cannot be used here.
    Unfit(String),
    /// The file cannot be read or written.
    File(String),
}

impl Refusal {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Refusal::Hash { given: true } => {
                "config changed since last load; re-run config.get and retry".to_owned()
            }
            Refusal::Hash { given: false } => {
                "config base hash required; re-run config.get and retry".to_owned()
            }
            Refusal::Wrong(error) => error.to_string(),
            Refusal::Unfit(why) => format!("invalid config: {why}"),
            Refusal::File(why) => why.clone(),
        }
    }

    /// What is wrong with the config, where it is that, as clients are told.
    pub fn issue(&self) -> Option<Value> {
        let at = |path: &str, message: &str| json!({"path": path, "message": message});
        match self {
            Refusal::Wrong(ChangeError::Config(error) | ChangeError::Stored(error)) => {
                let mut issue = at(&error.path, &error.message);
                (issue["line"], issue["column"]) = (error.line.into(), error.column.into());
                Some(issue)
            }
            Refusal::Wrong(ChangeError::Mark(path)) => Some(at(path, &self.words())),
            Refusal::Unfit(why) => Some(at("", why)),
            Refusal::Wrong(ChangeError::Patch(_)) | Refusal::Hash { .. } | Refusal::File(_) => None,
        }
    }
}

impl Keeper {
    /// The file of a process that has just taken up what stands in it.
    pub fn new(
        path: PathBuf,
        fits: impl Fn(&Config) -> Result<(), Failed> + Send + Sync + 'static,
    ) -> Keeper {
        let text = read(&path).map_or_else(|_| nothing(), |stored| stored.text);
        let held = Mutex::new(Held { first: text.clone(), last: text });
        Keeper { path, fits: Box::new(fits), held }
    }

    /// What stands in the file now.
    pub fn stored(&self) -> Result<Stored, String> {
        read(&self.path).map_err(|error| error.to_string())
    }

    /// The hash of what this process has taken up; nothing while some of it waits for the next
    /// start.
    pub fn applied(&self, stored: &Stored) -> Option<String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = !restarts(&held.first, &held.last).is_empty();
        if stored.text == held.last && !waits {
            return stored.hash.clone();
        }
        Some(hash(if waits { held.first.as_bytes() } else { held.last.as_bytes() }))
    }

    /// Makes a change. One at a time: `then` is told of it before the next one begins.
    pub fn change(
        &self,
        wanted: &Wanted,
        base: Option<&str>,
        then: impl FnOnce(Result<Made, Refusal>),
    ) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        then(self.make(wanted, base, &mut held));
    }

    fn make(&self, wanted: &Wanted, base: Option<&str>, held: &mut Held) -> Result<Made, Refusal> {
        let before = self.stored().map_err(Refusal::File)?;
        match (base, &before.hash) {
            (Some(base), Some(hash)) if base != hash => return Err(Refusal::Hash { given: true }),
            (None, Some(_)) => return Err(Refusal::Hash { given: false }),
            // One who has seen a file that is gone has not seen that it is.
            (Some(_), None) => return Err(Refusal::Hash { given: true }),
            (_, _) => {}
        }
        let made = config::change(&before.text, wanted, &process_env);
        let Change { text, config } = made.map_err(Refusal::Wrong)?;
        (self.fits)(&config).map_err(|failed| Refusal::Unfit(failed.text))?;
        let written = text != before.text;
        let stored = if written {
            let failed = |e: std::io::Error| {
                Refusal::File(format!("cannot write {}: {e}", self.path.display()))
            };
            write(&self.path, &text).map_err(failed)?;
            Stored { exists: true, hash: Some(hash(text.as_bytes())), text }
        } else {
            before
        };
        let hot = |changed: &Changed| changed.reload == config::Reload::Hot;
        let applied = config::changed(&held.last, &stored.text).into_iter().filter(hot);
        let applied = applied.map(|changed| changed.path).collect();
        held.last.clone_from(&stored.text);
        let restart = restarts(&held.first, &held.last);
        Ok(Made { config, stored, written, applied, restart })
    }
}

fn restarts(first: &str, last: &str) -> Vec<String> {
    let restart = |changed: &Changed| changed.reload == config::Reload::Restart;
    config::changed(first, last).into_iter().filter(restart).map(|c| c.path).collect()
}

/// A config without settings.
fn nothing() -> String {
    "{}".to_owned()
}

fn hash(bytes: &[u8]) -> String {
    id::hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

fn read(path: &Path) -> Result<Stored, LoadError> {
    Ok(match config::text(path)? {
        None => Stored { exists: false, text: nothing(), hash: None },
        Some(text) => Stored { exists: true, hash: Some(hash(text.as_bytes())), text },
    })
}

/// Writes the file anew beside the old one, which is kept under another name, and puts it in its
/// place: somebody who reads meanwhile, and a start after a power cut, find the one or the other.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // A link stays one.
    let path = &match path.canonicalize() {
        Ok(path) => path,
        Err(e) if e.kind() == ErrorKind::NotFound => path.to_owned(),
        Err(e) => return Err(e),
    };
    let mode = match std::fs::metadata(path) {
        Ok(about) => about.permissions().mode() & 0o777,
        Err(_) => 0o600,
    };
    if let Some(dir) = path.parent() {
        crate::store::create_private(dir).map_err(std::io::Error::other)?;
    }
    let beside = |ending: &str| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        path.with_file_name(name)
    };
    if path.exists() {
        let old = std::fs::read(path)?;
        put(&beside(".bak.new"), &beside(".bak"), &old, mode)?;
    }
    put(&beside(".new"), path, text.as_bytes(), mode)
}

fn put(temporary: &Path, path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    // What an earlier process left half written is nobody's.
    match std::fs::remove_file(temporary) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(temporary)?;
    let done = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(temporary, path));
    if done.is_err() {
        let _ = std::fs::remove_file(temporary);
        return done;
    }
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(text: &str) -> Wanted {
        Wanted::Patch { patch: text.to_owned(), replace: vec![] }
    }

    fn made(keeper: &Keeper, wanted: &Wanted, base: Option<&str>) -> Result<Made, String> {
        let mut got = None;
        keeper.change(wanted, base, |made| got = Some(made));
        got.unwrap().map_err(|refusal| refusal.words())
    }

    /// C14: a change is there whole, with its mode and the former text beside it; what is refused
    /// leaves everything as it was.
    #[test]
    fn a_change_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conf.json");
        let fits = |config: &Config| match config.network.port {
            13 => Err(Failed::new(2, "13 is unlucky")),
            _ => Ok(()),
        };
        let keeper = Keeper::new(path.clone(), fits);
        let first = made(&keeper, &patch("{ gateway: { port: 5 } }"), None);
        let hash = first.ok().unwrap().stored.hash.unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        for (wanted, base, words) in [
            (patch("{ gateway: { port: 13 } }"), Some(&*hash), "13 is unlucky"),
            (patch("{ gateway: { port: 0 } }"), Some(&*hash), "gateway.port"),
            (patch("{}"), None, "base hash required"),
            (patch("{}"), Some("x"), "changed since last load"),
        ] {
            let refused = made(&keeper, &wanted, base).err().unwrap();
            assert!(refused.contains(words), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
        }
        let both = patch("{ gateway: { port: 6 }, logging: { level: 'warn' } }");
        let second = made(&keeper, &both, Some(&hash)).ok().unwrap();
        assert_eq!(
            (second.applied, second.restart),
            (vec!["logging.level".to_owned()], vec!["gateway.port".to_owned()],)
        );
        assert_eq!(mode(&path), 0o640);
        let backup = dir.path().join("conf.json.bak");
        assert_eq!((std::fs::read_to_string(&backup).unwrap(), mode(&backup)), (before, 0o640));
        let stored = keeper.stored().ok().unwrap();
        assert_ne!(keeper.applied(&stored), stored.hash, "some of it waits for the next start");
        let back = patch("{ gateway: null }");
        let back = made(&keeper, &back, stored.hash.as_deref()).ok().unwrap();
        assert!(back.restart.is_empty() && back.written);
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "nothing half written is left: {left:?}");
    }

    /// C14: a link to the file stays one.
    #[test]
    fn a_link_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real.json"), dir.path().join("link.json"));
        std::fs::write(&file, "{}").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let keeper = Keeper::new(link.clone(), |_| Ok(()));
        let base = keeper.stored().ok().unwrap().hash;
        assert!(made(&keeper, &patch("{ gateway: { port: 5 } }"), base.as_deref()).is_ok());
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(std::fs::read_to_string(&file).unwrap().contains("\"port\": 5"));
    }
}
