//! The system prompt: a stable prefix that a provider can cache, and a volatile rest behind it
//! (PR1, PR2, PR10 to PR14, semantics 10.1). Facts come in, text comes out; whoever collects the
//! facts is elsewhere.

mod layers;
mod outline;
#[cfg(test)]
mod tests;

pub use outline::{Change, Outline, diff};

use super::bootstrap::{Audience, Bootstrap};
use crate::base::Digest;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Stands between the stable prefix and the rest where both are one text.
pub const BOUNDARY: &str = "<!-- OPENCLAW_CACHE_BOUNDARY -->";

/// Part of every key: texts of another version are other texts.
const TEXTS: &str = "1";

/// How much of a prompt a session gets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Mode {
    /// Everything.
    #[default]
    Full,
    /// For a child: without what concerns people and what the agent remembers.
    Minimal,
    /// Who it is, and the model.
    None,
}

impl Mode {
    /// The mode of a session.
    #[must_use]
    pub fn of(audience: Audience) -> Mode {
        match audience {
            Audience::Subagent => Mode::Minimal,
            Audience::Main | Audience::Cron | Audience::Group => Mode::Full,
        }
    }

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Mode::Full => "full",
            Mode::Minimal => "minimal",
            Mode::None => "none",
        }
    }
}

/// What the stable prefix is made of, and nothing else.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stable {
    /// How much is wanted.
    pub mode: Mode,
    /// Names of the tools that the run may use, in any order.
    pub tools: Vec<String>,
    /// Where the agent's own files are.
    pub workspace: String,
    /// Where tools work, if that is elsewhere.
    pub folder: Option<String>,
    /// The ready block of skills; empty where there are none.
    pub skills: Arc<str>,
    /// Whether the session may see what the agent remembers.
    pub memory: bool,
    /// Where documentation is.
    pub docs: Option<String>,
    /// Where tools run, if not on the machine itself.
    pub sandbox: Option<String>,
    /// How a model marks its reasoning, if it has to.
    pub reasoning: Option<String>,
    /// The workspace's files.
    pub bootstrap: Arc<Bootstrap>,
}

impl Stable {
    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| name == tool)
    }

    /// `stablePrefixCacheKey`: equal inputs have equal keys, and no input is left out.
    #[must_use]
    pub fn key(&self) -> String {
        let mut tools: Vec<&str> = self.tools.iter().map(String::as_str).collect();
        tools.sort_unstable();
        let optional = |digest: Digest, value: &Option<String>| match value {
            Some(value) => digest.part("some").part(value),
            None => digest.part("none"),
        };
        let mut digest = Digest::new().part(TEXTS).part(self.mode.word());
        digest = digest.part(tools.len().to_string());
        digest = tools.iter().fold(digest, Digest::part).part(&self.workspace);
        for value in [&self.folder, &self.docs, &self.sandbox, &self.reasoning] {
            digest = optional(digest, value);
        }
        digest = digest.part(self.skills.as_bytes()).part([u8::from(self.memory)]);
        digest.part(&self.bootstrap.digest).hex()
    }
}

/// What may change from run to run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Volatile {
    /// How much is wanted.
    pub mode: Mode,
    /// Today, as `YYYY-MM-DD`. No clock: it would void the cache each minute.
    pub date: String,
    /// The zone's name.
    pub zone: String,
    /// How answers are to be written, where the way to the reader asks for something.
    pub output: Option<String>,
    /// Whether a reply may be silence.
    pub silence: bool,
    /// Who the owner is, where that is known.
    pub owner: Option<String>,
    /// Whose session it is.
    pub audience: Audience,
    /// What the channel or the session asks for.
    pub guidance: Option<String>,
    /// What the caller adds.
    pub extra: Option<String>,
    /// Names and values for the runtime line, in their order.
    pub runtime: Vec<(&'static str, String)>,
}

/// One layer of a rendered text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Its name; a file's begins with `file:`.
    pub name: String,
    /// Where it is in its text.
    pub at: Range<usize>,
}

/// A rendered stable prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// `stablePrefixCacheKey`.
    pub key: Arc<str>,
    /// Byte-identical while its inputs are.
    pub text: Arc<str>,
    /// What it consists of, in order.
    pub layers: Vec<Layer>,
}

/// A rendered prompt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompt {
    /// Shared between runs while its key is the same.
    pub stable: Arc<Prefix>,
    /// Everything that may change from run to run.
    pub volatile: Arc<str>,
    /// What the volatile part consists of, in order.
    pub layers: Vec<Layer>,
}

/// Between two layers, and between the two parts where no marker stands there.
pub const GAP: &str = "\n\n";

impl Prompt {
    /// Both parts, for providers without cache marks of their own.
    #[must_use]
    pub fn plain(&self) -> String {
        format!("{}{GAP}{}", self.stable.text, self.volatile)
    }

    /// Both parts with the marker between them.
    #[must_use]
    pub fn marked(&self) -> String {
        format!("{}\n{BOUNDARY}\n{}", self.stable.text, self.volatile)
    }

    /// Every layer with its text, and whether it is a stable one.
    pub fn each(&self) -> impl Iterator<Item = (&Layer, &str, bool)> {
        let stable =
            self.stable.layers.iter().map(|layer| {
                (layer, self.stable.text.get(layer.at.clone()).unwrap_or_default(), true)
            });
        stable.chain(
            self.layers.iter().map(|layer| {
                (layer, self.volatile.get(layer.at.clone()).unwrap_or_default(), false)
            }),
        )
    }
}

/// Layers that are being put together.
#[derive(Default)]
struct Sheet {
    text: String,
    layers: Vec<Layer>,
}

impl Sheet {
    /// One more layer; an empty one is none.
    fn add(&mut self, name: impl fmt::Display, text: &str) {
        let text = text.trim_matches('\n');
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str(GAP);
        }
        let from = self.text.len();
        // A file may hold anything, also what would look like the boundary.
        match text.contains(BOUNDARY) {
            true => self.text.push_str(&text.replace(BOUNDARY, "<!-- OPENCLAW CACHE BOUNDARY -->")),
            false => self.text.push_str(text),
        }
        self.layers.push(Layer { name: name.to_string(), at: from..self.text.len() });
    }
}

/// Renders the stable prefix.
#[must_use]
pub fn prefix(stable: &Stable) -> Prefix {
    let mut sheet = Sheet::default();
    layers::stable(stable, &mut sheet);
    Prefix { key: stable.key().into(), text: sheet.text.into(), layers: sheet.layers }
}

/// Renders what stands behind a prefix.
#[must_use]
pub fn prompt(stable: Arc<Prefix>, volatile: &Volatile) -> Prompt {
    let mut sheet = Sheet::default();
    layers::volatile(volatile, &mut sheet);
    Prompt { stable, volatile: sheet.text.into(), layers: sheet.layers }
}
