//! Closed schemas of requests (`spec/gateway.md` Y6): a compact notation, read on first use.
//!
//! `name?: T` may be left out; `!name` is known to OpenClaw and not supported here, and is refused
//! by that word. `str(min1,max64)`, `int(>=0,<=9)`, `num`, `bool`, `any`, `null`, literals,
//! `[T](min1,max9)`, `map<str,T>`, `{...}`, `A|B`, `@Name`. An object that ends in `...` is open.

mod check;
mod notation;

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The params of every method that this gateway knows.
const PARAMS: &str = include_str!("params.txt");

/// What a value may be.
#[derive(Clone, PartialEq, Debug)]
enum Type {
    Any,
    Null,
    Bool,
    /// Length bounds, characters.
    Text(Range),
    /// A number, whole or not, with bounds.
    Number {
        whole: bool,
        range: Range,
    },
    Literal(Value),
    List(Box<Type>, Range),
    Map(Box<Type>),
    Object {
        fields: Vec<Field>,
        open: bool,
    },
    Either(Vec<Type>),
    Named(&'static str),
}

/// Bounds; a lower one of 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Range {
    least: u64,
    most: Option<u64>,
}

#[derive(Clone, PartialEq, Debug)]
struct Field {
    name: &'static str,
    needed: bool,
    /// Nothing if it is not supported.
    of: Option<Type>,
}

/// The schemas that were read so far.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    read: BTreeMap<&'static str, Type>,
}

impl Schemas {
    /// Whether a method has a schema.
    pub fn knows(name: &str) -> bool {
        definition(name).is_some()
    }

    /// Every problem of a method's params, in words; empty if they are fine. A method without a
    /// schema takes none.
    pub fn problems(&mut self, method: &str, params: &Map<String, Value>) -> Vec<String> {
        let mut problems = Vec::new();
        match self.named(method) {
            Some(Type::Object { fields, open }) => {
                let (fields, open) = (fields.clone(), *open);
                check::object(self, params, &fields, open, "", &mut problems);
            }
            Some(_) | None => problems.push("at root: no params are known".to_owned()),
        }
        problems
    }

    fn named(&mut self, name: &str) -> Option<&Type> {
        let (name, text) = definition(name)?;
        Some(self.read.entry(name).or_insert_with(|| notation::read(text)))
    }
}

/// Methods that are answered and not offered (protocol 4.0), or that have nothing behind them here.
const HIDDEN: [&str; 19] = [
    "connect",
    "chat.inject",
    "sessions.get",
    "sessions.resolve",
    "sessions.steer",
    "cron.list",
    "cron.status",
    "tasks.list",
    "usage.status",
    "usage.cost",
    "progressCard.get",
    "talk.catalog",
    "taskSuggestions.list",
    "question.list",
    "plugins.controlUi.list",
    "sessions.companion.state",
    "node.list",
    "node.pair.list",
    "update.status",
];

/// The methods that are offered.
pub(super) fn advertised() -> Vec<&'static str> {
    names().into_iter().filter(|name| !HIDDEN.contains(name)).collect()
}

/// The names of all methods with a schema.
pub(super) fn names() -> Vec<&'static str> {
    definitions().map(|(name, _)| name).filter(|name| !name.starts_with('@')).collect()
}

fn definition(name: &str) -> Option<(&'static str, &'static str)> {
    definitions().find(|(of, _)| *of == name)
}

/// A definition begins at the left edge and goes on in indented lines.
fn definitions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut rest = PARAMS;
    std::iter::from_fn(move || {
        let (name, tail) = rest.split_once(" = ")?;
        let mut end = tail.len();
        for (at, _) in tail.match_indices('\n') {
            if !tail[at + 1..].starts_with(' ') {
                end = at;
                break;
            }
        }
        rest = tail[end..].trim_start_matches('\n');
        Some((name, &tail[..end]))
    })
}

#[cfg(test)]
mod tests;
