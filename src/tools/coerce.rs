//! Arguments that are nearly right are made right, as the schema directs (semantics 3.2, tools#3).

use super::schema::{Checker, is_type, members, types};
use serde_json::{Map, Number, Value};

/// Longest JSON text that is read in place of an array or object, in characters.
const JSON_CHARS_MAX: usize = 65_536;

/// The value with everything converted that the table allows. A value that fits already is never
/// changed, so that converting twice is converting once.
#[must_use]
pub fn coerce(root: &Value, value: Value) -> Value {
    let mut checker = Checker::new(root);
    if checker.fits(root, &value, 0) {
        return value;
    }
    walk(&mut Checker::new(root), root, value, 0)
}

fn walk(checker: &mut Checker<'_>, schema: &Value, value: Value, depth: usize) -> Value {
    let Value::Object(schema) = schema else { return value };
    if !checker.step(depth) {
        return value;
    }
    let mut value = value;
    if let Some(Value::String(reference)) = schema.get("$ref")
        && let Some(target) = checker.resolve(reference)
    {
        value = walk(checker, target, value, depth + 1);
    }
    if let Some(keyword) = schema.get("type") {
        value = to_any_type(&types(keyword), value);
    }
    for member in members(schema, "allOf") {
        value = walk(checker, member, value, depth + 1);
    }
    value = children(checker, schema, value, depth);
    for keyword in ["anyOf", "oneOf"] {
        let list: Vec<&Value> = members(schema, keyword).collect();
        if !list.is_empty() {
            value = union(checker, &list, value, depth);
        }
    }
    value
}

fn children(
    checker: &mut Checker<'_>,
    schema: &Map<String, Value>,
    value: Value,
    depth: usize,
) -> Value {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let extra = schema.get("additionalProperties");
            let walked = fields.into_iter().map(|(name, value)| {
                let value = match properties.and_then(|p| p.get(&name)).or(extra) {
                    Some(schema) => walk(checker, schema, value, depth + 1),
                    None => value,
                };
                (name, value)
            });
            Value::Object(walked.collect())
        }
        Value::Array(items) => match schema.get("items") {
            Some(schema) => {
                let walked = items.into_iter().map(|item| walk(checker, schema, item, depth + 1));
                Value::Array(walked.collect())
            }
            None => Value::Array(items),
        },
        other => other,
    }
}

/// Members in order, those that are only `null` last: a blank text is more often meant as a text.
fn union(checker: &mut Checker<'_>, list: &[&Value], value: Value, depth: usize) -> Value {
    if list.iter().any(|member| checker.fits(member, &value, depth + 1)) {
        return value;
    }
    let null_only = |member: &&&Value| member.get("type").is_some_and(|t| t == "null");
    let last: Vec<&&Value> = list.iter().filter(null_only).collect();
    let first = list.iter().filter(|m| !null_only(m));
    for member in first.chain(last) {
        let changed = walk(checker, member, value.clone(), depth + 1);
        if checker.fits(member, &changed, depth + 1) {
            return changed;
        }
    }
    value
}

fn to_any_type(names: &[&str], value: Value) -> Value {
    if names.is_empty() || names.iter().any(|name| is_type(&value, name)) {
        return value;
    }
    let ordered =
        names.iter().filter(|n| **n != "null").chain(names.iter().filter(|n| **n == "null"));
    for name in ordered {
        if let Some(changed) = to_type(name, &value) {
            return changed;
        }
    }
    value
}

/// One row of the table.
fn to_type(name: &str, value: &Value) -> Option<Value> {
    match name {
        "number" | "integer" => to_number(name, value),
        "boolean" => match value {
            Value::String(text) if text == "true" => Some(Value::Bool(true)),
            Value::String(text) if text == "false" => Some(Value::Bool(false)),
            Value::Number(n) if n.as_f64() == Some(1.0) => Some(Value::Bool(true)),
            Value::Number(n) if n.as_f64() == Some(0.0) => Some(Value::Bool(false)),
            Value::Null => Some(Value::Bool(false)),
            _ => None,
        },
        "string" => match value {
            Value::Number(n) => Some(Value::String(n.to_string())),
            Value::Bool(b) => Some(Value::String(b.to_string())),
            Value::Null => Some(Value::String(String::new())),
            _ => None,
        },
        "array" | "object" => {
            let text = value.as_str()?;
            if text.len() > JSON_CHARS_MAX && text.chars().count() > JSON_CHARS_MAX {
                return None;
            }
            let read = crate::base::json::tolerant::<Value>(text).ok()?.value;
            is_type(&read, name).then_some(read)
        }
        "null" => {
            let empty = match value {
                Value::String(text) => text.is_empty(),
                Value::Number(n) => n.as_f64() == Some(0.0),
                Value::Bool(b) => !b,
                _ => false,
            };
            empty.then_some(Value::Null)
        }
        _ => None,
    }
}

fn to_number(name: &str, value: &Value) -> Option<Value> {
    let number = match value {
        Value::String(text) => parse_number(text.trim())?,
        Value::Bool(b) => Number::from(u8::from(*b)),
        Value::Null => Number::from(0),
        _ => return None,
    };
    let number = Value::Number(number);
    is_type(&number, name).then_some(number)
}

/// Whole numbers stay whole, so that large ones lose nothing; `inf` and `nan` are no numbers.
fn parse_number(text: &str) -> Option<Number> {
    if let Ok(n) = text.parse::<i64>() {
        return Some(n.into());
    }
    if let Ok(n) = text.parse::<u64>() {
        return Some(n.into());
    }
    if !text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) {
        return None;
    }
    Number::from_f64(text.parse().ok()?)
}
