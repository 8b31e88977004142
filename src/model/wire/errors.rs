//! What a provider's error means (semantics 12.1, spec/model.md M12): status first where it is
//! certain, then the text, in a fixed order of tests.

use super::excerpt;
use crate::base::limits::RETRY_AFTER_MAX_MS;
use crate::base::{FailKind, Failure, Millis};
use serde_json::Value;

/// Most characters of a provider's text that a failure carries.
const TEXT_CHARS_MAX: usize = 900;

/// What the headers of an answer say about waiting.
#[derive(Clone, Copy, Default, Debug)]
pub struct RetryHints<'a> {
    /// `retry-after`: seconds or an HTTP date.
    pub after: Option<&'a str>,
    /// `retry-after-ms`: milliseconds.
    pub after_ms: Option<&'a str>,
}

/// The failure that an HTTP answer stands for.
#[must_use]
pub fn from_answer(status: u16, hints: RetryHints<'_>, body: &[u8], now: Millis) -> Failure {
    let said = Said::from_body(body);
    let kind = by_status(status, &said);
    let message = if said.message.is_empty() {
        format!("HTTP {status} without a message")
    } else {
        format!("HTTP {status}: {}", said.message)
    };
    Failure { kind, message, status: Some(status), retry_after_ms: wait(hints, now) }
}

/// The failure that an error object stands for which came inside a good answer.
#[must_use]
pub fn from_object(object: &Value) -> Failure {
    let said = Said::from_value(object);
    let status = said.status;
    let kind = match status {
        Some(status) => by_status(status, &said),
        None => by_text(&said).unwrap_or(FailKind::Unknown),
    };
    let message = if said.message.is_empty() {
        "The provider reported an error without a message".to_owned()
    } else {
        said.message
    };
    Failure { kind, message, status, retry_after_ms: None }
}

/// What a provider said about its error, in the shapes that are about.
#[derive(Default)]
struct Said {
    /// For people.
    message: String,
    /// Everything that the tests look at, in lower case.
    hay: String,
    /// A code that is an HTTP status.
    status: Option<u16>,
}

impl Said {
    fn from_body(body: &[u8]) -> Said {
        let text = String::from_utf8_lossy(body);
        if let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(text.trim()) {
            return Said::from_value(&value);
        }
        let message = excerpt(text.trim(), TEXT_CHARS_MAX);
        Said { hay: message.to_lowercase(), message, status: None }
    }

    fn from_value(value: &Value) -> Said {
        let inner = value.get("error").filter(|e| !e.is_null()).unwrap_or(value);
        let mut said = Said::default();
        let mut message = None;
        if let Value::String(text) = inner {
            message = Some(text.clone());
        }
        for object in [inner, value] {
            for key in ["message", "error_message", "detail", "msg"] {
                message = message.or_else(|| text_of(object.get(key)));
            }
            for key in ["type", "code", "error_type", "param", "status"] {
                if let Some(text) = text_of(object.get(key)) {
                    said.hay.push_str(&text.to_lowercase());
                    said.hay.push(' ');
                }
                let code = object.get(key).and_then(number_of);
                said.status = said.status.or(code.filter(|c| (400..600).contains(c)));
            }
        }
        // Routers wrap the text of the provider behind them.
        let raw = inner.get("metadata").and_then(|m| text_of(m.get("raw")));
        let mut message = message.unwrap_or_else(|| match value {
            Value::Object(map) if map.is_empty() => String::new(),
            other => other.to_string(),
        });
        if let Some(raw) = raw {
            message = format!("{message}: {raw}");
        }
        said.message = excerpt(message.trim(), TEXT_CHARS_MAX);
        said.hay.push_str(&said.message.to_lowercase());
        said
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => value.map(Value::to_string),
        _ => None,
    }
}

fn number_of(value: &Value) -> Option<u16> {
    match value {
        Value::Number(n) => n.as_u64().and_then(|n| u16::try_from(n).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn by_status(status: u16, said: &Said) -> FailKind {
    let text = by_text(said);
    if text == Some(FailKind::Overloaded) {
        return FailKind::Overloaded;
    }
    let billing = text == Some(FailKind::Billing);
    match status {
        401 | 403 => {
            if billing {
                FailKind::Billing
            } else {
                FailKind::Auth
            }
        }
        402 => match text {
            Some(FailKind::RateLimit) => FailKind::RateLimit,
            _ => FailKind::Billing,
        },
        404 => FailKind::ModelNotFound,
        408 | 410 | 499 | 504 | 522 | 524 => FailKind::Timeout,
        413 => FailKind::ContextOverflow,
        429 => {
            if billing {
                FailKind::Billing
            } else {
                FailKind::RateLimit
            }
        }
        400 | 422 if said.hay.is_empty() => FailKind::Unknown,
        400 | 422 => text.filter(|k| *k != FailKind::ServerError).unwrap_or(FailKind::Format),
        529 => FailKind::Overloaded,
        500..=599 => match text {
            Some(FailKind::ContextOverflow) => FailKind::ContextOverflow,
            _ => FailKind::ServerError,
        },
        _ => text.unwrap_or(FailKind::Unknown),
    }
}

/// One test of the text: any of these words means this kind.
type Test = (FailKind, &'static [&'static str]);

/// The tests in the order in which they are asked; the first that holds decides.
const TESTS: &[Test] = &[
    (FailKind::Format, &["image exceeds", "image dimensions", "image too large", "invalid image"]),
    (
        FailKind::Format,
        &[
            "tool_call_id",
            "tool_calls.id",
            "tool_use_id",
            "tool call id",
            "roles must alternate",
            "invalid message content",
            "string should match pattern",
            "string_above_max_length",
            "string too long",
        ],
    ),
    (FailKind::Unknown, &["session expired", "session not found", "session_expired"]),
    (
        FailKind::ModelNotFound,
        &[
            "model_not_found",
            "model not found",
            "unknown model",
            "no such model",
            "not a valid model",
            "invalid model",
            "no endpoints found",
            "model does not exist",
            "model is not supported",
            "has been deprecated",
        ],
    ),
    (
        FailKind::ContextOverflow,
        &[
            "context_length",
            "context length",
            "context window",
            "context size",
            "maximum context",
            "context_window",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "input too long",
            "exceeds the model's max",
            "maximum prompt length",
            "reduce the length of the messages",
            "request_too_large",
            "exceeds the maximum number of tokens",
            "input token count",
        ],
    ),
    (FailKind::Format, &["invalid_replay", "dangling_tool_call", "orphan_tool_result"]),
    (
        FailKind::Billing,
        &[
            "insufficient_quota",
            "insufficient credit",
            "insufficient balance",
            "insufficient funds",
            "credit balance",
            "out of credits",
            "payment required",
            "billing",
        ],
    ),
    (
        FailKind::RateLimit,
        &["daily limit", "weekly limit", "monthly limit", "usage limit", "per day"],
    ),
    (
        FailKind::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "throttl",
            "per minute",
            "resource_exhausted",
            "quota",
        ],
    ),
    (
        FailKind::Overloaded,
        &["overloaded", "over capacity", "at capacity", "server is busy", "high demand"],
    ),
    (
        FailKind::Auth,
        &[
            "authentication",
            "invalid api key",
            "incorrect api key",
            "invalid_api_key",
            "unauthorized",
            "permission_error",
            "permission denied",
        ],
    ),
    (FailKind::Tls, &["certificate"]),
    (FailKind::Refusal, &["content_filter", "content policy", "content_policy"]),
    (FailKind::Timeout, &["timed out", "timeout"]),
    (FailKind::ServerError, &["server_error", "internal error", "server error", "api_error"]),
    (FailKind::Format, &["invalid_request", "badrequest", "bad_request", "bad request"]),
];

fn by_text(said: &Said) -> Option<FailKind> {
    let hit = |test: &&Test| test.1.iter().any(|word| said.hay.contains(word));
    TESTS.iter().find(hit).map(|test| test.0)
}

/// How long the provider asks us to wait, ms, capped at [`RETRY_AFTER_MAX_MS`].
#[must_use]
pub fn wait(hints: RetryHints<'_>, now: Millis) -> Option<u64> {
    let whole = |text: &str| {
        let text = text.trim();
        text.split('.').next().filter(|t| !t.is_empty()).and_then(|t| t.parse::<u64>().ok())
    };
    let from_ms = hints.after_ms.and_then(whole);
    let from_seconds = || hints.after.and_then(whole).map(|s| s.saturating_mul(1_000));
    let from_date = || {
        let date = httpdate::parse_http_date(hints.after?.trim()).ok()?;
        let at = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)).since(now))
    };
    let ms = from_ms.or_else(from_seconds).or_else(from_date)?;
    Some(ms.min(RETRY_AFTER_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(status: u16, body: &str) -> FailKind {
        from_answer(status, RetryHints::default(), body.as_bytes(), Millis(0)).kind
    }

    /// M12: the table of semantics 12.1.
    #[test]
    fn statuses_have_their_kinds() {
        let rows = [
            (401, "", FailKind::Auth),
            (403, "", FailKind::Auth),
            (403, r#"{"error":{"message":"Your credit balance is too low"}}"#, FailKind::Billing),
            (402, "", FailKind::Billing),
            (402, r#"{"error":"daily limit reached, try later"}"#, FailKind::RateLimit),
            (404, "", FailKind::ModelNotFound),
            (408, "", FailKind::Timeout),
            (410, "", FailKind::Timeout),
            (413, "", FailKind::ContextOverflow),
            (422, r#"{"detail":[{"msg":"field required"}]}"#, FailKind::Format),
            (400, "", FailKind::Unknown),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, FailKind::RateLimit),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, FailKind::Billing),
            (499, "", FailKind::Timeout),
            (500, "oops", FailKind::ServerError),
            (502, "<html>bad gateway</html>", FailKind::ServerError),
            (503, "", FailKind::ServerError),
            (503, r#"{"error":{"type":"overloaded_error"}}"#, FailKind::Overloaded),
            (504, "", FailKind::Timeout),
            (524, "", FailKind::Timeout),
            (529, "", FailKind::Overloaded),
            (302, "", FailKind::Unknown),
        ];
        for (status, body, want) in rows {
            assert_eq!(kind(status, body), want, "{status} {body}");
        }
    }

    /// M12: the order of the tests matters, not only their words.
    #[test]
    fn overflow_wins_over_the_request_type() {
        let body = r#"{"error":{"type":"invalid_request_error","code":"context_length_exceeded",
            "message":"This model's maximum context length is 8192 tokens"}}"#;
        assert_eq!(kind(400, body), FailKind::ContextOverflow);
    }

    /// M12, B010: a request refused for the shape of an id is not sent again.
    #[test]
    fn b010_id_refusals_are_final() {
        let body = r#"{"error":{"message":"Invalid 'messages[3].tool_calls[0].id': string too long.
            Expected a string with maximum length 64","code":"string_above_max_length"}}"#;
        assert_eq!(kind(400, body), FailKind::Format);
        assert!(!FailKind::Format.retryable());
    }

    /// M12, B079: a refused content type costs one request.
    #[test]
    fn b079_invalid_content_is_final() {
        let body = r#"{"error":{"message":"invalid message content type: <nil>"}}"#;
        assert!(!kind(400, body).retryable());
    }

    /// M12, B095: flat error fields carry their text and their class.
    #[test]
    fn b095_flat_error_fields() {
        let object = json!({"choices": null, "error_type": "BadRequestError",
            "error_message": "maximum context length is 8192 tokens, requested 9000"});
        let failure = from_object(&object);
        assert_eq!(failure.kind, FailKind::ContextOverflow);
        assert!(failure.message.contains("requested 9000"));
        assert!(!failure.kind.retryable());
    }

    /// M12: a numeric code inside an error object counts as a status.
    #[test]
    fn codes_count_as_statuses() {
        let failure = from_object(&json!({"error": {"code": 429, "message": "slow down"}}));
        assert_eq!((failure.kind, failure.status), (FailKind::RateLimit, Some(429)));
    }

    /// M13: seconds, milliseconds and dates, all capped.
    #[test]
    fn waits_are_read_and_capped() {
        let after = |after, after_ms, now| wait(RetryHints { after, after_ms }, Millis(now));
        assert_eq!(after(Some("7"), None, 0), Some(7_000));
        assert_eq!(after(Some("7"), Some("250"), 0), Some(250));
        assert_eq!(after(Some("86400"), None, 0), Some(RETRY_AFTER_MAX_MS));
        let date = Some("Thu, 01 Jan 1970 00:01:40 GMT");
        assert_eq!(after(date, None, 90_000), Some(10_000));
        assert_eq!(after(date, None, 200_000), Some(0));
        assert_eq!(after(Some("soon"), Some("x"), 0), None);
    }

    /// M12, B098: an error text is cut to less than a kilobyte.
    #[test]
    fn b098_excerpts_are_short() {
        let failure =
            from_answer(502, RetryHints::default(), "x".repeat(50_000).as_bytes(), Millis(0));
        assert!(failure.message.len() < 1_024);
    }
}
