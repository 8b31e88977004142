//! How a model call can fail (semantics 12.1), shared by the codecs, the engine and the faces.

use serde::{Deserialize, Serialize};

/// The class of a failed model call. It decides what happens next; the text is for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailKind {
    /// A bad or expired key (401, 403).
    Auth,
    /// Credit exhausted (402).
    Billing,
    /// Throttled (429).
    RateLimit,
    /// The provider is too busy (529, or its text says so).
    Overloaded,
    /// An internal error of the provider (other 5xx).
    ServerError,
    /// The provider gave up waiting (408, 499, 504, 522, 524).
    Timeout,
    /// The connection could not be made or broke.
    Network,
    /// The certificate was not accepted: never retried.
    Tls,
    /// The request was refused as malformed (400, 422).
    Format,
    /// The request is larger than the model's window (413, or the text says so).
    ContextOverflow,
    /// The model is unknown or retired (404).
    ModelNotFound,
    /// The model or its provider declined to answer.
    Refusal,
    /// The stream ended without its terminal marker.
    Incomplete,
    /// Bytes that are not the protocol.
    MalformedResponse,
    /// Tool calls whose arguments or names cannot be read (semantics 3.3).
    MalformedCalls,
    /// A well-formed reply with nothing in it.
    Empty,
    /// No first event in time.
    FirstEvent,
    /// No byte in time after the first event.
    Idle,
    /// The output limit was reached before any text.
    Length,
    /// A named limit of ours was passed.
    TooLarge,
    /// Nothing better is known.
    Unknown,
}

impl FailKind {
    /// Whether the same request may be sent again to the same model (semantics 12.2).
    #[must_use]
    pub fn retryable(self) -> bool {
        match self {
            FailKind::RateLimit
            | FailKind::Overloaded
            | FailKind::ServerError
            | FailKind::Timeout
            | FailKind::Network
            | FailKind::Incomplete
            | FailKind::MalformedCalls
            | FailKind::Empty
            | FailKind::FirstEvent
            | FailKind::Idle => true,
            FailKind::Auth
            | FailKind::Billing
            | FailKind::Tls
            | FailKind::Format
            | FailKind::ContextOverflow
            | FailKind::ModelNotFound
            | FailKind::Refusal
            | FailKind::MalformedResponse
            | FailKind::Length
            | FailKind::TooLarge
            | FailKind::Unknown => false,
        }
    }

    /// The name used in events, journals and `--json` output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FailKind::Auth => "auth",
            FailKind::Billing => "billing",
            FailKind::RateLimit => "rate_limit",
            FailKind::Overloaded => "overloaded",
            FailKind::ServerError => "server_error",
            FailKind::Timeout => "timeout",
            FailKind::Network => "network",
            FailKind::Tls => "tls_certificate",
            FailKind::Format => "format",
            FailKind::ContextOverflow => "context_overflow",
            FailKind::ModelNotFound => "model_not_found",
            FailKind::Refusal => "provider_refusal",
            FailKind::Incomplete => "stream_incomplete",
            FailKind::MalformedResponse => "malformed_response",
            FailKind::MalformedCalls => "malformed_tool_call_arguments",
            FailKind::Empty => "empty_response",
            FailKind::FirstEvent => "first_event_timeout",
            FailKind::Idle => "idle_timeout",
            FailKind::Length => "output_limit",
            FailKind::TooLarge => "too_large",
            FailKind::Unknown => "unclassified",
        }
    }
}

/// A failed model call.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its class.
    pub kind: FailKind,
    /// What a person is told; never holds credentials.
    pub message: String,
    /// HTTP status, where one was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the provider asked us to wait, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure without HTTP facts.
    pub fn new(kind: FailKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), status: None, retry_after_ms: None }
    }
}
