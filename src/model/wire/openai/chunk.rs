//! Shapes of a chat completions chunk or body, read without copying where the text allows it.
//! Fields of an unexpected type read as absent: providers differ, and a reply is worth more than
//! a field.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A chunk of a stream, or a whole body.
#[derive(Deserialize, Default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub id: Text<'a>,
    #[serde(borrow, default)]
    pub model: Text<'a>,
    #[serde(borrow, default)]
    pub object: Text<'a>,
    #[serde(borrow, default)]
    pub choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub detail: Option<&'a RawValue>,
}

impl Chunk<'_> {
    /// Whether this is an error in one of the shapes that are about.
    pub fn is_error(&self) -> bool {
        self.error.is_some()
            || self.error_type.is_some()
            || self.error_message.is_some()
            || self.object.as_str() == "error"
            || (self.detail.is_some() && self.choices.is_none())
    }
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub index: Count,
    #[serde(borrow, default)]
    pub delta: Option<Part<'a>>,
    #[serde(borrow, default)]
    pub message: Option<Part<'a>>,
    #[serde(borrow, default)]
    pub finish_reason: Text<'a>,
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// The `delta` of a chunk, or the `message` of a body.
#[derive(Deserialize, Default)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub content: Text<'a>,
    #[serde(borrow, default)]
    pub reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub reasoning_text: Text<'a>,
    #[serde(borrow, default)]
    pub refusal: Text<'a>,
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallPart<'a>>>,
    #[serde(borrow, default)]
    pub function_call: Option<Function<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallPart<'a> {
    #[serde(default)]
    pub index: Count,
    #[serde(borrow, default)]
    pub id: Text<'a>,
    #[serde(borrow, default)]
    pub function: Option<Function<'a>>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

impl<'a> Function<'a> {
    pub fn name(&self) -> Cow<'a, str> {
        self.name
            .and_then(|raw| serde_json::from_str::<Text<'a>>(raw.get()).ok())
            .unwrap_or_default()
            .0
    }

    /// The argument text of this piece: a string's content, or any other JSON as it stands.
    pub fn arguments(&self) -> Cow<'a, str> {
        match self.arguments.map(RawValue::get) {
            None => Cow::Borrowed(""),
            Some(raw) if raw.starts_with('"') => {
                serde_json::from_str::<Text<'a>>(raw).unwrap_or_default().0
            }
            Some(raw) => Cow::Borrowed(raw),
        }
    }
}

#[derive(Deserialize, Default, Clone, Copy, Debug)]
pub(super) struct Usage {
    #[serde(default)]
    pub prompt_tokens: Count,
    #[serde(default)]
    pub completion_tokens: Count,
    #[serde(default)]
    pub total_tokens: Count,
    #[serde(default)]
    pub prompt_tokens_details: Option<Details>,
    #[serde(default)]
    pub prompt_cache_hit_tokens: Count,
    #[serde(default)]
    pub cache_creation_input_tokens: Count,
}

#[derive(Deserialize, Default, Clone, Copy, Debug)]
pub(super) struct Details {
    #[serde(default)]
    pub cached_tokens: Count,
    #[serde(default)]
    pub cache_write_tokens: Count,
}

/// A text; absent, null and other types read as empty. A list of content parts reads as the text
/// of its parts.
#[derive(Default, Clone)]
pub(super) struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
                let mut text = Text::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if key == "text" {
                        text = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(text)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
                let mut all = String::new();
                while let Some(part) = seq.next_element::<Text<'de>>()? {
                    all.push_str(&part.0);
                }
                Ok(Text(Cow::Owned(all)))
            }
        }
        from.deserialize_any(Read)
    }
}

/// A whole number; anything else reads as absent.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Count(pub Option<u64>);

impl Count {
    pub fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count")
            }
            fn visit_u64<E>(self, n: u64) -> Result<Count, E> {
                Ok(Count(Some(n)))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Count, E> {
                let whole = (0.0..1e15).contains(&n) && n.fract() == 0.0;
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Ok(Count(whole.then_some(n as u64)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Count, E> {
                Ok(Count(text.parse().ok()))
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        from.deserialize_any(Read)
    }
}
