//! The config's text as a tree, and the places of its values (spec/config.md C1 to C3).
//!
//! The JSON5 parser knows where it stands only while it reads. Values therefore carry no
//! positions; when an error needs one, the text is read again along the value's path, and the
//! parser is made to fail just there.

use super::end;
use json5::ErrorCode;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::fmt;

/// Deepest nesting that is read. The parser itself has no bound and would run out of stack.
const DEPTH_MAX: usize = 64;

/// A value of the config.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "a boolean",
            Node::Number(_) => "a number",
            Node::Text(_) => "a string",
            Node::List(_) => "a list",
            Node::Object(_) => "an object",
        }
    }
}

/// One step from a value to a value inside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Key(String),
    Item(usize),
}

/// A place in the text, both numbers from 1.
pub(super) type Place = (usize, usize);

/// Reads the text.
pub(super) fn parse(text: &str) -> Result<Node, (Place, String)> {
    let mut json = json5::Deserializer::from_str(text);
    let node = Read(0).deserialize(&mut json).map_err(|error| shown(text, &error))?;
    // The crate's own entry point looks for what stands behind the value; so does this.
    json5::from_str::<IgnoredAny>(text).map_err(|error| shown(text, &error))?;
    Ok(node)
}

/// The place of the value at the end of `path`, or of its key.
pub(super) fn place(text: &str, path: &[Step], key: bool) -> Place {
    let mut json = json5::Deserializer::from_str(text);
    match (Find { path, key }).deserialize(&mut json) {
        Err(error) => shown(text, &error).0,
        Ok(()) => (1, 1),
    }
}

fn shown(text: &str, error: &json5::Error) -> (Place, String) {
    let all = error.to_string();
    if error.code().is_some_and(at_the_end) {
        // What the parser gives as the place of such an error, if any, is where a value began.
        return (end::place(text), end::missing(text));
    }
    let Some(at) = error.position() else { return (end::place(text), all) };
    let suffix = format!(" at {at}");
    ((at.line + 1, at.column + 1), all.strip_suffix(suffix.as_str()).unwrap_or(&all).to_owned())
}

fn at_the_end(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::EofParsingArray
            | ErrorCode::EofParsingBool
            | ErrorCode::EofParsingComment
            | ErrorCode::EofParsingEscapeSequence
            | ErrorCode::EofParsingIdentifier
            | ErrorCode::EofParsingNull
            | ErrorCode::EofParsingNumber
            | ErrorCode::EofParsingObject
            | ErrorCode::EofParsingString
            | ErrorCode::EofParsingValue
    )
}

fn too_deep() -> String {
    format!("values are nested more than {DEPTH_MAX} deep")
}

#[derive(Clone, Copy)]
struct Read(usize);

impl<'de> DeserializeSeed<'de> for Read {
    type Value = Node;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        if self.0 > DEPTH_MAX {
            return Err(D::Error::custom(too_deep()));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read {
    type Value = Node;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }
    #[allow(clippy::cast_precision_loss)]
    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value as f64))
    }
    #[allow(clippy::cast_precision_loss)]
    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value as f64))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element_seed(Read(self.0 + 1))? {
            list.push(node);
        }
        Ok(Node::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields: Vec<(String, Node)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = map.next_key_seed(Key(&seen))? {
            seen.insert(key.clone());
            fields.push((key, map.next_value_seed(Read(self.0 + 1))?));
        }
        Ok(Node::Object(fields))
    }
}

/// A key that must not have been seen before; an error inside the key carries its position.
struct Key<'s>(&'s std::collections::BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        match self.0.contains(key) {
            true => Err(E::custom(format!("the key {key:?} stands here a second time"))),
            false => Ok(key.to_owned()),
        }
    }
}

/// Walks along a path and fails at its end, which makes the parser say where that is.
#[derive(Clone, Copy)]
struct Find<'p> {
    path: &'p [Step],
    key: bool,
}

/// The message of that failure; nobody sees it.
const HERE: &str = "here";

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HERE)
    }
    // Scalars are refused by the default methods: that is a failure at their place too.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((Step::Item(wanted), rest)) = self.path.split_first() else {
            return Err(A::Error::custom(HERE));
        };
        for _ in 0..*wanted {
            seq.next_element::<IgnoredAny>()?;
        }
        seq.next_element_seed(Find { path: rest, key: self.key })?;
        Err(A::Error::custom(HERE))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(wanted), rest)) = self.path.split_first() else {
            return Err(A::Error::custom(HERE));
        };
        let fail = self.key && rest.is_empty();
        while let Some(found) = map.next_key_seed(FindKey { wanted, fail })? {
            if found {
                map.next_value_seed(Find { path: rest, key: self.key })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Err(A::Error::custom(HERE))
    }
}

struct FindKey<'p> {
    wanted: &'p str,
    fail: bool,
}

impl<'de> DeserializeSeed<'de> for FindKey<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for FindKey<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        match key == self.wanted {
            true if self.fail => Err(E::custom(HERE)),
            found => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{\n  // note\n  a: { b: [1, 'two', null] },\n  'c': true,\n}\n";

    fn key(name: &str) -> Step {
        Step::Key(name.to_owned())
    }

    /// C2: every kind of value, and every key, can be found again.
    #[test]
    fn places_are_lines_and_columns_from_one() {
        let b = [key("a"), key("b")];
        let item = |n| [key("a"), key("b"), Step::Item(n)];
        assert_eq!(place(TEXT, &[], false), (1, 1));
        assert_eq!(place(TEXT, &[key("a")], true), (3, 3));
        assert_eq!(place(TEXT, &[key("a")], false), (3, 6));
        assert_eq!(place(TEXT, &b, true), (3, 8));
        assert_eq!(place(TEXT, &b, false), (3, 11));
        assert_eq!(place(TEXT, &item(0), false), (3, 12));
        assert_eq!(place(TEXT, &item(1), false), (3, 15));
        assert_eq!(place(TEXT, &item(2), false), (3, 22));
        assert_eq!(place(TEXT, &[key("c")], false), (4, 8));
    }

    /// C1, C3: syntax errors, second keys, deep nesting and trailing text have places.
    #[test]
    fn bad_texts_are_refused_with_a_place() {
        let place = |text: &str| parse(text).unwrap_err();
        assert_eq!(place("{\n a: 1\n b: 2 }").0, (3, 2));
        let (at, message) = place("{\n a: 1,\n a: 2 }");
        assert_eq!(at, (3, 2), "{message}");
        assert!(message.contains("second time"), "{message}");
        assert_eq!(place("{} x").0.0, 1);
        assert!(place(&"[".repeat(100)).1.contains("nested"));
        assert!(place(&"[".repeat(100_000)).1.contains("nested"));
        assert_eq!(place("").0, (1, 1));
        let (at, message) = place("{\n a: { b: [1,\n");
        assert_eq!(at, (2, 13));
        assert!(message.contains("the [ of line 2, column 10 has no ]"), "{message}");
        assert!(place("{ a: 'x").1.contains("the text of line 1, column 6 has no '"));
        assert!(place("{ a: tru").1.contains("the { of line 1, column 1 has no }"));
    }
}
