//! What a reply is made of while it streams, and what the engine is given when it ends.

use super::{Assistant, Block, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One piece of a streaming reply. `Start` comes once and first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Delta {
    /// The provider has begun to answer.
    Start,
    /// Visible text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A tool call begins.
    CallStart {
        /// Its place among the calls of the reply.
        index: u16,
        /// The provider's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's argument text.
    CallArgs {
        /// Its place among the calls of the reply.
        index: u16,
        /// The fragment.
        text: String,
    },
}

/// A finished reply as the codec hands it over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The message.
    pub message: Assistant,
    /// Calls whose arguments were JSON but no object: place among the calls, bounded error text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad_args: Vec<(u16, String)>,
}

/// Why a call cannot be run, as far as its name and arguments tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RejectKind {
    /// No tool has that name.
    Unknown,
    /// The arguments do not fit the tool.
    Invalid,
}

/// What the engine may know of a call without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct CallFacts {
    /// Hash of the tool's name.
    pub tool: u64,
    /// Hash of the canonical arguments, cosmetic fields left out.
    pub args: u64,
    /// The tool must not run beside others.
    pub sequential: bool,
    /// The tool is made to be asked again and again.
    pub poll: bool,
    /// Why it cannot run, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<RejectKind>,
}

/// The verdict on one call: what runs, or the text of the refusal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Check {
    /// It may run, with these coerced arguments.
    Ready(Map<String, Value>),
    /// It may not; the text is the result's.
    Rejected(String),
}

/// A finished reply with its calls resolved, validated and coerced (semantics 3.1, 3.2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplyBody {
    /// The message as it will be stored.
    pub message: Assistant,
    /// One verdict a call, in order.
    pub checks: Vec<Check>,
    /// What the engine may know of each call, in order.
    pub facts: Vec<CallFacts>,
}

/// What a reply holds, as far as the loop cares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Substance {
    /// Something a person can read, or calls.
    Full,
    /// Reasoning and nothing else.
    ReasoningOnly,
    /// Nothing.
    Empty,
}

impl ReplyBody {
    /// A reply whose calls, if any, are judged elsewhere.
    #[must_use]
    pub fn new(message: Assistant, checks: Vec<Check>, facts: Vec<CallFacts>) -> ReplyBody {
        assert_eq!(checks.len(), facts.len(), "one verdict and one set of facts a call");
        assert_eq!(checks.len(), message.calls().count(), "one verdict a call");
        ReplyBody { message, checks, facts }
    }

    /// Whether a reader would find anything in it.
    #[must_use]
    pub fn substance(&self) -> Substance {
        let mut reasoning = false;
        for block in &self.message.content {
            match block {
                Block::Text { text } if !text.trim().is_empty() => return Substance::Full,
                Block::Text { .. } => {}
                Block::ToolCall { .. } | Block::Image { .. } => return Substance::Full,
                Block::Thinking { thinking } => reasoning |= !thinking.trim().is_empty(),
            }
        }
        if reasoning { Substance::ReasoningOnly } else { Substance::Empty }
    }

    /// Why the model stopped.
    #[must_use]
    pub fn stop(&self) -> StopReason {
        self.message.stop_reason
    }
}
