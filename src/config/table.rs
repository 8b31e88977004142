//! The table of all keys that are read (`keys.txt`): what each one is, what holds without it, and
//! when a change of it takes effect. The reader's hints, the schema that clients are shown, and
//! what a running gateway does about a change all come from it; a key that is not in it is refused
//! (C11).

use super::tree::{Node, Step};
use serde_json::Value;

const TEXT: &str = include_str!("keys.txt");

/// When a change takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// At once, for what begins after it.
    Hot,
    /// With the next start.
    Restart,
    /// It has no effect of its own.
    None,
}

impl Reload {
    /// As clients are told.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Reload::Hot => "hot",
            Reload::Restart => "restart",
            Reload::None => "none",
        }
    }
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Keys of the table.
    Object,
    /// Keys of one's own.
    Record,
    List,
    Text,
    /// A text that may hold a password.
    Address,
    /// A credential: a text, or a reference to the environment.
    Secret,
    Flag,
    Whole(u64, Option<u64>),
    /// One of these, with commas between.
    Word(&'static str),
    /// A model's name, or an object with one.
    Model,
    /// Whatever it is.
    Any,
}

/// One key.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its path; `*` is a key of one's own, `[]` an item.
    pub path: &'static str,
    pub kind: Kind,
    pub needed: bool,
    pub default: Option<Value>,
    pub reload: Reload,
    pub help: &'static str,
}

/// All rows, parents before their children.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    TEXT.lines().filter_map(row)
}

fn row(line: &'static str) -> Option<Row> {
    let mut cells = line.splitn(5, " | ");
    let (path, kind, default) = (cells.next()?, cells.next()?, cells.next()?);
    let (reload, help) = (cells.next()?, cells.next()?);
    let (kind, needed) = match kind.strip_suffix('!') {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let reload = match reload {
        "hot" => Reload::Hot,
        "restart" => Reload::Restart,
        _ => Reload::None,
    };
    Some(Row {
        path,
        kind: self::kind(kind),
        needed,
        default: serde_json::from_str(default).ok(),
        reload,
        help,
    })
}

fn kind(text: &'static str) -> Kind {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "object" => Kind::Object,
        "record" => Kind::Record,
        "list" => Kind::List,
        "text" => Kind::Text,
        "address" => Kind::Address,
        "secret" => Kind::Secret,
        "flag" => Kind::Flag,
        "int" => {
            let (least, most) = rest.split_once("..").unwrap_or((rest, ""));
            Kind::Whole(least.parse().unwrap_or(0), most.parse().ok())
        }
        "word" => Kind::Word(rest),
        "model" => Kind::Model,
        _ => Kind::Any,
    }
}

/// The steps of a path of the table.
pub(super) fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.')
        .flat_map(|part| match part.strip_suffix("[]") {
            Some(part) => [Some(part), Some("[]")],
            None => [Some(part), None],
        })
        .flatten()
}

/// The row of a value.
pub(super) fn find(path: &[Step]) -> Option<Row> {
    rows().find(|row| fits(row, path))
}

fn fits(row: &Row, path: &[Step]) -> bool {
    let mut steps = steps(row.path);
    let all = path.iter().all(|step| match (steps.next(), step) {
        (Some("[]"), Step::Item(_)) | (Some("*"), Step::Key(_)) => true,
        (Some(name), Step::Key(key)) => name == key,
        (_, _) => false,
    });
    all && steps.next().is_none()
}

/// The names of an object's keys; none where they are one's own.
pub(super) fn names(object: &[Step]) -> Vec<&'static str> {
    let prefix = match find(object) {
        Some(row) if row.kind == Kind::Secret => return vec!["source", "id"],
        Some(row) => format!("{}.", row.path),
        None if object.is_empty() => String::new(),
        None => return vec![],
    };
    let name = |row: Row| row.path.strip_prefix(prefix.as_str());
    let own = |name: &&str| !name.contains(['.', '[', '*']);
    rows().filter_map(name).filter(own).collect()
}

/// Whether a value may be shown: what is no credential.
pub(super) fn hides(row: &Row, text: &str) -> bool {
    match row.kind {
        // A reference says only where the secret is.
        Kind::Secret => !is_reference(text),
        Kind::Address => {
            let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
            let server = rest.split(['/', '?', '#']).next().unwrap_or_default();
            server.contains('@') || rest.contains(['?', '#'])
        }
        _ => false,
    }
}

fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(super::secret::is_name)
}

/// The first key of a config that the table lacks.
pub(super) fn stranger(node: &Node, path: &mut Vec<Step>) -> Option<Vec<Step>> {
    let (row, root) = (find(path), path.is_empty());
    match (node, row.map(|row| row.kind)) {
        (_, None) if !root => Some(path.clone()),
        // What is inside was read by its reader alone.
        (_, Some(Kind::Any | Kind::Secret)) => None,
        (Node::Object(fields), _) => fields.iter().find_map(|(key, node)| {
            path.push(Step::Key(key.clone()));
            let found = stranger(node, path);
            path.pop();
            found
        }),
        (Node::List(items), _) => items.iter().enumerate().find_map(|(n, node)| {
            path.push(Step::Item(n));
            let found = stranger(node, path);
            path.pop();
            found
        }),
        (_, _) => None,
    }
}

/// Something that differs between two configs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The path of the key.
    pub path: String,
    /// When that takes effect.
    pub reload: Reload,
}

/// What differs, key by key; lists are compared as a whole.
pub(super) fn differences(
    before: Option<&Node>,
    after: Option<&Node>,
    path: &mut Vec<Step>,
    out: &mut Vec<Changed>,
) {
    if before == after {
        return;
    }
    let fields = |node: Option<&Node>| match node {
        Some(Node::Object(fields)) => fields.iter().map(|(key, _)| key.clone()).collect(),
        _ => vec![],
    };
    let opaque = find(path).is_some_and(|row| matches!(row.kind, Kind::Secret | Kind::Any));
    let object = |node: Option<&Node>| matches!(node, None | Some(Node::Object(_)));
    let mut keys: Vec<String> = fields(before);
    keys.extend(fields(after).into_iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>());
    if opaque || keys.is_empty() || !object(before) || !object(after) {
        let reload = find(path).map_or(Reload::Restart, |row| row.reload);
        return out.push(Changed { path: super::read::shown(path), reload });
    }
    let field = |node: Option<&'_ Node>, key: &str| match node {
        Some(Node::Object(fields)) => {
            fields.iter().find(|(name, _)| name == key).map(|(_, node)| node.clone())
        }
        _ => None,
    };
    for key in keys {
        let (one, other) = (field(before, &key), field(after, &key));
        path.push(Step::Key(key));
        differences(one.as_ref(), other.as_ref(), path, out);
        path.pop();
    }
}

/// The steps of a path as people write it: `a.b[0]`, `a.b[].c`, `a.b.0`.
pub(super) fn path_of(text: &str) -> Vec<Step> {
    let mut path: Vec<Step> = Vec::new();
    for part in text.split(['.', '/']).filter(|part| !part.is_empty()) {
        let (name, items) = part.split_once('[').map_or((part, None), |(n, i)| (n, Some(i)));
        let list = find(&path).is_some_and(|row| row.kind == Kind::List);
        match name.parse::<usize>() {
            Ok(at) if list => path.push(Step::Item(at)),
            _ if name == "*" && list => path.push(Step::Item(0)),
            _ if name.is_empty() => {}
            _ => path.push(Step::Key(name.to_owned())),
        }
        for item in items.into_iter().flat_map(|items| items.split('[')) {
            path.push(Step::Item(item.trim_end_matches(']').parse().unwrap_or(0)));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, parse, show};

    fn sample(row: &Row) -> String {
        if let Some(default) = &row.default {
            return default.to_string();
        }
        match row.kind {
            Kind::Object | Kind::Record | Kind::Any => "{}".into(),
            Kind::List => "[]".into(),
            Kind::Text if row.path.ends_with("customBindHost") => "'127.0.0.1'".into(),
            Kind::Text | Kind::Model if row.path.contains("model") => "'offline/scripted'".into(),
            Kind::Text | Kind::Secret | Kind::Model => "'text'".into(),
            Kind::Address => "'http://h'".into(),
            Kind::Flag => "true".into(),
            Kind::Whole(least, _) => (least + 1).to_string(),
            Kind::Word(words) => format!("'{}'", words.split(',').next().unwrap()),
        }
    }

    /// What has to stand beside a value for the reader to take it.
    fn beside(path: &str) -> &'static str {
        match path {
            "models.providers.*" => "baseUrl: 'http://h'",
            "models.providers.*.models[]" => "id: 'm'",
            "session.reset" => "mode: 'daily'",
            "agents.defaults.model" => "primary: 'offline/scripted'",
            "diagnostics" => "stuckSessionWarnMs: 1",
            _ => "",
        }
    }

    fn text(row: &Row) -> String {
        let mut value = sample(row);
        let needs = beside(row.path);
        if value == "{}" && !needs.is_empty() {
            value = format!("{{ {needs} }}");
        }
        let mut parts: Vec<&str> = steps(row.path).collect();
        while let Some(part) = parts.pop() {
            if part == "[]" {
                value = format!("[{value}]");
                continue;
            }
            let name = if part == "*" { "own" } else { part };
            let mut parent = String::new();
            for part in &parts {
                parent += if *part == "[]" || parent.is_empty() { "" } else { "." };
                parent += part;
            }
            let more = beside(&parent);
            let more = if more.starts_with(&format!("{name}:")) { "" } else { more };
            value = format!("{{ {name}: {value}, {more} }}");
        }
        value
    }

    /// C11: the reader takes every key of the table.
    #[test]
    fn every_row_is_read() {
        let all: Vec<Row> = rows().collect();
        assert_eq!(all.len(), TEXT.lines().count(), "a line that cannot be read");
        for row in &all {
            let text = text(row);
            if let Err(error) = parse(&text, &|_| None) {
                panic!("{}: {text}: {error}", row.path);
            }
        }
        for row in all.iter().filter(|row| row.path.contains(['.'])) {
            let up = row.path.trim_end_matches("[]").rsplit_once('.').unwrap().0;
            let up = if row.path.ends_with("[]") { row.path.trim_end_matches("[]") } else { up };
            assert!(all.iter().any(|row| row.path == up), "{} has no parent", row.path);
        }
    }

    /// C11: the defaults of the table are those that hold.
    #[test]
    fn defaults_are_those_that_hold() {
        let shown = show(&Config::default());
        for row in rows() {
            let (Some(default), false) = (&row.default, row.path.contains(['*', '['])) else {
                continue;
            };
            let at = row.path.split('.').fold(&shown, |value, key| &value[key]);
            if !at.is_null() {
                assert_eq!(at, default, "{}", row.path);
            }
        }
        let text = "{models:{providers:{a:{baseUrl:'http://h',models:[{id:'m'}]}}}}";
        let shown = show(&parse(text, &|_| None).unwrap());
        let model = &shown["models"]["providers"]["a"]["models"][0];
        for row in rows() {
            let Some(rest) = row.path.strip_prefix("models.providers.*.models[].") else {
                continue;
            };
            let at = rest.split('.').fold(model, |value, key| &value[key]);
            if let (Some(default), false) = (&row.default, at.is_null()) {
                assert_eq!(at, default, "{}", row.path);
            }
        }
    }

    /// Paths as people write them, and as the table has them.
    #[test]
    fn paths_are_found() {
        for (text, path) in [
            ("gateway.port", "gateway.port"),
            ("models.providers.own.models[3].id", "models.providers.*.models[].id"),
            ("models.providers.*.models[].id", "models.providers.*.models[].id"),
            ("models.providers.own.models.3.id", "models.providers.*.models[].id"),
            ("models/providers/own/apiKey", "models.providers.*.apiKey"),
            ("session.identityLinks.me[0]", "session.identityLinks.*[]"),
        ] {
            assert_eq!(find(&path_of(text)).map(|row| row.path), Some(path), "{text}");
        }
        assert!(find(&path_of("gateway.prot")).is_none());
        assert_eq!(names(&path_of("logging")), ["level"]);
    }
}
