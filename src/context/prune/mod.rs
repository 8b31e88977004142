//! Old tool results made short for the model, when its provider's cache has run out anyway (PN1 to
//! PN9, semantics 9). The transcript stays as it is: a pass decides, decisions are stored and
//! replayed, and the same decisions give the same bytes.

mod project;
#[cfg(test)]
mod tests;

pub use project::{applied, project};

use crate::base::{Digest, Millis, json};
use crate::transcript::{Block, Content, Message, ToolResult};
use project::result_chars;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::units::units;

/// The custom entry that holds decisions in a transcript.
pub const ENTRY: &str = "openclaw.cache-ttl";
/// Stands for a result that was cleared.
pub const CLEARED: &str = "[Old tool result content cleared]";
/// What an image counts as, characters.
const IMAGE_CHARS: usize = 8_000;
/// What a message that is neither a person's, the model's nor a tool's counts as.
const OTHER_CHARS: usize = 256;
/// From this many of the model's latest messages on nothing is touched.
const ASSISTANTS_KEPT: usize = 3;
/// Characters that a token of the window stands for.
const CHARS_PER_TOKEN: u64 = 4;
/// Hexadecimal digits of a source's digest.
const DIGITS: usize = 16;

/// When and how much.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long a provider's cache holds, ms.
    pub ttl_ms: u64,
    /// From this part of the window on, in thousandths, results are trimmed.
    pub soft: u64,
    /// From this part on, after that, they are cleared.
    pub hard: u64,
    /// Longest result that is not trimmed, characters.
    pub trim_over: usize,
    /// What is kept of a trimmed one at its beginning and at its end, characters.
    pub keep: usize,
    /// Whether results are cleared at all.
    pub clear: bool,
    /// Fewest characters of results that are worth clearing.
    pub clear_min: usize,
    /// Whether the model is sent its former reasoning, so that it counts.
    pub thinking: bool,
    /// Names of tools whose results may be touched, `*` for any part; empty for all.
    pub allow: Vec<String>,
    /// Names of tools whose results may not; they win.
    pub deny: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ttl_ms: 300_000,
            soft: 300,
            hard: 500,
            trim_over: 4_000,
            keep: 1_500,
            clear: true,
            clear_min: 50_000,
            thinking: false,
            allow: vec![],
            deny: vec![],
        }
    }
}

impl Settings {
    fn may_touch(&self, tool: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|pattern| fits(pattern, tool));
        !listed(&self.deny) && (self.allow.is_empty() || listed(&self.allow))
    }
}

/// What is done to a result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Deed {
    /// Its beginning and its end are kept, this many characters of each.
    Trim {
        /// How many.
        keep: usize,
    },
    /// A placeholder stands for it.
    Clear,
}

/// A decision, and what it was made about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Digest of the result's content: about another content nothing was decided.
    pub source: String,
    /// What is done.
    pub deed: Deed,
}

/// Decisions by [`key`], to be stored as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(pub BTreeMap<String, Decision>);

impl Decisions {
    /// What was decided about a result as it is.
    fn about(&self, result: &ToolResult) -> Option<Deed> {
        let decision = self.0.get(&key(result))?;
        (decision.source == source(result)).then_some(decision.deed)
    }
}

/// The name of a result in decisions.
#[must_use]
pub fn key(result: &ToolResult) -> String {
    format!("tool:{}:{}", result.tool_call_id, result.timestamp)
}

/// Digest of what a result tells a model.
#[must_use]
pub fn source(result: &ToolResult) -> String {
    let blocks = serde_json::to_value(&result.content).unwrap_or_default();
    let mut digest = Digest::new().part(json::canonical(&blocks)).hex();
    digest.truncate(DIGITS);
    digest
}

/// What a pass came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pass {
    /// Every decision that holds now, the former ones included.
    pub decisions: Decisions,
    /// Something new was decided: the cache begins anew, and the time of its last touch with it.
    pub pruned: bool,
}

/// When the provider's cache was last used, and now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Now.
    pub now: Millis,
    /// The last request that filled or used the cache; unknown is no reason to prune.
    pub touched: Option<Millis>,
}

impl Gate {
    fn open(self, ttl_ms: u64) -> bool {
        self.touched.is_some_and(|touched| self.now.since(touched) >= ttl_ms)
    }
}

/// Decides. What was decided before is kept, or made stricter, never taken back.
#[must_use]
pub fn decide(
    messages: &[Message],
    frozen: &Decisions,
    settings: &Settings,
    window: u64,
    gate: Gate,
) -> Pass {
    let still = |decisions: Decisions| Pass { decisions, pruned: false };
    let Some((from, to)) = open_range(messages).filter(|_| gate.open(settings.ttl_ms)) else {
        return still(frozen.clone());
    };
    let mut sheet = Sheet::new(messages, frozen, settings, window);
    if !sheet.presses(settings.soft) {
        return still(frozen.clone());
    }
    let mut candidates: Vec<usize> = Vec::new();
    for (at, message) in messages.iter().enumerate().take(to).skip(from) {
        let Message::ToolResult(result) = message else { continue };
        if settings.may_touch(&result.tool_name) && sheet.is_own(result) {
            sheet.trim(at, result, settings);
            candidates.push(at);
        }
    }
    candidates.retain(|at| sheet.deeds.get(at) != Some(&Deed::Clear));
    let eligible: usize = candidates.iter().map(|at| sheet.chars[*at]).sum();
    if settings.clear && eligible >= settings.clear_min {
        for at in candidates {
            if !sheet.presses(settings.hard) {
                break;
            }
            sheet.clear(at, messages);
        }
    }
    Pass { pruned: sheet.decisions != *frozen, decisions: sheet.decisions }
}

/// What may be touched: from the first user message on, and before the third-last message of the
/// model.
fn open_range(messages: &[Message]) -> Option<(usize, usize)> {
    let from = messages.iter().position(|m| matches!(m, Message::User(_)))?;
    let assistants = messages.iter().enumerate().rev();
    let mut assistants = assistants.filter(|(_, m)| matches!(m, Message::Assistant(_)));
    let (to, _) = assistants.nth(ASSISTANTS_KEPT - 1)?;
    (from < to).then_some((from, to))
}

/// A conversation as it is counted while a pass decides.
struct Sheet {
    /// Characters of each message, as it is sent.
    chars: Vec<usize>,
    total: u64,
    window: u64,
    /// What is done to which message.
    deeds: BTreeMap<usize, Deed>,
    decisions: Decisions,
}

impl Sheet {
    fn new(messages: &[Message], frozen: &Decisions, settings: &Settings, window: u64) -> Sheet {
        let mut deeds = BTreeMap::new();
        let mut chars = Vec::with_capacity(messages.len());
        for (at, message) in messages.iter().enumerate() {
            let deed = match message {
                Message::ToolResult(result) => frozen.about(result),
                _ => None,
            };
            deeds.extend(deed.map(|deed| (at, deed)));
            chars.push(match (message, deed) {
                (Message::ToolResult(result), Some(deed)) => result_chars(result, deed),
                _ => message_chars(message, settings.thinking),
            });
        }
        let total = chars.iter().fold(0u64, |sum, n| sum + *n as u64);
        Sheet { chars, total, window, deeds, decisions: frozen.clone() }
    }

    /// Whether the conversation fills that part of the window, in thousandths, or more.
    fn presses(&self, part: u64) -> bool {
        let room = self.window.saturating_mul(CHARS_PER_TOKEN).saturating_mul(part);
        self.window > 0 && self.total.saturating_mul(1_000) >= room
    }

    /// Nothing was decided under its name, or about itself: a name stands for one result.
    fn is_own(&self, result: &ToolResult) -> bool {
        match self.decisions.0.get(&key(result)) {
            None => true,
            Some(decision) => decision.source == source(result),
        }
    }

    fn set(&mut self, at: usize, result: &ToolResult, deed: Deed) {
        let now = result_chars(result, deed);
        self.total = self.total - self.chars[at] as u64 + now as u64;
        self.chars[at] = now;
        self.deeds.insert(at, deed);
        self.decisions.0.insert(key(result), Decision { source: source(result), deed });
    }

    /// Trims a result that is long or has images, once.
    fn trim(&mut self, at: usize, result: &ToolResult, settings: &Settings) {
        let images = result.content.iter().any(|b| matches!(b, Block::Image { .. }));
        let long = text_chars(&result.content) > settings.trim_over;
        if (long || images) && !self.deeds.contains_key(&at) {
            let deed = Deed::Trim { keep: settings.keep };
            if result_chars(result, deed) < self.chars[at] {
                self.set(at, result, deed);
            }
        }
    }

    /// Clears a result that is longer than what would stand for it.
    fn clear(&mut self, at: usize, messages: &[Message]) {
        let Message::ToolResult(result) = &messages[at] else { return };
        if self.chars[at] > result_chars(result, Deed::Clear) {
            self.set(at, result, Deed::Clear);
        }
    }
}

fn text_chars(blocks: &[Block]) -> usize {
    let chars = |block: &Block| match block {
        Block::Text { text } => units(text),
        Block::Thinking { .. } | Block::Image { .. } | Block::ToolCall { .. } => 0,
    };
    blocks.iter().map(chars).sum()
}

fn block_chars(block: &Block, thinking: bool) -> usize {
    match block {
        Block::Text { text } => units(text),
        Block::Thinking { thinking: text } => {
            if thinking {
                units(text)
            } else {
                0
            }
        }
        Block::Image { .. } => IMAGE_CHARS,
        Block::ToolCall { arguments, .. } => {
            units(&json::canonical(&serde_json::Value::Object(arguments.clone())))
        }
    }
}

/// What a message counts as.
fn message_chars(message: &Message, thinking: bool) -> usize {
    let blocks = |blocks: &[Block]| blocks.iter().map(|b| block_chars(b, thinking)).sum();
    match message {
        Message::User(user) => match &user.content {
            Content::Text(text) => units(text),
            Content::Blocks(of) => blocks(of),
        },
        Message::Assistant(reply) => blocks(&reply.content),
        Message::ToolResult(result) => blocks(&result.content),
        Message::Custom(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => OTHER_CHARS,
    }
}

/// Whether a name fits a pattern in which `*` stands for any part.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
