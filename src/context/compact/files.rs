//! The files of what was compacted: which were read, which were changed (F11).

use super::detail;
use crate::transcript::Message;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Most characters of one list, and of both.
const LIST_CHARS_MAX: usize = 900;
/// Most files that are remembered of each kind: the lists show fewer.
const FILES_MAX: usize = 500;

/// Files that were read and changed, over all compactions of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Files {
    read: BTreeSet<String>,
    modified: BTreeSet<String>,
}

impl Files {
    /// What the details of the compaction before say.
    #[must_use]
    pub fn of(details: Option<&Value>) -> Files {
        let list = |name| detail(details, name).map(str::to_owned).collect();
        Files { read: list("readFiles"), modified: list("modifiedFiles") }
    }

    /// The files of calls that go. A changed file is no longer listed as read.
    pub fn note<'m>(&mut self, messages: impl Iterator<Item = &'m Message>) {
        for message in messages {
            let Message::Assistant(reply) = message else { continue };
            for (_, name, arguments) in reply.calls() {
                self.call(name, arguments);
            }
        }
        self.read.retain(|path| !self.modified.contains(path));
    }

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) {
        let path = ["path", "file_path"].iter().find_map(|key| arguments.get(*key)?.as_str());
        let into = match name {
            "read" => &mut self.read,
            "write" | "edit" => &mut self.modified,
            "apply_patch" => {
                let input = arguments.get("input").and_then(Value::as_str).unwrap_or_default();
                let paths = input.lines().filter_map(|line| {
                    let marks = ["*** Add File:", "*** Update File:", "*** Move to:"];
                    marks.iter().find_map(|mark| line.trim().strip_prefix(mark)).map(str::trim)
                });
                return paths.for_each(|path| add(&mut self.modified, path));
            }
            _ => return,
        };
        if let Some(path) = path {
            add(into, path);
        }
    }

    /// The lists as a model is told them; nothing if there are none.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (tag, files) in [("read-files", &self.read), ("modified-files", &self.modified)] {
            if files.is_empty() {
                continue;
            }
            let (mut shown, mut chars) = (0, 0);
            text.push_str(&format!("\n\n<{tag}>"));
            for file in files {
                chars += file.chars().count() + 1;
                if chars > LIST_CHARS_MAX {
                    break;
                }
                shown += 1;
                text.push_str(&format!("\n{file}"));
            }
            if shown < files.len() {
                text.push_str(&format!("\n... and {} more", files.len() - shown));
            }
            text.push_str(&format!("\n</{tag}>"));
        }
        text
    }

    /// For the compaction that comes after this one.
    #[must_use]
    pub fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("readFiles".to_owned(), json!(self.read));
        details.insert("modifiedFiles".to_owned(), json!(self.modified));
        details
    }
}

fn add(files: &mut BTreeSet<String>, path: &str) {
    let fits = !path.is_empty() && path.chars().count() <= LIST_CHARS_MAX / 2;
    // A path with a line feed could pass for another one, or for the end of the list.
    if fits && files.len() < FILES_MAX && !path.contains(['\n', '<']) {
        files.insert(path.to_owned());
    }
}
