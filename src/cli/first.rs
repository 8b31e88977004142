//! The first files of a new workspace (PR18): made once, never written over.

use crate::config::Config;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// The files, the one that all others hang on last.
const FIRST: [(&str, &str); 5] = [
    ("SOUL.md", include_str!("first/SOUL.md")),
    ("IDENTITY.md", include_str!("first/IDENTITY.md")),
    ("USER.md", include_str!("first/USER.md")),
    ("BOOTSTRAP.md", include_str!("first/BOOTSTRAP.md")),
    ("AGENTS.md", include_str!("first/AGENTS.md")),
];

/// A workspace with one of these besides is somebody's already.
const ALSO: [&str; 2] = ["MEMORY.md", "memory"];

/// Says that a workspace was begun: what is deleted of it afterwards stays deleted.
const MARK: &str = ".stepclaw-workspace";

/// The same, left by OpenClaw.
const FOREIGN_MARK: &str = ".openclaw/workspace-state.json";

/// Gives a new workspace its first files, unless the config does not want them. What goes wrong is
/// told and stops nothing: a prompt says what is missing.
pub(super) fn begin(config: &Config, workspace: &Path) {
    if config.agent.skip_bootstrap {
        return;
    }
    if let Err(error) = fill(workspace) {
        let dir = workspace.display();
        eprintln!("stepclaw: the first files of the workspace {dir} could not be made: {error}");
    }
}

fn fill(workspace: &Path) -> std::io::Result<()> {
    let there = |name: &str| workspace.join(name).symlink_metadata().is_ok();
    if there(MARK) || there(FOREIGN_MARK) {
        return Ok(());
    }
    let mut names = FIRST.iter().map(|(name, _)| *name).chain(ALSO);
    if names.any(there) {
        return Ok(());
    }
    let mut made = Vec::new();
    let done = FIRST.iter().try_for_each(|(name, text)| {
        let path = workspace.join(name);
        match File::create_new(&path) {
            Ok(mut file) => {
                made.push(path);
                file.write_all(text.as_bytes())
            }
            // Somebody was quicker: theirs is the one that counts.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    });
    let done = done.and_then(|()| {
        let mark = "This workspace was given its first files. What is deleted stays deleted.\n";
        File::create_new(workspace.join(MARK))?.write_all(mark.as_bytes())
    });
    if done.is_err() {
        // A half would count as somebody's workspace: the next start begins anew.
        made.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// PR18: a new workspace gets all of them, once; what is deleted stays deleted.
    #[test]
    fn a_new_workspace_is_begun_once() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::default();
        begin(&config, dir.path());
        let all = [MARK, "AGENTS.md", "BOOTSTRAP.md", "IDENTITY.md", "SOUL.md", "USER.md"];
        assert_eq!(names(dir.path()), all);
        std::fs::write(dir.path().join("SOUL.md"), "mine").unwrap();
        std::fs::remove_file(dir.path().join("BOOTSTRAP.md")).unwrap();
        begin(&config, dir.path());
        assert!(!names(dir.path()).contains(&"BOOTSTRAP.md".to_owned()));
        assert_eq!(std::fs::read_to_string(dir.path().join("SOUL.md")).unwrap(), "mine");
        for name in names(dir.path()).iter().filter(|name| *name != MARK) {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
        begin(&config, dir.path());
        assert_eq!(names(dir.path()), [MARK]);
    }

    /// PR18: nothing is added to a workspace that is somebody's, nor where nothing is wanted.
    #[test]
    fn what_is_somebodys_is_left_alone() {
        for name in ["AGENTS.md", "USER.md", "MEMORY.md"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(name), "mine").unwrap();
            begin(&Config::default(), dir.path());
            assert_eq!(names(dir.path()), [name]);
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join("SOUL.md")).unwrap();
        begin(&Config::default(), dir.path());
        assert_eq!(names(dir.path()), ["SOUL.md"], "a link is a file of somebody's too");
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(FOREIGN_MARK), "{}").unwrap();
        begin(&Config::default(), dir.path());
        assert_eq!(names(dir.path()), [".openclaw"]);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        begin(&Config::default(), dir.path());
        assert_eq!(names(dir.path()).len(), 7, "other files make no workspace");
        let (dir, mut config) = (tempfile::tempdir().unwrap(), Config::default());
        config.agent.skip_bootstrap = true;
        begin(&config, dir.path());
        assert!(names(dir.path()).is_empty());
    }
}
