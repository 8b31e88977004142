//! Compares a value with a schema, and words what does not fit.

use super::{Field, Range, Schemas, Type};
use serde_json::{Map, Value};

/// Checks an object; `at` is its path, empty for the root.
pub(super) fn object(
    schemas: &mut Schemas,
    map: &Map<String, Value>,
    fields: &[Field],
    open: bool,
    at: &str,
    problems: &mut Vec<String>,
) {
    let root = if at.is_empty() { "root" } else { at };
    for name in map.keys() {
        if !open && !fields.iter().any(|field| field.name == name) {
            problems.push(format!("at {root}: unexpected property '{name}'"));
        }
    }
    for field in fields {
        let path = format!("{at}/{}", field.name);
        match (map.get(field.name), &field.of) {
            (Some(value), Some(of)) => self::value(schemas, value, of, &path, problems),
            (Some(_), None) => problems.push(format!("at {path}: is not supported here")),
            (None, _) if !field.needed => {}
            (None, _) => {
                let of = if at.is_empty() { String::new() } else { format!("at {at}: ") };
                problems.push(format!("{of}must have required property '{}'", field.name));
            }
        }
    }
}

/// Checks one value.
fn value(schemas: &mut Schemas, value: &Value, of: &Type, at: &str, problems: &mut Vec<String>) {
    let mut bad = |what: &str| problems.push(format!("at {at}: {what}"));
    match (of, value) {
        (Type::Any, _) | (Type::Null, Value::Null) | (Type::Bool, Value::Bool(_)) => {}
        (Type::Null, _) => bad("must be null"),
        (Type::Bool, _) => bad("must be boolean"),
        (Type::Literal(literal), value) => {
            if literal != value {
                bad(&format!("must be equal to constant {literal}"));
            }
        }
        (Type::Text(range), Value::String(text)) => {
            let length = || u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
            bounds(*range, "characters", length, &mut bad);
        }
        (Type::Text(_), _) => bad("must be string"),
        (Type::Number { whole, range }, Value::Number(number)) => {
            self::number(*whole, *range, number, &mut bad);
        }
        (Type::Number { whole, .. }, _) => {
            bad(if *whole { "must be integer" } else { "must be number" });
        }
        (Type::List(of, range), Value::Array(list)) => {
            let length = || u64::try_from(list.len()).unwrap_or(u64::MAX);
            bounds(*range, "items", length, &mut bad);
            for (n, item) in list.iter().enumerate() {
                self::value(schemas, item, of, &format!("{at}/{n}"), problems);
            }
        }
        (Type::List(..), _) => bad("must be array"),
        (Type::Map(of), Value::Object(map)) => {
            for (name, item) in map {
                self::value(schemas, item, of, &format!("{at}/{name}"), problems);
            }
        }
        (Type::Object { fields, open }, Value::Object(map)) => {
            object(schemas, map, fields, *open, at, problems);
        }
        (Type::Map(_) | Type::Object { .. }, _) => bad("must be object"),
        (Type::Either(types), value) => either(schemas, value, types, at, problems),
        (Type::Named(name), value) => {
            let of = schemas.named(name).cloned().unwrap_or(Type::Any);
            self::value(schemas, value, &of, at, problems);
        }
    }
}

fn either(schemas: &mut Schemas, of: &Value, types: &[Type], at: &str, problems: &mut Vec<String>) {
    let mut fits = |one: &Type| {
        let mut found = Vec::new();
        value(schemas, of, one, at, &mut found);
        found.is_empty()
    };
    if types.iter().any(&mut fits) {
        return;
    }
    let literal = |one: &Type| match one {
        Type::Literal(value) => Some(value.to_string()),
        _ => None,
    };
    // Only where all are words does it help to name them.
    let words: Option<Vec<String>> = types.iter().map(literal).collect();
    problems.push(match words {
        Some(words) => format!("at {at}: must be one of {}", words.join(", ")),
        None => format!("at {at}: must match a schema in anyOf"),
    });
}

fn bounds(range: Range, what: &str, length: impl Fn() -> u64, bad: &mut impl FnMut(&str)) {
    if range == Range::default() {
        return;
    }
    let length = length();
    if length < range.least {
        bad(&format!("must NOT have fewer than {} {what}", range.least));
    }
    if let Some(most) = range.most.filter(|most| length > *most) {
        bad(&format!("must NOT have more than {most} {what}"));
    }
}

fn number(whole: bool, range: Range, number: &serde_json::Number, bad: &mut impl FnMut(&str)) {
    let float = number.as_f64().unwrap_or(f64::NAN);
    if whole && float.fract() != 0.0 {
        return bad("must be integer");
    }
    // Every bound in the notation is a whole number from 0 up: a lower bound of 0 excludes signs.
    let small = |bound: u64| number.as_u64().is_none_or(|n| n < bound) && float < bound as f64;
    if small(range.least) && range.least > 0 {
        bad(&format!("must be >= {}", range.least));
    } else if range.least == 0 && whole && float < 0.0 {
        bad("must be >= 0");
    }
    if let Some(most) = range.most.filter(|most| float > *most as f64) {
        bad(&format!("must be <= {most}"));
    }
}
