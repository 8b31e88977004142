//! From what a model wrote to arguments a tool may be run with, or a text that tells the model
//! what to do better (semantics 3.1 to 3.3, tools#2 to tools#4). Never panics.

use super::{coerce::coerce, schema, spec::ToolSpec, text::head};
pub use crate::transcript::RejectKind;
use serde_json::{Map, Value, json};

/// Names of tools that are listed when one is missing.
const NAMES_MAX: usize = 40;
/// Longest name of a tool that is echoed, in characters.
const NAME_CHARS_MAX: usize = 80;
/// Longest echo of the arguments, in characters, its length note included.
const ECHO_CHARS_MAX: usize = 900;

/// Arguments that fit.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// The arguments as the tool gets them.
    pub args: Map<String, Value>,
    /// Which of the given tools is meant.
    pub index: usize,
}

/// A call that cannot be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// Why.
    pub kind: RejectKind,
    /// What the model is told.
    pub text: String,
}

/// Arguments as an object, from what a provider delivered: an object, a JSON text of one, or
/// nothing at all, which means an empty object (tools#2).
///
/// # Errors
/// [`RejectKind::Invalid`] where it is something else; the text has a bounded excerpt.
pub fn arguments(name: &str, raw: Option<&Value>) -> Result<Map<String, Value>, Rejected> {
    let problem = match raw {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(Value::Object(fields)) => return Ok(fields.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(Map::new()),
        Some(Value::String(text)) if name == "apply_patch" && is_patch(text) => {
            return Ok(Map::from_iter([("input".to_owned(), json!(text))]));
        }
        Some(Value::String(text)) => match crate::base::json::tolerant::<Value>(text) {
            Ok(read) => match read.value {
                Value::Object(fields) => return Ok(fields),
                _ => "must be a JSON object".to_owned(),
            },
            Err(error) => format!("is not valid JSON: {error}"),
        },
        Some(_) => "must be a JSON object".to_owned(),
    };
    let received = match raw {
        Some(Value::String(text)) => echo(text),
        Some(value) => echo(&value.to_string()),
        None => String::new(),
    };
    let issue = schema::Issue { path: "root".into(), message: problem };
    Err(invalid(name, &[issue], &received))
}

/// Resolves the tool by its exact name, lets the tool's own shim repair the arguments, converts
/// and validates them.
///
/// # Errors
/// [`Rejected`] with the text for the model.
pub fn check(
    specs: &[ToolSpec],
    name: &str,
    raw: &Map<String, Value>,
) -> Result<Checked, Rejected> {
    let Some(index) = specs.iter().position(|spec| spec.name == name) else {
        return Err(unknown(specs, name));
    };
    let schema = &specs[index].parameters;
    let args = coerce(schema, Value::Object(prepare(name, schema, raw.clone())));
    let issues = schema::validate(schema, &args);
    match args {
        Value::Object(args) if issues.is_empty() => Ok(Checked { args, index }),
        _ => {
            let received = serde_json::to_string_pretty(raw).unwrap_or_default();
            Err(invalid(name, &issues, &echo(&received)))
        }
    }
}

fn unknown(specs: &[ToolSpec], name: &str) -> Rejected {
    let mut names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    let names: Vec<&str> = names.into_iter().map(|name| head(name, NAME_CHARS_MAX)).collect();
    let mut text = format!("Tool {} not found", head(name, NAME_CHARS_MAX));
    if names.is_empty() {
        text.push_str(". No tools are available.");
    } else {
        text.push_str(&format!(". Available tools: {}", names.join(", ")));
        text.push_str(&if more > 0 { format!(" and {more} more.") } else { ".".into() });
    }
    Rejected { kind: RejectKind::Unknown, text }
}

fn invalid(name: &str, issues: &[schema::Issue], received: &str) -> Rejected {
    let mut text = format!("Validation failed for tool \"{}\":\n", head(name, NAME_CHARS_MAX));
    for issue in issues {
        text.push_str(&format!("  - {}: {}\n", issue.path, issue.message));
    }
    text.push_str("\nReceived arguments:\n");
    text.push_str(received);
    Rejected { kind: RejectKind::Invalid, text }
}

/// The text itself, or its head with its length: an echo must not inflate the next request.
fn echo(text: &str) -> String {
    let start = head(text, ECHO_CHARS_MAX);
    if start.len() == text.len() {
        return text.to_owned();
    }
    let start = head(text, ECHO_CHARS_MAX - 60);
    format!("{start}\n[cut here: {} characters in total]", text.chars().count())
}

/// What a tool itself repairs before the general rules apply (tools#4).
fn prepare(name: &str, schema: &Value, mut args: Map<String, Value>) -> Map<String, Value> {
    let core = ["apply_patch", "edit", "exec", "ls", "read", "write"].contains(&name);
    if !core {
        return args;
    }
    match name {
        "edit" => prepare_edit(&mut args),
        "apply_patch" => prepare_patch(&mut args),
        _ => {}
    }
    // A null in place of an option is meant as "not given"; converted to 0 it would mean
    // "no time limit" or break a minimum.
    let required = |key: &str| {
        let mut list = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        list.any(|name| name == key)
    };
    args.retain(|key, value| !value.is_null() || required(key));
    args
}

fn prepare_edit(args: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = args.get("edits")
        && let Ok(read) = crate::base::json::tolerant::<Value>(text)
        && (read.value.is_array() || read.value.is_object())
    {
        args.insert("edits".into(), read.value);
    }
    if let Some(Value::Object(one)) = args.get("edits") {
        let one = Value::Object(one.clone());
        args.insert("edits".into(), json!([one]));
    }
    if args.get("oldText").is_some_and(Value::is_string)
        && args.get("newText").is_some_and(Value::is_string)
        && args.get("edits").is_none_or(|edits| edits.is_array() || edits.is_null())
    {
        let old = args.remove("oldText").unwrap_or_default();
        let new = args.remove("newText").unwrap_or_default();
        let mut edits = match args.remove("edits") {
            Some(Value::Array(edits)) => edits,
            _ => Vec::new(),
        };
        edits.push(json!({"oldText": old, "newText": new}));
        args.insert("edits".into(), Value::Array(edits));
    }
}

/// Models that know the tool as free text give its patch under another name.
fn prepare_patch(args: &mut Map<String, Value>) {
    if args.contains_key("input") {
        return;
    }
    for key in ["patch", "content", "text", "command"] {
        if args.get(key).and_then(Value::as_str).is_some_and(is_patch)
            && let Some(value) = args.remove(key)
        {
            args.insert("input".into(), value);
            return;
        }
    }
}

/// A patch as plain text; a JSON text that holds one begins otherwise.
fn is_patch(text: &str) -> bool {
    !text.trim_start().starts_with('{') && text.contains("*** Begin Patch")
}

#[cfg(test)]
mod tests;
