//! Arguments of a finished tool call (semantics 3.3): read, mend, or refuse.

use super::excerpt;
use crate::base::json;
use serde_json::{Map, Value};

/// Most characters of an argument text that an error shows.
const EXCERPT_CHARS_MAX: usize = 400;

/// What an argument text turned out to be.
#[derive(Clone, PartialEq, Debug)]
pub enum Args {
    /// An object; blank text means the empty one.
    Object(Map<String, Value>),
    /// JSON, but no object: a fault of this one call, told to the model.
    NotObject(String),
    /// No JSON, also after the repair of string literals.
    Broken(String),
}

/// Reads an argument text.
#[must_use]
pub fn read(text: &str) -> Args {
    if text.trim().is_empty() {
        return Args::Object(Map::new());
    }
    let value = match json::tolerant::<Value>(text) {
        Ok(read) => read.value,
        Err(error) => match json::tolerant::<Value>(&mend(text)) {
            Ok(read) => read.value,
            Err(_) => return Args::Broken(broken(text, &error)),
        },
    };
    match value {
        Value::Object(map) => Args::Object(map),
        other => Args::NotObject(format!(
            "Tool arguments must be a JSON object, but they are {}: {}",
            kind(&other),
            excerpt(text, EXCERPT_CHARS_MAX)
        )),
    }
}

fn broken(text: &str, error: &serde_json::Error) -> String {
    format!("Tool arguments are not valid JSON ({error}): {}", excerpt(text, EXCERPT_CHARS_MAX))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Repairs what models get wrong inside string literals: raw control characters and backslashes
/// that begin no escape. Nothing outside of literals is touched: guessing structure would run a
/// tool with arguments that nobody wrote.
fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut inside = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                inside = !inside;
                out.push(c);
            }
            '\\' if inside => {
                let rest = &text[at + 1..];
                if escapes(rest) {
                    out.push(c);
                    if let Some((_, next)) = chars.next() {
                        out.push(next);
                    }
                } else {
                    out.push_str("\\\\");
                }
            }
            c if inside && (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// Whether these characters, behind a backslash, make an escape that JSON knows.
fn escapes(rest: &str) -> bool {
    match rest.as_bytes().first() {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => true,
        Some(b'u') => {
            rest.as_bytes().get(1..5).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(text: &str) -> Value {
        match read(text) {
            Args::Object(map) => Value::Object(map),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// M9, B110: nothing at all means no arguments.
    #[test]
    fn b110_blank_is_the_empty_object() {
        for text in ["", "   ", "\n"] {
            assert_eq!(object(text), json!({}));
        }
    }

    /// M9, B114: raw line feeds and unknown escapes inside strings are mended.
    #[test]
    fn b114_string_literals_are_mended() {
        let read = object("{\"old\":\"a\nb\",\"new\":\"\\U0001F600 \\u12 \\n\"}");
        assert_eq!(read, json!({"old": "a\nb", "new": "\\U0001F600 \\u12 \n"}));
    }

    /// M9, B115: JSON that is no object is told to the model in a short text.
    #[test]
    fn b115_other_json_is_named_and_short() {
        for (text, name) in [
            ("null", "null"),
            ("[]", "an array"),
            ("\"x\"", "a string"),
            ("5", "a number"),
            ("true", "a boolean"),
        ] {
            match read(text) {
                Args::NotObject(message) => assert!(message.contains(name), "{message}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        match read(&format!("{{\"a\": {}", "x".repeat(2_000_000))) {
            Args::Broken(message) => {
                assert!(message.len() < 1_000);
                assert!(message.contains("2000006 bytes"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// M9: structure is never guessed.
    #[test]
    fn cut_objects_are_broken() {
        for text in ["{\"a\":1", "{bad", "{\"a\":\"x", "{\"a\":1}}", "{a:1}"] {
            assert!(matches!(read(text), Args::Broken(_)), "{text}");
        }
    }
}
