//! Messages and their blocks (semantics 1.1, 1.2). Field names are OpenClaw's: they are stored and
//! exported as they stand here.

use crate::base::{EntryId, Millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One content block.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    /// Text for a reader.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning that the model showed.
    Thinking {
        /// The reasoning.
        thinking: String,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64 data.
        data: String,
        /// Media type, as `image/png`.
        mime_type: String,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The provider's id, kept as it came; pairing never relies on it alone.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// Raw arguments: an object as soon as they were readable.
        arguments: Map<String, Value>,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into() }
    }
}

/// Content of a user or custom message: plain text or blocks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Blocks, text and images.
    Blocks(Vec<Block>),
}

impl Content {
    /// All text of the content, blocks joined by line feeds.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => join_text(blocks),
        }
    }
}

/// The text blocks of a list, joined by line feeds.
#[must_use]
pub fn join_text(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        if let Block::Text { text } = block {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        }
    }
    out
}

/// A message from a person or a system that speaks in their place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// What was said.
    pub content: Content,
    /// When it was accepted.
    pub timestamp: Millis,
    /// Set where the sender gave one; the same key is stored once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Why a model stopped (semantics 1.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It had said everything.
    Stop,
    /// The output limit was reached.
    Length,
    /// It waits for tool results.
    ToolUse,
    /// The provider or the stream failed.
    Error,
    /// The run was stopped.
    Aborted,
}

/// Token counts of one reply; `input` excludes what was read from a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that were not cached.
    pub input: u64,
    /// Generated tokens, reasoning included.
    pub output: u64,
    /// Prompt tokens read from a cache.
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    pub cache_write: u64,
    /// The provider's total, or the sum of the others.
    pub total_tokens: u64,
}

/// One reply of a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assistant {
    /// Text, reasoning and calls in the order in which they began.
    pub content: Vec<Block>,
    /// The protocol, as `openai-completions`.
    pub api: String,
    /// The provider's id in the config.
    pub provider: String,
    /// The model's id at that provider.
    pub model: String,
    /// The model the provider says it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Token counts; absent where the provider gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Text of the failure, for `error` and `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Code of the failure: recovery matches the code, never the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// When the reply ended.
    pub timestamp: Millis,
}

impl Assistant {
    /// The calls of the reply, in order: id, name, raw arguments.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &Map<String, Value>)> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, name, arguments } => {
                Some((id.as_str(), name.as_str(), arguments))
            }
            Block::Text { .. } | Block::Thinking { .. } | Block::Image { .. } => None,
        })
    }

    /// Whether the reply failed or was stopped.
    #[must_use]
    pub fn failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }
}

/// What a tool gave back, before it is bound to its call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// What the model sees: text and images.
    pub content: Vec<Block>,
    /// Metadata the model never sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// Whether the run may end once every call of the batch says so (semantics 3.6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

impl ToolOutput {
    /// A good result of one text.
    pub fn text(text: impl Into<String>) -> ToolOutput {
        ToolOutput { content: vec![Block::text(text)], ..ToolOutput::default() }
    }

    /// A failure with its text.
    pub fn error(text: impl Into<String>) -> ToolOutput {
        ToolOutput { content: vec![Block::text(text)], is_error: true, ..ToolOutput::default() }
    }

    /// The same with metadata.
    #[must_use]
    pub fn with(mut self, details: Value) -> ToolOutput {
        self.details = Some(details);
        self
    }
}

/// A stored tool result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The id of the call, as the provider gave it.
    pub tool_call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// What the model sees.
    pub content: Vec<Block>,
    /// Metadata the model never sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// When the result was stored.
    pub timestamp: Millis,
}

/// A message that only some parts of the system understand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Custom {
    /// Its kind, as `openclaw:turn-aborted`.
    pub custom_type: String,
    /// What the model may see.
    pub content: Content,
    /// Whether a person is shown it.
    pub display: bool,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// When it was made.
    pub timestamp: Millis,
}

/// A command that a person ran in the session, outside of the loop.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecution {
    /// The command.
    pub command: String,
    /// What it printed.
    pub output: String,
    /// Its exit code, if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// It was stopped.
    #[serde(default)]
    pub cancelled: bool,
    /// The output was cut.
    #[serde(default)]
    pub truncated: bool,
    /// The model does not see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_from_context: bool,
    /// When it ran.
    pub timestamp: Millis,
}

/// What happened on a branch that was left.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummary {
    /// The summary.
    pub summary: String,
    /// The branch's last entry.
    pub from_id: EntryId,
    /// When it was made.
    pub timestamp: Millis,
}

/// What stands for the compacted part of a history.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummary {
    /// The summary.
    pub summary: String,
    /// Context size before.
    pub tokens_before: u64,
    /// When it was made.
    pub timestamp: Millis,
}

/// A message of any role.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// From a person.
    User(User),
    /// From the model.
    Assistant(Assistant),
    /// From a tool.
    ToolResult(ToolResult),
    /// From the system.
    Custom(Custom),
    /// A person's own command.
    BashExecution(BashExecution),
    /// Of a branch that was left.
    BranchSummary(BranchSummary),
    /// Of what was compacted.
    CompactionSummary(CompactionSummary),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_are_the_fields_names() {
        let result = Message::ToolResult(ToolResult {
            tool_call_id: "c1".into(),
            tool_name: "read".into(),
            content: vec![Block::text("x")],
            details: None,
            is_error: false,
            timestamp: Millis(5),
        });
        let text = serde_json::to_string(&result).unwrap();
        let want = r#"{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"x"}],"isError":false,"timestamp":5}"#;
        assert_eq!(text, want);
        assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), result);
    }
}
