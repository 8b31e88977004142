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
#[error("{why}")]
pub struct FrameError {
    /// The request's id, if that much could be read.
    pub id: Option<String>,
    /// What is wrong.
    pub why: String,
}

/// Longest name of a request or a method, bytes.
const NAME_BYTES_MAX: usize = 512;

impl Request {
    /// Reads a request frame. Its schema is closed.
    ///
    /// # Errors
    /// What is wrong, with the request's id where there is one to answer to.
    pub fn read(text: &str) -> Result<Request, FrameError> {
        let none = |why: String| FrameError { id: None, why };
        let value: Value =
            serde_json::from_str(text).map_err(|e| none(format!("invalid frame: {e}")))?;
        let Value::Object(mut frame) = value else {
            return Err(none("invalid frame: at root: must be object".into()));
        };
        let id = match frame.remove("id") {
            Some(Value::String(id)) if !id.is_empty() && id.len() <= NAME_BYTES_MAX => id,
            _ => return Err(none("invalid frame: must have required property 'id'".into())),
        };
        let bad =
            |why: &str| FrameError { id: Some(id.clone()), why: format!("invalid frame: {why}") };
        if frame.remove("type") != Some(Value::from("req")) {
            return Err(bad("at /type: must be \"req\""));
        }
        let method = match frame.remove("method") {
            Some(Value::String(method)) if method.len() <= NAME_BYTES_MAX => method,
            _ => return Err(bad("must have required property 'method'")),
        };
        let params = match frame.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(bad("at /params: must be object")),
        };
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
    /// Whether to try again later may help.
    pub retryable: bool,
    /// More, for programs.
    pub details: Option<Value>,
}

impl Fault {
    /// The request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Fault {
        let message = message.into();
        Fault { code: "INVALID_REQUEST", message, retryable: false, details: None }
    }

    /// It cannot be done now.
    pub fn unavailable(message: impl Into<String>, retryable: bool) -> Fault {
        Fault { code: "UNAVAILABLE", message: message.into(), retryable, details: None }
    }

    /// With a reason for programs.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Fault {
        self.details = Some(json!({ "reason": reason }));
        self
    }
}

/// The answer to a request.
pub(super) fn answer(id: &str, result: Result<Value, Fault>) -> Value {
    match result {
        Ok(payload) => json!({"type": "res", "id": id, "ok": true, "payload": payload}),
        Err(fault) => {
            let mut error = json!({"code": fault.code, "message": fault.message});
            if fault.retryable {
                error["retryable"] = true.into();
            }
            if let Some(details) = fault.details {
                error["details"] = details;
            }
            json!({"type": "res", "id": id, "ok": false, "error": error})
        }
    }
}

/// A method's parameters, read one by one; what is left over is a mistake.
pub(super) struct Params {
    method: String,
    map: Map<String, Value>,
    problems: Vec<String>,
}

impl Params {
    pub fn new(method: &str, map: Map<String, Value>) -> Params {
        Params { method: method.to_owned(), map, problems: vec![] }
    }

    /// A text that must be there and not empty.
    pub fn text(&mut self, name: &str) -> String {
        match self.map.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => text,
            Some(Value::String(_)) => {
                self.problem(name, "must NOT have fewer than 1 characters");
                String::new()
            }
            Some(_) => {
                self.problem(name, "must be string");
                String::new()
            }
            None => {
                self.problems.push(format!("must have required property '{name}'"));
                String::new()
            }
        }
    }

    /// A text that may be left out.
    pub fn optional(&mut self, name: &str) -> Option<String> {
        match self.map.remove(name) {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                self.problem(name, "must be string");
                None
            }
        }
    }

    /// A whole number of at least 0 that may be left out.
    pub fn number(&mut self, name: &str) -> Option<u64> {
        let value = self.map.remove(name)?;
        let number = value.as_u64();
        if number.is_none() {
            self.problem(name, "must be integer, >= 0");
        }
        number
    }

    /// A choice that may be left out.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.map.remove(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.problem(name, "must be boolean");
        }
        flag
    }

    pub fn problem(&mut self, name: &str, what: &str) {
        self.problems.push(format!("at /{name}: {what}"));
    }

    /// Nothing else may be there.
    ///
    /// # Errors
    /// Everything that was wrong.
    pub fn done(mut self) -> Result<(), Fault> {
        let left: Vec<String> = self.map.keys().cloned().collect();
        for name in left {
            self.problems.push(format!("at root: unexpected property '{name}'"));
        }
        if self.problems.is_empty() {
            return Ok(());
        }
        let problems = self.problems.join("; ");
        Err(Fault::invalid(format!("invalid {} params: {problems}", self.method)))
    }
}
