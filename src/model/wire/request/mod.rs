//! OpenAI chat completions, sending side (semantics 11.2, 11.6, spec/model.md M19 to M27).
//!
//! An [`Encoder`] keeps the encoded messages as bytes and only ever appends to them, so that a
//! long conversation is not encoded again for each request and a provider's prompt cache sees the
//! same beginning. What depends on what comes next (results that are missing, images that must
//! follow the last result of a batch) is held back until a message decides it.

mod ids;

#[cfg(test)]
mod tests;

use crate::base::json;
use crate::transcript::project::as_user;
use crate::transcript::{Assistant, Block, Content, Message, ToolResult};
pub use ids::IdStyle;
use ids::Ids;
use serde_json::{Value, json};

/// How an assistant message without text shows that it has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoText {
    /// `"content": null`.
    #[default]
    Null,
    /// `"content": ""`.
    Empty,
    /// No `content` at all.
    Omitted,
}

/// What a backend wants otherwise than OpenAI does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compat {
    /// The model takes images.
    pub images: bool,
    /// How absent text is written.
    pub no_text: NoText,
    /// How call ids must look.
    pub ids: IdStyle,
    /// Results carry the tool's name.
    pub result_name: bool,
    /// A user message must not follow a result directly.
    pub assistant_after_result: bool,
    /// Content must be one string, also where it could be a list of parts.
    pub string_content: bool,
}

/// The field that carries the output limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MaxTokensField {
    /// `max_tokens`, which compatible servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI itself wants.
    MaxCompletionTokens,
}

/// A tool as the model is told of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tool<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it does.
    pub description: &'a str,
    /// JSON Schema of its arguments.
    pub parameters: &'a Value,
}

/// Everything of a request but its messages.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Params<'a> {
    /// The model's id at the provider.
    pub model: &'a str,
    /// The system prompt; none where it is empty.
    pub system: &'a str,
    /// The part of it that may change from request to request, behind the other.
    pub system_rest: &'a str,
    /// The tools; they are sent sorted by name.
    pub tools: &'a [Tool<'a>],
    /// Most tokens of the reply.
    pub max_tokens: Option<u64>,
    /// The field for that.
    pub max_tokens_field: MaxTokensField,
    /// Ask for token counts at the end of the stream.
    pub usage: bool,
    /// The system prompt has the role `developer`.
    pub developer_role: bool,
    /// Say that the request is not to be stored.
    pub no_store: bool,
    /// `reasoning_effort`, where the model takes one.
    pub reasoning_effort: Option<&'a str>,
}

/// Text of a result that has none.
const NO_OUTPUT: &str = "(no output)";
/// Text of a result that has only images.
const SEE_IMAGE: &str = "(see attached image)";
/// Text of a result that never came.
const NO_RESULT: &str = "No result provided";
/// Stands in for an image that the model cannot see.
const IMAGE_OMITTED: &str = "(image omitted: this model does not take images)";
/// Stands in for a reply that failed.
const TURN_FAILED: &str = "(This turn failed before it was complete.)";
/// Stands in for a user message without text.
const NO_TEXT: &str = "(empty message)";
/// Opens the user message that carries images out of results.
const IMAGES_FOLLOW: &str = "Attached image(s) from tool result:";
/// The filler that some backends want between a result and a user message.
const FILLER: &str = "I have processed the tool results.";

/// The messages of a conversation, encoded.
#[derive(Clone, Debug)]
pub struct Encoder {
    compat: Compat,
    bytes: Vec<u8>,
    ids: Ids,
    /// Whether any user message was written.
    user: bool,
    /// Whether the last message written was a result.
    after_result: bool,
    /// Images of the results since the last other message.
    images: Vec<Value>,
}

impl Encoder {
    /// An encoder without messages.
    #[must_use]
    pub fn new(compat: Compat) -> Encoder {
        Encoder {
            compat,
            bytes: Vec::new(),
            ids: Ids::new(compat.ids),
            user: false,
            after_result: false,
            images: Vec::new(),
        }
    }

    /// The messages encoded so far, separated by commas. It only ever grows at its end.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a message. Histories come repaired; what still does not fit is left out rather
    /// than sent, because a backend refuses the whole request for it.
    pub fn push(&mut self, message: &Message) {
        match message {
            Message::ToolResult(result) => self.result(result),
            Message::Assistant(reply) => self.assistant(reply),
            Message::User(_)
            | Message::Custom(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => {
                if let Some(content) = as_user(message) {
                    self.user(&content);
                }
            }
        }
    }

    /// The whole request.
    #[must_use]
    pub fn request(&self, params: &Params<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + params.system.len() + 4096);
        out.extend_from_slice(b"{\"model\":");
        out.extend_from_slice(json::canonical(&json!(params.model)).as_bytes());
        out.extend_from_slice(b",\"messages\":[");
        let system = [params.system, params.system_rest];
        let system: Vec<&str> = system.into_iter().filter(|part| !part.trim().is_empty()).collect();
        if !system.is_empty() {
            let role = if params.developer_role { "developer" } else { "system" };
            let system = json!({ "role": role, "content": system.join("\n\n") });
            out.extend_from_slice(system.to_string().as_bytes());
        }
        for part in [self.bytes.as_slice(), &self.closing()] {
            if !part.is_empty() && !out.ends_with(b"[") {
                out.push(b',');
            }
            out.extend_from_slice(part);
        }
        out.push(b']');
        close(&mut out, params);
        out
    }

    /// What must stand behind the messages if no other message comes.
    fn closing(&self) -> Vec<u8> {
        let pending = self.ids.pending() || !self.images.is_empty();
        if !pending && self.user {
            return Vec::new();
        }
        let mut rest = self.clone_without_bytes();
        rest.settle();
        if !rest.user {
            rest.user(&Content::Text(String::new()));
        }
        rest.bytes
    }

    fn clone_without_bytes(&self) -> Encoder {
        Encoder {
            compat: self.compat,
            bytes: Vec::new(),
            ids: self.ids.clone(),
            user: self.user,
            after_result: self.after_result,
            images: self.images.clone(),
        }
    }

    fn write(&mut self, message: &Value) {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(message.to_string().as_bytes());
    }

    /// Closes a batch of results: those that are missing, then the images of those that came.
    fn settle(&mut self) {
        for (id, name) in self.ids.take_pending() {
            self.write_result(&id, &name, NO_RESULT);
        }
        if self.images.is_empty() {
            return;
        }
        let mut parts = vec![json!({ "type": "text", "text": IMAGES_FOLLOW })];
        parts.append(&mut self.images);
        self.filler();
        self.write(&json!({ "role": "user", "content": parts }));
        self.user = true;
        self.after_result = false;
    }

    fn filler(&mut self) {
        if self.after_result && self.compat.assistant_after_result {
            self.write(&json!({ "role": "assistant", "content": FILLER }));
        }
    }

    fn user(&mut self, content: &Content) {
        self.settle();
        self.filler();
        let content = self.user_content(content);
        self.write(&json!({ "role": "user", "content": content }));
        self.user = true;
        self.after_result = false;
    }

    fn user_content(&self, content: &Content) -> Value {
        let one = |text: &str| match text.trim().is_empty() {
            true => json!(NO_TEXT),
            false => json!(text),
        };
        let blocks = match content {
            Content::Text(text) => return one(text),
            Content::Blocks(blocks) => blocks,
        };
        let parts: Vec<Value> = blocks.iter().filter_map(|b| self.part(b)).collect();
        let text_only = parts.iter().all(|part| part["type"] == "text");
        if !text_only && !self.compat.string_content {
            return json!(parts);
        }
        let texts: Vec<&str> = parts.iter().filter_map(|p| p["text"].as_str()).collect();
        one(&texts.join("\n"))
    }

    /// A block of a user message as a content part; none where it says nothing.
    fn part(&self, block: &Block) -> Option<Value> {
        match block {
            Block::Text { text } if text.trim().is_empty() => None,
            Block::Text { text } => Some(json!({ "type": "text", "text": text })),
            Block::Image { .. } if !self.takes_images() => {
                Some(json!({ "type": "text", "text": IMAGE_OMITTED }))
            }
            Block::Image { data, mime_type } => {
                let url = format!("data:{mime_type};base64,{data}");
                Some(json!({ "type": "image_url", "image_url": { "url": url } }))
            }
            Block::Thinking { .. } | Block::ToolCall { .. } => None,
        }
    }

    fn takes_images(&self) -> bool {
        self.compat.images && !self.compat.string_content
    }

    fn assistant(&mut self, reply: &Assistant) {
        self.settle();
        let mut text = String::new();
        for block in &reply.content {
            if let Block::Text { text: more } = block {
                text.push_str(more);
            }
        }
        let blank = text.trim().is_empty();
        if reply.failed() {
            // Calls of a failed reply were never run: with them the reply has no place here.
            if !blank && reply.calls().next().is_none() {
                self.write(&json!({ "role": "assistant", "content": TURN_FAILED }));
                self.after_result = false;
            }
            return;
        }
        let mut calls = Vec::new();
        for (id, name, arguments) in reply.calls() {
            let id = self.ids.open(id, name);
            let arguments = json::canonical(&Value::Object(arguments.clone()));
            let function = json!({ "name": name, "arguments": arguments });
            calls.push(json!({ "id": id, "type": "function", "function": function }));
        }
        if blank && calls.is_empty() {
            return;
        }
        let mut message = json!({ "role": "assistant" });
        match (blank, self.compat.no_text) {
            (false, _) => message["content"] = json!(text),
            (true, NoText::Null) => message["content"] = Value::Null,
            (true, NoText::Empty) => message["content"] = json!(""),
            (true, NoText::Omitted) => {}
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        self.write(&message);
        self.after_result = false;
    }

    fn result(&mut self, result: &ToolResult) {
        let Some(id) = self.ids.close(&result.tool_call_id) else {
            return;
        };
        let mut text = String::new();
        let mut images = Vec::new();
        for block in &result.content {
            match (block, self.part(block)) {
                (Block::Image { .. }, Some(part)) if part["type"] == "image_url" => {
                    images.push(part);
                }
                (_, Some(part)) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(part["text"].as_str().unwrap_or_default());
                }
                (_, None) => {}
            }
        }
        if text.is_empty() {
            text.push_str(if images.is_empty() { NO_OUTPUT } else { SEE_IMAGE });
        }
        self.write_result(&id, &result.tool_name, &text);
        self.images.append(&mut images);
    }

    fn write_result(&mut self, id: &str, name: &str, text: &str) {
        let mut message = json!({ "role": "tool", "tool_call_id": id, "content": text });
        if self.compat.result_name {
            message["name"] = json!(name);
        }
        self.write(&message);
        self.after_result = true;
    }
}

/// The part of a request behind its messages.
fn close(out: &mut Vec<u8>, params: &Params<'_>) {
    let mut tail = json!({ "stream": true });
    if !params.tools.is_empty() {
        let mut tools: Vec<&Tool<'_>> = params.tools.iter().collect();
        tools.sort_by_key(|tool| tool.name);
        let tools = tools.iter().map(|tool| {
            let function = json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            });
            json!({ "type": "function", "function": function })
        });
        tail["tools"] = Value::Array(tools.collect());
    }
    if params.usage {
        tail["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(max) = params.max_tokens {
        let field = match params.max_tokens_field {
            MaxTokensField::MaxTokens => "max_tokens",
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
        };
        tail[field] = json!(max);
    }
    if params.no_store {
        tail["store"] = json!(false);
    }
    if let Some(effort) = params.reasoning_effort {
        tail["reasoning_effort"] = json!(effort);
    }
    let tail = tail.to_string();
    out.push(b',');
    out.extend_from_slice(&tail.as_bytes()[1..]);
}
