//! What is remembered of a prompt that was sent: enough to say later which part of it has changed,
//! and none of its words (PR14).

use super::Prompt;
use crate::base::Digest;
use serde::{Deserialize, Serialize};

/// Hexadecimal digits that are kept of a layer's digest.
const DIGITS: usize = 12;

/// A prompt that was sent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Outline {
    /// The key of its prefix.
    pub key: String,
    /// Its layers in order: name, digest, characters.
    pub layers: Vec<(String, String, usize)>,
}

impl Outline {
    /// Of a prompt.
    #[must_use]
    pub fn of(prompt: &Prompt) -> Outline {
        let layer = |name: &str, text: &str| {
            let mut digest = Digest::new().part(text).hex();
            digest.truncate(DIGITS);
            (name.to_owned(), digest, text.chars().count())
        };
        Outline {
            key: prompt.stable.key.to_string(),
            layers: prompt.each().map(|(of, text, _)| layer(&of.name, text)).collect(),
        }
    }
}

/// How a layer of one prompt differs from the same layer of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is new, with so many characters.
    Added(String, usize),
    /// It has gone, with so many characters.
    Removed(String, usize),
    /// It is another text: so many characters before, so many now.
    Changed(String, usize, usize),
}

/// What is different in `new`, in its order; what has gone stands at the end.
#[must_use]
pub fn diff(old: &Outline, new: &Outline) -> Vec<Change> {
    let find = |record: &'_ Outline, name: &str| {
        record.layers.iter().find(|(of, ..)| of == name).map(|(_, d, n)| (d.clone(), *n))
    };
    let mut changes = Vec::new();
    for (name, digest, chars) in &new.layers {
        match find(old, name) {
            None => changes.push(Change::Added(name.clone(), *chars)),
            Some((was, before)) if was != *digest => {
                changes.push(Change::Changed(name.clone(), before, *chars));
            }
            Some(_) => {}
        }
    }
    for (name, _, chars) in &old.layers {
        if find(new, name).is_none() {
            changes.push(Change::Removed(name.clone(), *chars));
        }
    }
    changes
}
