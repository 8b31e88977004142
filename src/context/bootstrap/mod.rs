//! The workspace's files in the prompt: which of them whose session gets, and how much of each
//! (PR3 to PR9, semantics 10.2). What was read comes in; nothing is read here.

mod cut;
#[cfg(test)]
mod tests;

use super::units::{head, units};
use crate::base::key::Kind;
use crate::base::{Digest, SessionKey};
use cut::cut;
use std::sync::Arc;

/// Most of one file, UTF-16 units, unless the config says otherwise.
pub const FILE_UNITS: usize = 20_000;
/// Most of all files together, unless the config says otherwise.
pub const TOTAL_UNITS: usize = 60_000;
/// Most of `USER.md`; the config can only lower it.
pub const USER_UNITS: usize = 4_000;
/// With less room than this no further file is begun.
const ROOM_UNITS_MIN: usize = 64;
/// From this part of its limit, in percent, a file counts as near to it.
const NEAR_PERCENT: usize = 85;

/// Instructions of the workspace.
pub const AGENTS: &str = "AGENTS.md";
/// Who the agent is to be like.
pub const SOUL: &str = "SOUL.md";
/// What it is called.
pub const IDENTITY: &str = "IDENTITY.md";
/// Whom it works for.
pub const USER: &str = "USER.md";
/// How a new workspace is begun.
pub const BOOTSTRAP: &str = "BOOTSTRAP.md";
/// What it is to remember.
pub const MEMORY: &str = "MEMORY.md";

/// Whose session it is, as far as that decides about files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Audience {
    /// A person's, and whatever is none of the others.
    #[default]
    Main,
    /// A child's.
    Subagent,
    /// A scheduled job's.
    Cron,
    /// One with several people.
    Group,
}

impl Audience {
    /// By a session's key; what is no key is a person's.
    #[must_use]
    pub fn of(key: &str) -> Audience {
        let Ok(key) = SessionKey::parse(key) else { return Audience::Main };
        match key.kind() {
            Kind::Subagent { .. } => Audience::Subagent,
            Kind::Cron { .. } => Audience::Cron,
            Kind::Group { .. } => Audience::Group,
            Kind::Main
            | Kind::Hook
            | Kind::Acp
            | Kind::Dashboard
            | Kind::Explicit
            | Kind::Direct { .. }
            | Kind::Other => Audience::Main,
        }
    }

    /// The files it gets, in their order.
    #[must_use]
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Audience::Main => &[AGENTS, SOUL, IDENTITY, USER, BOOTSTRAP, MEMORY],
            Audience::Subagent => &[AGENTS],
            Audience::Cron => &[AGENTS, SOUL, IDENTITY, USER],
            Audience::Group => &[AGENTS, SOUL, IDENTITY, USER, BOOTSTRAP],
        }
    }

    /// Whether it may see what the agent remembers.
    #[must_use]
    pub fn remembers(self) -> bool {
        self.files().contains(&MEMORY)
    }

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Audience::Main => "main",
            Audience::Subagent => "subagent",
            Audience::Cron => "cron",
            Audience::Group => "group",
        }
    }
}

/// What was found where a file should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Its text, and what a reader should know of how it was read.
    Text(Arc<str>, Vec<String>),
    /// Nothing.
    Missing,
    /// Something that is not read, and why.
    Refused(String),
}

/// A file that a prompt may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its name in the workspace.
    pub name: &'static str,
    /// Where it is.
    pub path: String,
    /// What was found there.
    pub found: Found,
}

/// How much of the files a prompt may have, UTF-16 units.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Of one file (`agents.defaults.bootstrapMaxChars`).
    pub file: usize,
    /// Of all together (`agents.defaults.bootstrapTotalMaxChars`).
    pub total: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { file: FILE_UNITS, total: TOTAL_UNITS }
    }
}

impl Limits {
    fn of(self, name: &str) -> usize {
        if name == USER { self.file.min(USER_UNITS) } else { self.file }
    }
}

/// What became of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// All of it is in the prompt.
    Whole,
    /// A part of it is.
    Cut,
    /// It has nothing but blanks.
    Empty,
    /// It is not there, and a line says so.
    Missing,
    /// It is not there, and need not be.
    Absent,
    /// It was not read, and a line says why.
    Refused(String),
    /// There was no room for it.
    LeftOut,
}

impl Fate {
    /// Its name.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Fate::Whole => "whole",
            Fate::Cut => "cut",
            Fate::Empty => "empty",
            Fate::Missing => "missing",
            Fate::Absent => "absent",
            Fate::Refused(_) => "refused",
            Fate::LeftOut => "left out",
        }
    }
}

/// A file as the prompt has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its name in the workspace.
    pub name: &'static str,
    /// Where it is.
    pub path: String,
    /// What the prompt has under its path; nothing where it is not mentioned.
    pub text: String,
    /// Units of the file that are shown.
    pub kept: usize,
    /// Units of the file, without blanks at its end.
    pub total: usize,
    /// Most units that it may have.
    pub limit: usize,
    /// What became of it.
    pub fate: Fate,
}

impl Kept {
    /// Whether it is longer than most of its limit: soon it will be cut.
    #[must_use]
    pub fn near(&self) -> bool {
        is_near(self.total, self.limit)
    }
}

fn is_near(have: usize, limit: usize) -> bool {
    have.saturating_mul(100) >= limit.saturating_mul(NEAR_PERCENT) && have > 0
}

/// The files of one prompt, chosen and cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bootstrap {
    /// Every file that was asked for, in order.
    pub files: Vec<Kept>,
    /// Units of all texts together.
    pub used: usize,
    /// Most units that they may have together.
    pub limit: usize,
    /// Something was cut or left out for its size.
    pub truncated: bool,
    /// What a reader should know of how files were read.
    pub notes: Vec<String>,
    /// Stands for all that a prompt shows of this.
    pub digest: String,
}

impl Default for Bootstrap {
    fn default() -> Bootstrap {
        assemble(&[], Limits::default())
    }
}

impl Bootstrap {
    /// Whether a file is near its limit, or all together are near theirs.
    #[must_use]
    pub fn near(&self) -> bool {
        is_near(self.used, self.limit) || self.files.iter().any(Kept::near)
    }

    /// The files that a prompt shows something of.
    pub fn shown(&self) -> impl Iterator<Item = &Kept> {
        self.files.iter().filter(|file| !file.text.is_empty())
    }

    /// Whether the workspace is to be begun: its file for that is shown.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.shown().any(|file| file.name == BOOTSTRAP)
    }
}

/// Chooses and cuts. A file that stands twice by its path counts once.
#[must_use]
pub fn assemble(files: &[File], limits: Limits) -> Bootstrap {
    let mut made: Vec<Kept> = Vec::with_capacity(files.len());
    let mut notes = Vec::new();
    let (mut room, mut truncated, mut full) = (limits.total, false, false);
    for file in files {
        if made.iter().any(|kept| kept.path == file.path) {
            continue;
        }
        let (text, read) = match &file.found {
            Found::Text(text, read) => (text.trim_end(), read.as_slice()),
            Found::Missing | Found::Refused(_) => ("", &[][..]),
        };
        full |= room < ROOM_UNITS_MIN;
        let mut kept = one(file, text, if full { 0 } else { room }, limits.of(file.name));
        if full && !matches!(kept.fate, Fate::Empty | Fate::Absent) {
            (kept.fate, kept.kept, kept.text) = (Fate::LeftOut, 0, String::new());
        }
        truncated |= matches!(kept.fate, Fate::Cut | Fate::LeftOut);
        room -= units(&kept.text).min(room);
        if !kept.text.is_empty() {
            notes.extend(read.iter().map(|note| format!("{}: {note}", file.name)));
        }
        made.push(kept);
    }
    let used = made.iter().map(|kept| units(&kept.text)).sum();
    let digest = digest(&made, &notes, truncated);
    Bootstrap { files: made, used, limit: limits.total, truncated, notes, digest }
}

/// One file with the room that is left.
fn one(file: &File, text: &str, room: usize, limit: usize) -> Kept {
    let total = units(text);
    let kept = |fate, text: String, kept| Kept {
        name: file.name,
        path: file.path.clone(),
        text,
        kept,
        total,
        limit,
        fate,
    };
    let line = |text: String| head(&text, room).to_owned();
    match &file.found {
        // These come and go: that they are not there says nothing.
        Found::Missing if file.name == BOOTSTRAP || file.name == MEMORY => {
            kept(Fate::Absent, String::new(), 0)
        }
        Found::Missing => {
            kept(Fate::Missing, line(format!("[MISSING] Expected at: {}", file.path)), 0)
        }
        Found::Refused(why) => {
            let text = line(format!("[NOT READ] {}: {why}", file.path));
            kept(Fate::Refused(why.clone()), text, 0)
        }
        Found::Text(..) if text.is_empty() => kept(Fate::Empty, String::new(), 0),
        Found::Text(..) => {
            // What is known of a person is given as it stands or, for want of room, not at all.
            let own = if file.name == USER { limit } else { limit.min(room) };
            let cut = cut(file.name, text, own, file.name == AGENTS);
            if units(&cut.text) > room {
                return kept(Fate::LeftOut, String::new(), 0);
            }
            let fate = if cut.kept == total { Fate::Whole } else { Fate::Cut };
            kept(fate, cut.text, cut.kept)
        }
    }
}

fn digest(files: &[Kept], notes: &[String], truncated: bool) -> String {
    let mut digest = Digest::new().part([u8::from(truncated)]);
    for file in files.iter().filter(|file| !file.text.is_empty()) {
        digest = digest.part(file.name).part(&file.path).part(&file.text);
    }
    notes.iter().fold(digest.part("notes"), Digest::part).hex()
}
