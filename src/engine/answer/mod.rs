//! From what a run made to what is delivered (`spec/answer.md`).

mod collect;
mod duplicates;
mod silent;

pub use collect::Collected;
pub use duplicates::{Sent, Target, alike, medium_was_sent, normalised, was_sent};
pub use silent::{HEARTBEAT, HeldBack, SILENT, Said, is_token, said};

use super::turns::one_line;
use crate::base::limits::{WARNING_DETAIL_CHARS_MAX, WARNING_NAME_CHARS_MAX};
use crate::transcript::StopReason;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// There is no answer, and nothing has happened.
pub const NO_ANSWER: &str = "⚠️ Agent couldn't generate a response. Please try again.";
/// There is no answer, but tools may have had effects.
pub const NO_ANSWER_BUT_EFFECTS: &str = "⚠️ Agent couldn't generate a response. \
    Some tools may already have taken effect: please check before you try again.";
/// The turn was ended because it did not get on.
pub const STALLED: &str = "⚠️ This turn stopped making progress and was ended. \
    Please check what it has done, then try again.";
/// The model failed and did not say how.
pub const FAILED: &str = "⚠️ The model failed before it had answered.";
/// Follows an answer that was cut.
pub const CUT: &str = "⚠️ The answer was cut at the model's output limit.";

/// What a payload is, in the order of delivery (A6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A reply that a tool made to where the message came from.
    SourceReply,
    /// The answer to one of several messages of the turn.
    Segment,
    /// What went wrong.
    Error,
    /// The model's reasoning, where it is shown.
    Reasoning,
    /// The answer.
    Answer,
    /// A tool's failure that nobody has told of.
    ToolWarning,
}

/// One message to be delivered.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Payload {
    /// What it is.
    pub kind: Kind,
    /// Its text; empty only if it has media.
    pub text: String,
    /// URLs of its media.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<String>,
}

/// How much a person wants to read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verbosity {
    /// Answers.
    #[default]
    Off,
    /// What is being done, too.
    On,
    /// Everything.
    Full,
}

/// A text with its media.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece<'a> {
    /// The text.
    pub text: &'a str,
    /// URLs of its media.
    pub media: &'a [&'a str],
}

/// The last tool that failed without the run having made good for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedTool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether its implementation was entered.
    pub started: bool,
    /// Its time limit in seconds, if that is what ended it.
    pub timeout_s: Option<u64>,
    /// What it said.
    pub detail: Option<&'a str>,
}

impl FailedTool<'_> {
    /// The warning: details are for those who want to read everything (A8).
    #[must_use]
    pub fn warning(&self, verbosity: Verbosity) -> String {
        let name = one_line(self.name, WARNING_NAME_CHARS_MAX);
        let name = if name.is_empty() { "tool".to_owned() } else { name };
        let what = if self.started { "failed" } else { "blocked" };
        let mut text = format!("⚠️ {name} {what}");
        if let Some(seconds) = self.timeout_s {
            let _ = write!(text, " (timed out after {seconds} s)");
        }
        let detail = self.detail.filter(|_| verbosity == Verbosity::Full);
        let detail = detail.map(|detail| one_line(detail, WARNING_DETAIL_CHARS_MAX));
        if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
            let _ = write!(text, ": {detail}");
        }
        text
    }
}

/// Everything that decides about what is delivered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Facts<'a> {
    /// Where the message came from and the answer goes to.
    pub home: Target<'a>,
    /// The final text and its media.
    pub answer: Piece<'a>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The formatted error, for a run that failed or was stopped.
    pub error: Option<&'a str>,
    /// The model's reasoning, if it is to be shown.
    pub reasoning: Option<&'a str>,
    /// Replies that a tool made for the source, not delivered yet.
    pub source_replies: &'a [Piece<'a>],
    /// Answers to messages that joined the turn, in order; without the final one.
    pub segments: &'a [Piece<'a>],
    /// What messaging tools have delivered.
    pub sends: &'a [Sent<'a>],
    /// The tool whose failure is still to be told of.
    pub failed_tool: Option<FailedTool<'a>>,
    /// Tools with effects may have run.
    pub mutating: bool,
    /// The turn was ended because it did not get on.
    pub stalled: bool,
    /// Saying nothing is fine here, as in a group.
    pub silent_allowed: bool,
    /// The run was a heartbeat's.
    pub heartbeat: bool,
    /// How much the reader wants.
    pub verbosity: Verbosity,
}

impl<'a> Facts<'a> {
    /// A run that ended with a text and nothing else.
    #[must_use]
    pub fn new(home: Target<'a>, text: &'a str, stop: StopReason) -> Facts<'a> {
        Facts {
            home,
            answer: Piece { text, media: &[] },
            stop,
            error: None,
            reasoning: None,
            source_replies: &[],
            segments: &[],
            sends: &[],
            failed_tool: None,
            mutating: false,
            stalled: false,
            silent_allowed: false,
            heartbeat: false,
            verbosity: Verbosity::Off,
        }
    }

    fn failed(&self) -> bool {
        match self.stop {
            StopReason::Error | StopReason::Aborted => true,
            StopReason::Stop | StopReason::Length | StopReason::ToolUse => false,
        }
    }

    /// Whether saying nothing is meant: by the token, or by a clean empty turn where that is fine.
    fn means_silence(&self) -> bool {
        if self.failed() {
            return false;
        }
        match said(self.answer.text, self.heartbeat) {
            Said::Silence => true,
            Said::Text(text) => {
                let clean = self.stop == StopReason::Stop && self.failed_tool.is_none();
                text.trim().is_empty() && self.silent_allowed && clean && !self.stalled
            }
        }
    }

    /// Whether a text was delivered already, by a tool or as a reply of a tool.
    fn was_said(&self, text: &str) -> bool {
        let plain = normalised(text);
        let replied = |reply: &Piece<'_>| alike(&plain, &normalised(reply.text));
        was_sent(text, &self.home, self.sends) || self.source_replies.iter().any(replied)
    }

    /// A text and its media without what was delivered already.
    fn fresh(&self, kind: Kind, piece: &Piece<'_>) -> Option<Payload> {
        let text = match said(piece.text, self.heartbeat) {
            Said::Text(text) if !text.trim().is_empty() && !self.was_said(text) => text.trim(),
            Said::Text(_) | Said::Silence => "",
        };
        let sent = |url: &str| {
            let replied = self.source_replies.iter().any(|reply| reply.media.contains(&url));
            replied || medium_was_sent(url, &self.home, self.sends)
        };
        let media: Vec<String> =
            piece.media.iter().filter(|url| !sent(url)).map(|url| (*url).to_owned()).collect();
        let empty = text.is_empty() && media.is_empty();
        (!empty).then(|| Payload { kind, text: text.to_owned(), media })
    }
}

/// What is to be delivered, in order (A6).
#[must_use]
pub fn shape(facts: &Facts<'_>) -> Vec<Payload> {
    let mut payloads = Vec::new();
    for reply in facts.source_replies {
        let text = match said(reply.text, facts.heartbeat) {
            Said::Silence => "",
            Said::Text(text) => text.trim(),
        };
        if !text.is_empty() || !reply.media.is_empty() {
            let media = reply.media.iter().map(|url| (*url).to_owned()).collect();
            payloads.push(Payload { kind: Kind::SourceReply, text: text.to_owned(), media });
        }
    }
    payloads.extend(facts.segments.iter().filter_map(|s| facts.fresh(Kind::Segment, s)));
    let silence = facts.means_silence();
    if facts.failed() {
        payloads.extend(error(facts));
    } else {
        let mut answer = facts.fresh(Kind::Answer, &facts.answer);
        drop_repeated(&mut answer, &payloads);
        payloads.extend(answer.map(|answer| with_notice(answer, facts.stop)));
    }
    let answered = !payloads.is_empty();
    let reasoning = facts.reasoning.map(str::trim).filter(|text| !text.is_empty());
    if let Some(text) = reasoning.filter(|_| !silence && !facts.failed()) {
        payloads.push(plain(Kind::Reasoning, text));
    }
    if !answered && !silence && facts.stop != StopReason::Aborted {
        payloads.extend(fallback(facts));
    }
    payloads.sort_by_key(|payload| payload.kind);
    payloads
}

fn plain(kind: Kind, text: impl Into<String>) -> Payload {
    Payload { kind, text: text.into(), media: vec![] }
}

/// A failed or stopped run's own text is not delivered; what went wrong is (A7). A stop without a
/// reason needs no words: whoever stopped it knows.
fn error(facts: &Facts<'_>) -> Option<Payload> {
    let text = facts.error.map(str::trim).filter(|text| !text.is_empty());
    let unsaid = (facts.stop == StopReason::Error).then_some(FAILED);
    text.or(unsaid).map(|text| plain(Kind::Error, text))
}

/// An answer that is the last segment once more is not delivered twice.
fn drop_repeated(answer: &mut Option<Payload>, payloads: &[Payload]) {
    let last = payloads.last().filter(|last| last.kind == Kind::Segment);
    if let (Some(found), Some(last)) = (&answer, last)
        && found.media.iter().all(|url| last.media.contains(url))
        && normalised(&found.text) == normalised(&last.text)
    {
        *answer = None;
    }
}

fn with_notice(mut answer: Payload, stop: StopReason) -> Payload {
    if stop == StopReason::Length && !answer.text.is_empty() {
        let _ = write!(answer.text, "\n\n{CUT}");
    }
    answer
}

/// What is said where there is nothing to say (A8, A9).
fn fallback(facts: &Facts<'_>) -> Option<Payload> {
    let home = facts.sends.iter().any(|sent| sent.target.same(&facts.home));
    if let Some(failed) = facts.failed_tool.filter(|_| !home && !facts.stalled) {
        return Some(plain(Kind::ToolWarning, failed.warning(facts.verbosity)));
    }
    if facts.stalled {
        return Some(plain(Kind::Error, STALLED));
    }
    if !facts.sends.is_empty() {
        return None;
    }
    let text = if facts.mutating { NO_ANSWER_BUT_EFFECTS } else { NO_ANSWER };
    Some(plain(Kind::Error, text))
}

#[cfg(test)]
mod tests;
