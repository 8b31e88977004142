//! The script's language: one request a line, in plain words.

use crate::base::FailKind;
use crate::base::limits::CALLS_MAX;
use serde_json::{Map, Value, json};

/// What the script says of itself.
pub(super) const HELP: &str = "\
I am offline/scripted: a script that comes with stepclaw, not a language model. I understand one \
request a line:

- list [DIR]
- read FILE
- write FILE: TEXT
- edit FILE: OLD => NEW
- run: COMMAND
- together: A; B; C (all at once)
- then: A; B (one after the other)
- say N words
- wait SECONDS
- fail [KIND]

In TEXT, OLD and NEW, \\n stands for a line break. Name a real model in the config to talk to one.";

/// Most words of one `say`.
const WORDS_MAX: usize = 20_000;
/// Longest `wait`, seconds.
const WAIT_MAX: f64 = 3_600.0;

/// A call: tool and arguments.
pub(super) type ToolCall = (&'static str, Map<String, Value>);

/// What one line asks for.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    /// Calls that are made in one batch.
    Calls(Vec<ToolCall>),
    Say(String),
    Wait(u64),
    Fail(FailKind),
    Unknown(String),
}

/// The steps of a text.
pub(super) fn steps(text: &str) -> Vec<Step> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).flat_map(line_steps).collect()
}

fn line_steps(line: &str) -> Vec<Step> {
    let parts = |rest: &str| {
        let parts = rest.split(';').map(str::trim).filter(|part| !part.is_empty());
        parts.map(step).collect::<Vec<Step>>()
    };
    if let Some(rest) = after(line, "then:") {
        return parts(rest);
    }
    let Some(rest) = after(line, "together:") else { return vec![step(line)] };
    let (mut batch, mut others) = (Vec::new(), Vec::new());
    for part in parts(rest) {
        match part {
            Step::Calls(calls) => batch.extend(calls),
            other => others.push(other),
        }
    }
    batch.truncate(CALLS_MAX);
    if !batch.is_empty() {
        others.push(Step::Calls(batch));
    }
    others
}

/// A single request.
fn step(line: &str) -> Step {
    parse(line).unwrap_or_else(|| Step::Unknown(line.to_owned()))
}

fn parse(line: &str) -> Option<Step> {
    let one = |name, args: Value| match args {
        Value::Object(args) => Some(Step::Calls(vec![(name, args)])),
        _ => None,
    };
    if let Some(command) = after(line, "run:") {
        return one("exec", json!({ "command": filled(command)? }));
    }
    let (verb, rest) = match line.split_once(char::is_whitespace) {
        Some((verb, rest)) => (verb, rest.trim()),
        None => (line, ""),
    };
    match verb.to_ascii_lowercase().as_str() {
        "list" if rest.split_whitespace().count() <= 1 => {
            one("ls", json!({ "path": filled(rest).unwrap_or(".") }))
        }
        "read" if rest.split_whitespace().count() == 1 => one("read", json!({ "path": rest })),
        "write" => {
            let (file, text) = rest.split_once(':')?;
            let content = breaks(text.strip_prefix(' ').unwrap_or(text));
            one("write", json!({ "path": filled(file)?, "content": content }))
        }
        "edit" => {
            let (file, change) = rest.split_once(':')?;
            let (old, new) = change.split_once("=>")?;
            let edit = json!({ "oldText": breaks(old.trim()), "newText": breaks(new.trim()) });
            one("edit", json!({ "path": filled(file)?, "edits": [edit] }))
        }
        "say" => {
            let count = rest.strip_suffix("words").or_else(|| rest.strip_suffix("word"))?;
            Some(Step::Say(words(count.trim().parse::<usize>().ok()?.min(WORDS_MAX))))
        }
        "wait" => {
            let number = rest.split_whitespace().next()?;
            let seconds: f64 = number.parse().ok().filter(|s| (0.0..=WAIT_MAX).contains(s))?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(Step::Wait((seconds * 1_000.0) as u64))
        }
        "fail" if rest.is_empty() => Some(Step::Fail(FailKind::Unknown)),
        "fail" => kind(rest).map(Step::Fail),
        _ => None,
    }
}

/// The kinds that `fail` knows, by the names that are shown everywhere.
fn kind(name: &str) -> Option<FailKind> {
    let known = [
        FailKind::Auth,
        FailKind::Billing,
        FailKind::RateLimit,
        FailKind::Overloaded,
        FailKind::ServerError,
        FailKind::Timeout,
        FailKind::Network,
        FailKind::ContextOverflow,
        FailKind::Refusal,
        FailKind::Incomplete,
        FailKind::MalformedCalls,
        FailKind::Empty,
    ];
    known.into_iter().find(|kind| kind.name() == name)
}

/// What follows a keyword, whatever its case.
fn after<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let head = line.get(..keyword.len())?;
    head.eq_ignore_ascii_case(keyword).then(|| line[keyword.len()..].trim())
}

fn filled(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

fn breaks(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// So many words.
fn words(count: usize) -> String {
    const WORDS: &[&str] = &["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let words: Vec<&str> = WORDS.iter().copied().cycle().take(count).collect();
    words.join(" ")
}

/// A call in plain words, for the report.
pub(super) fn describe(name: &str, args: &Map<String, Value>) -> String {
    let arg = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    match name {
        "ls" => format!("list {}", arg("path")),
        "read" | "write" | "edit" => format!("{name} {}", arg("path")),
        "exec" => format!("run {}", arg("command")),
        other => other.to_owned(),
    }
}
