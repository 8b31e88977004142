//! Frames of the gateway's protocol, and what is wrong with those that are none.

use serde_json::{Map, Value, json};

/// A request.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The client's name for it; the answer carries it.
    pub id: String,
    /// What is asked for.
    pub method: String,
    /// With what.
    pub params: Map<String, Value>,
}

/// A frame that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// It is not even JSON.
    #[error("invalid frame: {0}")]
    NoJson(String),
    /// It is no request frame.
    #[error("invalid request frame: {why}")]
    Shape {
        /// The request's id, if that much could be read.
        id: Option<String>,
        /// What is wrong.
        why: String,
    },
}

impl FrameError {
    /// The id that an answer carries.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            FrameError::Shape { id: Some(id), .. } => id,
            FrameError::Shape { id: None, .. } | FrameError::NoJson(_) => "invalid",
        }
    }
}

/// Longest name of a request or a method, bytes.
const NAME_BYTES_MAX: usize = 512;
/// Longest `traceparent` and `expectedProfileId`, bytes.
const EXTRA_BYTES_MAX: usize = 128;

impl Request {
    /// Reads a request frame. Its schema is closed.
    ///
    /// # Errors
    /// What is wrong, with the request's id where there is one to answer to.
    pub fn read(text: &str) -> Result<Request, FrameError> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| FrameError::NoJson(e.to_string()))?;
        let shape =
            |id: Option<&str>, why: String| FrameError::Shape { id: id.map(str::to_owned), why };
        let Value::Object(mut frame) = value else {
            return Err(shape(None, "at root: must be object".into()));
        };
        let id = match frame.remove("id") {
            Some(Value::String(id)) if !id.is_empty() && id.len() <= NAME_BYTES_MAX => id,
            _ => return Err(shape(None, "must have required property 'id'".into())),
        };
        let bad = |why: &str| shape(Some(&id), why.to_owned());
        if frame.remove("type") != Some(Value::from("req")) {
            return Err(bad("at /type: must be \"req\""));
        }
        let method = match frame.remove("method") {
            Some(Value::String(method)) if !method.is_empty() && method.len() <= NAME_BYTES_MAX => {
                method
            }
            _ => return Err(bad("must have required property 'method'")),
        };
        let params = match frame.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(bad("at /params: must be object")),
        };
        match frame.remove("traceparent") {
            None => {}
            Some(Value::String(trace)) if trace.len() <= EXTRA_BYTES_MAX => {}
            Some(_) => return Err(bad("at /traceparent: must be a short string")),
        }
        if frame.remove("expectedProfileId").is_some() {
            // A request for somebody's profile must not be done for another one.
            return Err(bad("at /expectedProfileId: is not supported here"));
        }
        if let Some(other) = frame.keys().next() {
            return Err(bad(&format!("at root: unexpected property '{other}'")));
        }
        Ok(Request { id, method, params })
    }
}

/// Why a request was not done.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The code, as `INVALID_REQUEST`.
    pub code: &'static str,
    /// In words.
    pub message: String,
    /// When to try again, ms, if that may help.
    pub retry_after_ms: Option<u64>,
    /// More, for programs.
    pub details: Option<Value>,
    /// A payload beside the error, where a method has one.
    pub payload: Option<Value>,
}

impl Fault {
    fn new(code: &'static str, message: impl Into<String>) -> Fault {
        let message = message.into();
        Fault { code, message, retry_after_ms: None, details: None, payload: None }
    }

    /// The request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new("INVALID_REQUEST", message)
    }

    /// It cannot be done now; to ask again may help.
    pub fn unavailable(message: impl Into<String>) -> Fault {
        Fault { retry_after_ms: Some(1_000), ..Fault::new("UNAVAILABLE", message) }
    }

    /// It could not be done, and to ask again does not help.
    pub fn failed(message: impl Into<String>) -> Fault {
        Fault::new("UNAVAILABLE", message)
    }

    /// The client may not do that.
    pub fn missing_scope(scope: &str) -> Fault {
        let details =
            json!({"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope]});
        let fault = Fault::new("FORBIDDEN", format!("missing scope: {scope}"));
        Fault { details: Some(details), ..fault }
    }

    /// With a reason for programs.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Fault {
        self.details = Some(json!({ "reason": reason }));
        self
    }

    /// As it stands in a frame.
    #[must_use]
    pub fn shape(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(ms) = self.retry_after_ms {
            error["retryable"] = true.into();
            error["retryAfterMs"] = ms.into();
        }
        if let Some(details) = &self.details {
            error["details"] = details.clone();
        }
        error
    }
}

/// The params of a request whose schema was checked.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Params(pub Map<String, Value>);

impl Params {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A text that the schema asks for.
    pub fn need(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        let number = self.0.get(name)?;
        // A whole number may be written with a point.
        number.as_u64().or_else(|| number.as_f64().map(|float| float as u64))
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }
}
