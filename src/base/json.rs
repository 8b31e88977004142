//! JSON helpers: canonical text, tolerant reading.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// Canonical text of a value: keys sorted, no blanks. `serde_json`'s map is ordered by key as
/// long as its `preserve_order` feature is off, which a test holds.
#[must_use]
pub fn canonical(value: &Value) -> String {
    value.to_string()
}

/// What [`tolerant`] read, and whether something had to be replaced to read it.
#[derive(Debug)]
pub struct Tolerant<T> {
    /// The value.
    pub value: T,
    /// Lone surrogate escapes that were replaced by U+FFFD.
    pub replaced: usize,
}

/// Reads JSON whose strings may hold lone surrogate escapes, as a peer that counts UTF-16 units
/// can write them when it cuts a text; each is replaced by U+FFFD and counted.
///
/// # Errors
/// The parser's error when the text is not JSON for other reasons.
pub fn tolerant<T: DeserializeOwned>(text: &str) -> Result<Tolerant<T>, serde_json::Error> {
    let (fixed, replaced) = mend_surrogates(text);
    Ok(Tolerant { value: serde_json::from_str(&fixed)?, replaced })
}

/// Replaces lone `\uD800`-`\uDFFF` escapes inside JSON text by `\ufffd`.
fn mend_surrogates(text: &str) -> (Cow<'_, str>, usize) {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return (Cow::Borrowed(text), 0);
    }
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied, mut replaced) = (0, 0, 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let Some(unit) = unit_at(bytes, at) else {
            at += 2;
            continue;
        };
        let high = (0xd800..0xdc00).contains(&unit);
        let paired = high && unit_at(bytes, at + 6).is_some_and(|u| (0xdc00..0xe000).contains(&u));
        if paired {
            at += 12;
            continue;
        }
        if high || (0xdc00..0xe000).contains(&unit) {
            out.push_str(&text[copied..at]);
            out.push_str("\\ufffd");
            copied = at + 6;
            replaced += 1;
        }
        at += 6;
    }
    out.push_str(&text[copied..]);
    (Cow::Owned(out), replaced)
}

/// The UTF-16 unit of a `\uXXXX` escape that starts at `at`, if one does.
fn unit_at(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" {
        return None;
    }
    escape[2..].iter().try_fold(0u32, |unit, b| Some(unit * 16 + char::from(*b).to_digit(16)?))
}

/// The first eight bytes of a text's SHA-256 as a number: what the loop detector compares.
#[must_use]
pub fn hash64(text: &str) -> u64 {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref()[..8].iter().fold(0, |n, b| (n << 8) | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted() {
        let value: Value = serde_json::from_str(r#"{"b":1,"a":{"d":2,"c":3}}"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":{"c":3,"d":2},"b":1}"#);
    }

    /// B200: a lone surrogate must not make a stored line unreadable.
    #[test]
    fn b200_lone_surrogates_are_replaced_and_counted() {
        let read = tolerant::<Value>(r#"{"text":"ok \ud83d\u2026 \udc00 \ud83d\ude00 \\ud83d"}"#);
        let read = read.unwrap();
        assert_eq!(read.replaced, 2);
        let text = read.value["text"].as_str().unwrap();
        assert_eq!(text, "ok \u{fffd}\u{2026} \u{fffd} \u{1f600} \\ud83d");
    }
}
