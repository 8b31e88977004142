//! Texts that must not be shown, and texts whose value stands in the environment.

use serde::{Serialize, Serializer};
use std::fmt;

/// A credential. It shows itself as `[redacted]` everywhere; [`Secret::expose`] is the one way to
/// its text.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("[redacted]")
    }
}

/// A variable that a setting needs and the environment lacks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: the environment variable {name} is not set")]
pub struct MissingVar {
    /// The variable.
    pub name: String,
    /// The setting's path in the config.
    pub path: String,
}

/// A setting that may need the environment. A missing variable is an error only for whoever uses
/// the setting: a config may name providers whose keys this machine does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deferred(Result<Secret, MissingVar>);

impl Deferred {
    /// A setting with a value.
    pub fn ready(text: impl Into<String>) -> Deferred {
        Deferred(Ok(Secret::new(text)))
    }

    /// The value of a text that may hold `${NAME}` references; `$${NAME}` stands for itself.
    #[must_use]
    pub fn expand(text: &str, path: &str, env: &dyn Fn(&str) -> Option<String>) -> Deferred {
        Deferred(expand(text, env).map(Secret::new).map_err(|name| {
            let path = path.to_owned();
            MissingVar { name, path }
        }))
    }

    /// The value of one variable.
    #[must_use]
    pub fn variable(name: &str, path: &str, env: &dyn Fn(&str) -> Option<String>) -> Deferred {
        Deferred(match env(name).filter(|value| !value.is_empty()) {
            Some(value) => Ok(Secret::new(value)),
            None => Err(MissingVar { name: name.to_owned(), path: path.to_owned() }),
        })
    }

    /// The value.
    ///
    /// # Errors
    /// [`MissingVar`] when the environment lacks a variable that it needs.
    pub fn get(&self) -> Result<&Secret, MissingVar> {
        self.0.as_ref().map_err(MissingVar::clone)
    }
}

/// Replaces `${NAME}` by the variable's value; the error is the name of a missing variable. An
/// empty variable counts as missing, because an empty key is never meant.
pub(super) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let name = from[2..].split('}').next().filter(|name| is_name(name));
        let Some(name) = name.filter(|name| from[2 + name.len()..].starts_with('}')) else {
            out.push_str(before);
            out.push_str("${");
            rest = &from[2..];
            continue;
        };
        rest = &from[name.len() + 3..];
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str(&from[..name.len() + 3]);
            continue;
        }
        out.push_str(before);
        match env(name).filter(|value| !value.is_empty()) {
            Some(value) => out.push_str(&value),
            None => return Err(name.to_owned()),
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Whether this is a variable's name as references know it.
pub(super) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("sk-1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    /// C8: references, escapes, and what only looks like one.
    #[test]
    fn references_are_replaced() {
        let cases = [
            ("${KEY}", Ok("sk-1")),
            ("a ${KEY} b ${KEY}", Ok("a sk-1 b sk-1")),
            ("$${KEY}", Ok("${KEY}")),
            ("${key} $KEY ${", Ok("${key} $KEY ${")),
            ("${KEY", Ok("${KEY")),
            ("${NONE}", Err("NONE")),
            ("${EMPTY}", Err("EMPTY")),
        ];
        for (text, want) in cases {
            let got = expand(text, &env);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        }
    }

    /// C9: no way of printing shows a secret.
    #[test]
    fn secrets_do_not_show() {
        let secret = Secret::new("sk-1");
        let json = serde_json::to_string(&secret).unwrap();
        let all = format!("{secret} {secret:?} {json} {:?}", Deferred::ready("sk-1"));
        assert!(!all.contains("sk-1"), "{all}");
    }
}
