//! Changes of the stored config: merging, secrets that were shown as a mark and come back as one,
//! and what differs. Pure; whoever has the file reads and writes it (C12 to C15).

use super::read::{Env, shown};
use super::table::{self, Changed, Kind};
use super::tree::{self, Node, Step};
use super::{Config, ConfigError, parse};
use serde_json::Value;

/// What stands for a credential that is not shown, as OpenClaw's clients know it.
pub const REDACTED: &str = "__OPENCLAW_REDACTED__";

/// What is to become of the config.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// It is to be this text.
    Text(String),
    /// This is merged into it.
    Patch {
        /// An object, in JSON5. `null` takes a key away. Items with an `id` are merged into those
        /// of the same one; other lists take the place of what was there.
        patch: String,
        /// Paths at which nothing is merged: what the patch has there takes the place.
        replace: Vec<String>,
    },
}

/// The config as it will be.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Its text, with its secrets.
    pub text: String,
    /// What it means.
    pub config: Config,
}

/// Why a change cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// The config would be wrong.
    #[error("invalid config: {0}")]
    Config(ConfigError),
    /// What is stored is wrong, so that nothing can be merged into it.
    #[error("the stored config is invalid; fix it before patching: {0}")]
    Stored(ConfigError),
    /// The patch cannot be read.
    #[error("invalid patch: {0}")]
    Patch(String),
    /// A mark for a secret stands where none is stored.
    #[error("{0}: the mark {REDACTED} stands for no stored value")]
    Mark(String),
}

/// The config as it may be shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Its text, marks in place of secrets.
    pub text: String,
    /// What it says, marks in place of secrets.
    pub source: Value,
}

/// Makes a change of the stored text.
///
/// # Errors
/// [`ChangeError`]; nothing has changed then.
pub fn change(stored: &str, wanted: &Wanted, env: Env<'_>) -> Result<Change, ChangeError> {
    let before = parsed(stored);
    let text = match wanted {
        Wanted::Text(text) => {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            match parsed(text) {
                Ok(after) => restored_text(text, &after, before.as_ref().ok())?,
                // The reader says what is wrong, and where.
                Err(_) => text.to_owned(),
            }
        }
        Wanted::Patch { patch, replace } => {
            let before = before.map_err(ChangeError::Stored)?;
            let patch = parsed(patch).map_err(|error| ChangeError::Patch(error.to_string()))?;
            if !matches!(patch, Node::Object(_)) {
                let words = format!("expected an object, found {}", patch.kind());
                return Err(ChangeError::Patch(words));
            }
            let mut path = vec![];
            let mut after = merged(Some(before.clone()), patch, replace, &mut path);
            restore(&mut after, &before)?;
            if after == before { stored.to_owned() } else { printed(&after) }
        }
    };
    if text.contains(REDACTED) {
        return Err(ChangeError::Mark("the config".to_owned()));
    }
    let config = parse(&text, env).map_err(ChangeError::Config)?;
    Ok(Change { text, config })
}

/// What differs between two texts.
#[must_use]
pub fn changed(before: &str, after: &str) -> Vec<Changed> {
    let (before, after) = (parsed(before).ok(), parsed(after).ok());
    let mut out = Vec::new();
    table::differences(before.as_ref(), after.as_ref(), &mut vec![], &mut out);
    out
}

/// The text as it may be shown; nothing if it cannot be read.
#[must_use]
pub fn seen(text: &str) -> Option<Seen> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let node = parsed(text).ok()?;
    let mut places = Vec::new();
    secrets(&node, &mut vec![], &mut places);
    let mut hidden = node.clone();
    for path in &places {
        if let Some(at) = at(&mut hidden, path) {
            *at = Node::Text(REDACTED.to_owned());
        }
    }
    let texts = places.into_iter().map(|path| (path, REDACTED.to_owned())).collect();
    Some(Seen { text: rewritten(text, texts, &hidden), source: value(&hidden) })
}

/// A patch that sets one key, or takes it away, and the path at which it takes the place of what
/// was there. A text that is no value in itself is a string, and so is every text for a key that
/// holds one.
///
/// # Errors
/// In words, when there is no such key.
pub fn setting(key: &str, value: Option<&str>) -> Result<Wanted, String> {
    let path = table::path_of(key);
    let keys: Vec<&str> = path
        .iter()
        .map(|step| match step {
            Step::Key(key) => Ok(key.as_str()),
            Step::Item(_) => Err(format!("{key}: an item is set with its whole list")),
        })
        .collect::<Result<_, _>>()?;
    if keys.is_empty() {
        return Err("there is no key without a name".to_owned());
    }
    let kind = table::find(&path).map(|row| row.kind);
    let quoted = |text: &str| Value::from(text).to_string();
    let value = match value {
        None => "null".to_owned(),
        Some(text) => {
            let plain = matches!(kind, Some(Kind::Text | Kind::Address | Kind::Word(_)));
            let object = text.trim_start().starts_with('{');
            let text_kind = matches!(kind, Some(Kind::Secret | Kind::Model)) && !object;
            match parsed(text) {
                Ok(node) if !plain && !text_kind && node != Node::Null => text.to_owned(),
                _ => quoted(text),
            }
        }
    };
    let nested =
        keys.iter().rev().fold(value, |value, key| format!("{{{}: {value}}}", quoted(key)));
    Ok(Wanted::Patch { patch: nested, replace: vec![shown(&path)] })
}

fn parsed(text: &str) -> Result<Node, ConfigError> {
    tree::parse(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(
        |((line, column), message)| ConfigError {
            file: None,
            line,
            column,
            path: String::new(),
            message,
        },
    )
}

/// A patch goes into a value.
fn merged(base: Option<Node>, patch: Node, replace: &[String], path: &mut Vec<Step>) -> Node {
    if !path.is_empty() && replace.contains(&shown(path)) {
        return without_nulls(patch);
    }
    match (base, patch) {
        (Some(Node::Object(mut fields)), Node::Object(patch)) => {
            for (key, patch) in patch {
                let found = fields.iter().position(|(name, _)| *name == key);
                if patch == Node::Null {
                    fields.retain(|(name, _)| *name != key);
                    continue;
                }
                path.push(Step::Key(key.clone()));
                let base = found.and_then(|n| fields.get(n)).map(|(_, node)| node.clone());
                let node = merged(base, patch, replace, path);
                path.pop();
                match found.and_then(|n| fields.get_mut(n)) {
                    Some(field) => field.1 = node,
                    None => fields.push((key, node)),
                }
            }
            Node::Object(fields)
        }
        (Some(Node::List(items)), Node::List(patch))
            if !items.is_empty() && items.iter().all(|item| id(item).is_some()) =>
        {
            Node::List(by_id(items, patch, replace, path))
        }
        (_, patch) => without_nulls(patch),
    }
}

fn by_id(
    mut items: Vec<Node>,
    patch: Vec<Node>,
    replace: &[String],
    path: &mut Vec<Step>,
) -> Vec<Node> {
    for patch in patch {
        let same = |item: &Node| id(item).is_some() && id(item) == id(&patch);
        match items.iter().position(same) {
            Some(n) => {
                path.push(Step::Item(n));
                let item = merged(items.get(n).cloned(), patch, replace, path);
                path.pop();
                if let Some(slot) = items.get_mut(n) {
                    *slot = item;
                }
            }
            None => items.push(without_nulls(patch)),
        }
    }
    items
}

fn id(node: &Node) -> Option<&str> {
    let Node::Object(fields) = node else { return None };
    fields.iter().find_map(|(name, node)| match node {
        Node::Text(text) if name == "id" => Some(text.as_str()),
        _ => None,
    })
}

fn without_nulls(node: Node) -> Node {
    match node {
        Node::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, node)| *node != Node::Null);
            Node::Object(kept.map(|(key, node)| (key, without_nulls(node))).collect())
        }
        node => node,
    }
}

/// The paths of values that are not shown.
fn secrets(node: &Node, path: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    match node {
        Node::Text(text) => {
            if table::find(path).is_some_and(|row| table::hides(&row, text)) {
                out.push(path.clone());
            }
        }
        Node::Object(_) | Node::List(_) => {
            each(node, path, &mut |node, path| secrets(node, path, out));
        }
        Node::Null | Node::Bool(_) | Node::Number(_) => {}
    }
}

/// The paths of marks.
fn marks(node: &Node, path: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    if *node == Node::Text(REDACTED.to_owned()) {
        out.push(path.clone());
    }
    each(node, path, &mut |node, path| marks(node, path, out));
}

fn each(node: &Node, path: &mut Vec<Step>, visit: &mut dyn FnMut(&Node, &mut Vec<Step>)) {
    let steps: Vec<(Step, &Node)> = match node {
        Node::Object(fields) => {
            fields.iter().map(|(key, node)| (Step::Key(key.clone()), node)).collect()
        }
        Node::List(items) => items.iter().enumerate().map(|(n, i)| (Step::Item(n), i)).collect(),
        _ => vec![],
    };
    for (step, node) in steps {
        path.push(step);
        visit(node, path);
        path.pop();
    }
}

fn at<'n>(node: &'n mut Node, path: &[Step]) -> Option<&'n mut Node> {
    let Some((step, rest)) = path.split_first() else { return Some(node) };
    match (node, step) {
        (Node::Object(fields), Step::Key(key)) => {
            let (_, node) = fields.iter_mut().find(|(name, _)| name == key)?;
            at(node, rest)
        }
        (Node::List(items), Step::Item(n)) => at(items.get_mut(*n)?, rest),
        (_, _) => None,
    }
}

/// Marks become the values that they stand for.
fn restore(node: &mut Node, stored: &Node) -> Result<Vec<(Vec<Step>, String)>, ChangeError> {
    let mut paths = Vec::new();
    marks(node, &mut vec![], &mut paths);
    let mut stored = stored.clone();
    let mut texts = Vec::new();
    for path in paths {
        let value = match at(&mut stored, &path) {
            Some(Node::Text(text)) if text != REDACTED => text.clone(),
            _ => return Err(ChangeError::Mark(shown(&path))),
        };
        if let Some(at) = at(node, &path) {
            *at = Node::Text(value.clone());
        }
        texts.push((path, value));
    }
    Ok(texts)
}

fn restored_text(text: &str, after: &Node, stored: Option<&Node>) -> Result<String, ChangeError> {
    let mut whole = after.clone();
    let nothing = Node::Object(vec![]);
    let texts = restore(&mut whole, stored.unwrap_or(&nothing))?;
    Ok(if texts.is_empty() { text.to_owned() } else { rewritten(text, texts, &whole) })
}

/// The text with other strings at these paths, and everything else as it was written; where that
/// cannot be done, the value printed anew.
fn rewritten(text: &str, texts: Vec<(Vec<Step>, String)>, wanted: &Node) -> String {
    let mut spans = Vec::new();
    for (path, new) in texts {
        let Some(from) = offset(text, tree::place(text, &path, false)) else {
            return printed(wanted);
        };
        let Some(length) = literal(&text[from..]) else { return printed(wanted) };
        spans.push((from, length, Value::from(new).to_string()));
    }
    spans.sort_unstable();
    let mut out = text.to_owned();
    for (from, length, new) in spans.into_iter().rev() {
        out.replace_range(from..from + length, &new);
    }
    match parsed(&out) {
        Ok(node) if node == *wanted => out,
        _ => printed(wanted),
    }
}

/// Where a place is, in bytes.
fn offset(text: &str, (line, column): tree::Place) -> Option<usize> {
    let mut at = 0;
    for _ in 1..line {
        at += text[at..].find('\n')? + 1;
    }
    let (offset, _) = text[at..].char_indices().nth(column.checked_sub(1)?)?;
    Some(at + offset)
}

/// How long the string is that begins here, in bytes.
fn literal(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A tree as JSON, in its order.
fn printed(node: &Node) -> String {
    let mut out = String::new();
    print(node, 0, &mut out);
    out.push('\n');
    out
}

fn print(node: &Node, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match node {
        Node::Null => out.push_str("null"),
        Node::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Node::Number(number) => out.push_str(&number_text(*number)),
        Node::Text(text) => out.push_str(&Value::from(text.as_str()).to_string()),
        Node::List(items) if items.is_empty() => out.push_str("[]"),
        Node::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Node::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                line(out, depth + 1);
                print(item, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        Node::Object(fields) => {
            out.push('{');
            for (n, (key, node)) in fields.iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                line(out, depth + 1);
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                print(node, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
    }
}

/// JSON5 has numbers that JSON has not; they are written by its words.
fn number_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        number.to_string()
    }
}

fn value(node: &Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(flag) => (*flag).into(),
        Node::Number(number) => {
            // A whole number is shown as one.
            serde_json::from_str(&number_text(*number)).unwrap_or(Value::Null)
        }
        Node::Text(text) => text.as_str().into(),
        Node::List(items) => items.iter().map(value).collect(),
        Node::Object(fields) => {
            Value::Object(fields.iter().map(|(key, node)| (key.clone(), value(node))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
