//! The names of things: who owns what, which answer belongs to which question.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Arc<str>);

        impl $name {
            /// Wraps a text as this kind of id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// One execution. A client's idempotency key normally becomes the run id (semantics 7.1).
    RunId
}
text_id! {
    /// The durable record of a conversation; survives resets of its key (semantics 7.1).
    SessionId
}
text_id! {
    /// One transcript entry.
    EntryId
}

/// An act the engine asked for. Numbers are never reused inside a run; every answer quotes one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct OpId(pub u32);

/// An accepted user message, unique inside its session while it waits for its place in the
/// transcript.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MsgId(pub u64);

/// The text form of a version 7 UUID from a time and ten bytes of entropy.
#[must_use]
pub fn uuid_v7(at: super::Millis, entropy: [u8; 10]) -> String {
    let mut b = [0u8; 16];
    b[..6].copy_from_slice(&at.0.to_be_bytes()[2..]);
    b[6..].copy_from_slice(&entropy);
    b[6] = (b[6] & 0x0f) | 0x70;
    b[8] = (b[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in b.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Lower-case hexadecimal text of some bytes.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    #[test]
    fn uuid_v7_has_version_variant_and_time() {
        let id = uuid_v7(Millis(0x0123_4567_89ab), [0xff; 10]);
        assert_eq!(id, "01234567-89ab-7fff-bfff-ffffffffffff");
    }
}
