//! How a refused `connect` is worded.

use super::devices::Effects;
use crate::gateway::frame::Fault;
use serde_json::{Value, json};

/// Longest reason of a close frame, bytes.
const CLOSE_REASON_BYTES_MAX: usize = 120;

/// A `connect` that failed: an answer, after it the end of the socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// `INVALID_REQUEST`, `NOT_PAIRED` or `UNAVAILABLE`.
    pub code: &'static str,
    /// In words.
    pub message: String,
    /// For programs; null where there is nothing.
    pub details: Value,
    /// Trying again later helps.
    pub retryable: bool,
    /// After this time, ms.
    pub retry_after_ms: Option<u64>,
    /// The code of the close frame.
    pub close_code: u16,
    /// Its reason, at most 120 bytes.
    pub close_reason: String,
    /// How long the answer is held back, ms.
    pub delay_ms: u64,
    /// What follows all the same.
    pub effects: Effects,
}

impl Refused {
    /// `INVALID_REQUEST`, with the message as the reason of the close.
    pub(super) fn invalid(message: impl Into<String>, details: Value) -> Box<Refused> {
        let message = message.into();
        Box::new(Refused {
            code: "INVALID_REQUEST",
            close_reason: close_reason(&message).to_owned(),
            message,
            details,
            retryable: false,
            retry_after_ms: None,
            close_code: 1008,
            delay_ms: 0,
            effects: Effects::default(),
        })
    }

    /// The error of the answer.
    #[must_use]
    pub fn error(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.details.is_null() {
            error["details"] = self.details.clone();
        }
        if self.retryable {
            error["retryable"] = true.into();
        }
        if let Some(ms) = self.retry_after_ms {
            error["retryAfterMs"] = ms.into();
        }
        error
    }
}

/// A text cut to what a close frame holds, between characters (H13).
pub(super) fn close_reason(text: &str) -> &str {
    &text[..text.floor_char_boundary(CLOSE_REASON_BYTES_MAX)]
}

/// Why credentials were not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unauthorized {
    TokenMissing,
    PasswordMissing,
    TokenMismatch,
    PasswordMismatch,
    DeviceToken,
    Scopes,
    Bootstrap,
    Locked(u64),
}

impl Unauthorized {
    /// `authReason`, the code, the next step, and what is told to people.
    fn facts(self) -> (&'static str, &'static str, &'static str, &'static str) {
        const CONFIG: &str = "update_auth_configuration";
        const SECRET: &str = "update_auth_credentials";
        const REVIEW: &str = "review_auth_configuration";
        match self {
            Unauthorized::TokenMissing => {
                ("token_missing", "AUTH_TOKEN_MISSING", CONFIG, "gateway token missing")
            }
            Unauthorized::PasswordMissing => {
                ("password_missing", "AUTH_PASSWORD_MISSING", CONFIG, "gateway password missing")
            }
            Unauthorized::TokenMismatch => {
                ("token_mismatch", "AUTH_TOKEN_MISMATCH", SECRET, "gateway token mismatch")
            }
            Unauthorized::PasswordMismatch => {
                ("password_mismatch", "AUTH_PASSWORD_MISMATCH", SECRET, "gateway password mismatch")
            }
            Unauthorized::DeviceToken => (
                "device_token_mismatch",
                "AUTH_DEVICE_TOKEN_MISMATCH",
                SECRET,
                "device token mismatch (pair the device again, or use the gateway token)",
            ),
            Unauthorized::Scopes => (
                "scope_mismatch",
                "AUTH_SCOPE_MISMATCH",
                REVIEW,
                "the device token does not give the scopes that are asked for",
            ),
            Unauthorized::Bootstrap => (
                "bootstrap_token_invalid",
                "AUTH_BOOTSTRAP_TOKEN_INVALID",
                REVIEW,
                "the setup code is not valid",
            ),
            Unauthorized::Locked(_) => (
                "rate_limited",
                "AUTH_RATE_LIMITED",
                "wait_then_retry",
                "too many failed attempts (try again later)",
            ),
        }
    }

    /// A guess that was wrong counts against its address.
    pub fn counts(self) -> bool {
        matches!(
            self,
            Unauthorized::TokenMismatch
                | Unauthorized::PasswordMismatch
                | Unauthorized::DeviceToken
                | Unauthorized::Bootstrap
        )
    }

    /// The answer (H11). `again` says that the device may try its own token.
    pub fn refused(self, again: bool) -> Box<Refused> {
        let (reason, code, step, words) = self.facts();
        let again = again && self == Unauthorized::TokenMismatch;
        let step = if again { "retry_with_device_token" } else { step };
        let details = json!({
            "code": code, "authReason": reason, "canRetryWithDeviceToken": again,
            "recommendedNextStep": step,
        });
        let mut refused = Refused::invalid(format!("unauthorized: {words}"), details);
        if let Unauthorized::Locked(ms) = self {
            refused.retry_after_ms = Some(ms);
        }
        refused
    }
}

/// No place for a device.
pub(super) fn no_room() -> Box<Refused> {
    let fault = Fault::unavailable("too many devices are paired or wait for approval");
    let mut refused = Refused::invalid(fault.message, Value::Null);
    (refused.code, refused.retryable) = (fault.code, fault.retry_after_ms.is_some());
    refused
}
