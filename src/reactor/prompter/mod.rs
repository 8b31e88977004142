//! Collects the facts for system prompts: what is fixed for the process, what the session and the
//! run say, what the workspace's files hold. It blocks, and runs on a worker (PR13, PR15 to PR17).

mod files;

pub use files::FILE_BYTES_MAX;

use crate::base::{Millis, SessionKey};
use crate::context::bootstrap::{self, AGENTS, Audience, Bootstrap, File, Limits};
use crate::context::prompt::{self, Mode, Outline, Prefix, Prompt, Stable, Volatile};
use files::Files;
use jiff::tz::TimeZone;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Most prefixes that are kept.
const PREFIXES_MAX: usize = 64;
/// Most choices of files that are kept: one for each audience.
const CHOSEN_MAX: usize = 4;

/// What is fixed for the life of a process.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The agent's own files.
    pub workspace: PathBuf,
    /// Where tools work.
    pub cwd: PathBuf,
    /// How much of the files a prompt may have.
    pub limits: Limits,
    /// Whether files are shown at all (`agents.defaults.contextInjection`).
    pub inject: bool,
    /// The user's shell.
    pub shell: Option<String>,
    /// The zone of the machine, looked up when it is first needed.
    pub zone: fn() -> (TimeZone, String),
}

/// Whose prompt it is.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The session's key.
    pub key: Arc<str>,
    /// The model, as `provider/model`.
    pub model: String,
    /// The names of the tools that the run may use.
    pub tools: Vec<String>,
    /// Now.
    pub now: Millis,
}

/// A prompt, and the files in it.
#[derive(Clone, Debug)]
pub struct Prompted {
    /// The prompt.
    pub prompt: Prompt,
    /// What is remembered of it.
    pub outline: Outline,
    /// What became of the files.
    pub files: Arc<Bootstrap>,
}

/// Makes prompts. What is the same as before is not made again.
#[derive(Debug)]
pub struct Prompter {
    ground: Ground,
    zone: OnceLock<(TimeZone, String)>,
    shelf: Mutex<Shelf>,
}

/// What was made before, the latest last.
#[derive(Debug, Default)]
struct Shelf {
    files: Files,
    chosen: VecDeque<(Vec<File>, Arc<Bootstrap>)>,
    prefixes: VecDeque<Arc<Prefix>>,
}

impl Prompter {
    /// A prompter without any prompt yet.
    #[must_use]
    pub fn new(ground: Ground) -> Prompter {
        Prompter { ground, zone: OnceLock::new(), shelf: Mutex::default() }
    }

    /// The prompt of a run. Reads files: not for a thread that must not wait.
    #[must_use]
    pub fn prompt(&self, wanted: &Wanted) -> Prompted {
        let audience = Audience::of(&wanted.key);
        let mode = Mode::of(audience);
        let mut shelf = self.shelf();
        let found = if self.ground.inject { self.found(audience, &mut shelf) } else { vec![] };
        let files = shelf.choose(found, self.ground.limits);
        let stable = Stable {
            mode,
            tools: wanted.tools.clone(),
            workspace: shown(&self.ground.workspace),
            folder: self.folder().map(shown),
            memory: audience.remembers(),
            bootstrap: Arc::clone(&files),
            ..Stable::default()
        };
        let prefix = shelf.prefix(&stable);
        drop(shelf);
        let prompt = prompt::prompt(prefix, &self.volatile(wanted, mode));
        Prompted { outline: Outline::of(&prompt), prompt, files }
    }

    /// What a worker that died left is whole: each part of it is replaced at once.
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where tools work, if that is not the workspace.
    fn folder(&self) -> Option<&Path> {
        let Ground { workspace, cwd, .. } = &self.ground;
        (cwd != workspace).then_some(cwd.as_path())
    }

    fn found(&self, audience: Audience, shelf: &mut Shelf) -> Vec<File> {
        let mut file = |folder: &Path, name: &'static str| File {
            name,
            path: shown(&folder.join(name)),
            found: shelf.files.get(folder, name),
        };
        let workspace = &self.ground.workspace;
        let mut files: Vec<File> =
            audience.files().iter().map(|name| file(workspace, name)).collect();
        // Another folder has its own rules, and nothing else to say of the agent.
        if let Some(folder) = self.folder() {
            let of_folder = file(folder, AGENTS);
            if of_folder.found != bootstrap::Found::Missing {
                files.push(of_folder);
            }
        }
        files
    }

    fn volatile(&self, wanted: &Wanted, mode: Mode) -> Volatile {
        let (zone, name) = self.zone.get_or_init(self.ground.zone);
        let ms = i64::try_from(wanted.now.0).unwrap_or(0);
        let at = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
        let agent = SessionKey::parse(&wanted.key).map(|key| key.agent().to_owned());
        let mut runtime = vec![
            ("agent", agent.unwrap_or_default()),
            ("session", wanted.key.to_string()),
            ("os", std::env::consts::OS.to_owned()),
            ("arch", std::env::consts::ARCH.to_owned()),
            ("model", wanted.model.clone()),
        ];
        runtime.extend(self.ground.shell.clone().map(|shell| ("shell", shell)));
        Volatile {
            mode,
            date: zone.to_datetime(at).date().to_string(),
            zone: name.clone(),
            silence: true,
            audience: Audience::of(&wanted.key),
            runtime,
            ..Volatile::default()
        }
    }
}

impl Shelf {
    /// The choice from files, made once while they are the same.
    fn choose(&mut self, files: Vec<File>, limits: Limits) -> Arc<Bootstrap> {
        if let Some(at) = self.chosen.iter().position(|(of, _)| *of == files)
            && let Some(known) = self.chosen.remove(at)
        {
            let made = Arc::clone(&known.1);
            self.chosen.push_back(known);
            return made;
        }
        let made = Arc::new(bootstrap::assemble(&files, limits));
        bounded(&mut self.chosen, CHOSEN_MAX, (files, Arc::clone(&made)));
        made
    }

    /// The prefix of its key, the same bytes for everybody.
    fn prefix(&mut self, stable: &Stable) -> Arc<Prefix> {
        let key = stable.key();
        if let Some(at) = self.prefixes.iter().position(|of| *of.key == *key)
            && let Some(known) = self.prefixes.remove(at)
        {
            self.prefixes.push_back(Arc::clone(&known));
            return known;
        }
        let made = Arc::new(prompt::prefix(stable));
        bounded(&mut self.prefixes, PREFIXES_MAX, Arc::clone(&made));
        made
    }
}

fn bounded<T>(shelf: &mut VecDeque<T>, most: usize, made: T) {
    if shelf.len() >= most {
        shelf.pop_front();
    }
    shelf.push_back(made);
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn prompter(workspace: &Path, cwd: &Path) -> Prompter {
        Prompter::new(Ground {
            workspace: workspace.to_owned(),
            cwd: cwd.to_owned(),
            limits: Limits::default(),
            inject: true,
            shell: None,
            zone: || (TimeZone::fixed(jiff::tz::offset(9)), "Asia/Tokyo".to_owned()),
        })
    }

    fn wanted(key: &str, now: u64) -> Wanted {
        let tools = ["write", "read"].map(str::to_owned).to_vec();
        Wanted { key: key.into(), model: "t/m".into(), tools, now: Millis(now) }
    }

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        let old = SystemTime::now() - Duration::from_secs(100);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }

    /// PR13: runs share a prefix's bytes while its key is the same, on any day and in any session;
    /// the date is the one of the zone.
    #[test]
    fn a_prefix_is_shared_until_a_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("AGENTS.md"), "Be exact.");
        let prompter = prompter(dir.path(), dir.path());
        let one = prompter.prompt(&wanted("agent:main:main", 0)).prompt;
        let two = prompter.prompt(&wanted("agent:main:other", 86_400_000 - 1)).prompt;
        assert!(Arc::ptr_eq(&one.stable, &two.stable));
        assert!(one.volatile.contains("Date: 1970-01-01"));
        assert!(two.volatile.contains("Date: 1970-01-02") && two.volatile.contains("Asia/Tokyo"));
        assert!(one.volatile.contains("agent=main | session=agent:main:main | os="));
        write(&dir.path().join("AGENTS.md"), "Be kind.");
        let three = prompter.prompt(&wanted("agent:main:main", 0)).prompt;
        assert!(three.stable.text.contains("Be kind."));
        let changes = prompt::diff(&Outline::of(&one), &Outline::of(&three));
        assert_eq!(changes.len(), 1, "{changes:?}");
        write(&dir.path().join("AGENTS.md"), "Be exact.");
        let back = prompter.prompt(&wanted("agent:main:main", 0)).prompt;
        assert!(Arc::ptr_eq(&one.stable, &back.stable), "the same text is the same prefix");
    }

    /// PR3: another folder adds its own AGENTS.md, if it has one, behind the workspace's files.
    #[test]
    fn another_folder_adds_its_rules() {
        let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(&dir.path().join("AGENTS.md"), "Of the workspace.");
        let prompter = prompter(dir.path(), folder.path());
        let key = "agent:main:subagent:1";
        let names = || {
            let prompted = prompter.prompt(&wanted(key, 0));
            let shown: Vec<String> = prompted.files.shown().map(|f| f.path.clone()).collect();
            (shown.join(" "), prompted.prompt.stable.text.to_string())
        };
        let workspace = shown(&dir.path().join("AGENTS.md"));
        let (none, text) = names();
        assert_eq!(none, workspace);
        assert!(text.contains(&format!("Your working directory is: {}", shown(folder.path()))));
        write(&folder.path().join("AGENTS.md"), "Of the folder.");
        write(&folder.path().join("SOUL.md"), "Nobody's.");
        let (both, text) = names();
        assert_eq!(both, format!("{workspace} {}", shown(&folder.path().join("AGENTS.md"))));
        assert!(text.ends_with("Of the folder.") && !text.contains("Nobody's"));
    }
}
