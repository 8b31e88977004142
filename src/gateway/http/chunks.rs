//! What a completion looks like on the wire (J9).

use super::chat::Completion;
use super::json_response;
use crate::gateway::wire::Response;
use serde_json::{Value, json};

/// An error in the API's shape.
pub(super) fn error(status: u16, kind: &str, words: &str, more: (Option<&str>, &str)) -> Response {
    let (param, code) = more;
    let code = (!code.is_empty()).then_some(code);
    let error = json!({"message": words, "type": kind, "param": param, "code": code});
    json_response(status, &json!({ "error": error }))
}

/// The head of a stream.
pub(super) fn stream() -> Response {
    Response::new(200)
        .header("Content-Type", "text/event-stream; charset=utf-8")
        .header("Cache-Control", "no-store")
        .header("X-Content-Type-Options", "nosniff")
}

/// One event of a stream.
pub(super) fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// The last event of a stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

impl Completion {
    fn shape(&self, object: &str) -> Value {
        json!({
            "id": self.run.as_str(), "object": object, "created": self.created,
            "model": self.model,
        })
    }

    /// A piece of an answer.
    pub(super) fn chunk(&self, delta: &Value, finish: Option<&str>) -> Vec<u8> {
        let mut chunk = self.shape("chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        event(&chunk)
    }

    /// The piece about tokens, which has no choices.
    pub(super) fn usage_chunk(&self) -> Vec<u8> {
        let mut chunk = self.shape("chat.completion.chunk");
        chunk["choices"] = json!([]);
        chunk["usage"] = self.usage();
        event(&chunk)
    }

    /// A whole answer.
    pub(super) fn whole(&self, text: &str, finish: &str) -> Value {
        let mut whole = self.shape("chat.completion");
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        whole["choices"] = json!([
            {"index": 0, "message": message, "logprobs": null, "finish_reason": finish},
        ]);
        whole["usage"] = self.usage();
        whole
    }

    fn usage(&self) -> Value {
        let (prompt, answer) = self.tokens;
        json!({
            "prompt_tokens": prompt, "completion_tokens": answer,
            "total_tokens": prompt.saturating_add(answer),
        })
    }
}
