//! The part of JSON Schema that tool arguments use (tools#3). Unknown keywords are ignored; depth
//! and work are bounded, since both schema and value come from outside.

use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

/// Deepest nesting of values and references that is followed.
pub const DEPTH_MAX: usize = 64;
/// Most schema nodes that are visited for one call.
pub const STEPS_MAX: usize = 500_000;
/// Most issues that are reported.
const ISSUES_MAX: usize = 20;
/// Longest path or value in an issue, in characters.
const SHOWN_CHARS_MAX: usize = 120;

/// One thing that is wrong with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issue {
    /// Where, as `edits/0/oldText`; `root` for the value itself.
    pub path: String,
    /// What.
    pub message: String,
}

/// A checker bound to one root schema, with what is left of its work budget.
#[derive(Debug)]
pub struct Checker<'s> {
    root: &'s Value,
    steps: usize,
    path: Vec<String>,
    issues: Vec<Issue>,
}

/// Everything that is wrong with a value, at most [`ISSUES_MAX`] issues; empty if nothing is.
#[must_use]
pub fn validate(root: &Value, value: &Value) -> Vec<Issue> {
    let mut checker = Checker::new(root);
    checker.visit(root, value, 0);
    checker.issues
}

impl<'s> Checker<'s> {
    /// A checker with a whole budget.
    #[must_use]
    pub fn new(root: &'s Value) -> Checker<'s> {
        Checker { root, steps: STEPS_MAX, path: Vec::new(), issues: Vec::new() }
    }

    /// Whether a value fits one schema inside the root; says nothing about why not.
    pub fn fits(&mut self, schema: &Value, value: &Value, depth: usize) -> bool {
        let before = std::mem::take(&mut self.issues);
        self.visit(schema, value, depth);
        let fits = self.issues.is_empty();
        self.issues = before;
        fits
    }

    /// The schema a local reference names.
    #[must_use]
    pub fn resolve(&self, reference: &str) -> Option<&'s Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// Takes one step of the budget; false when none is left or the nesting is too deep.
    pub fn step(&mut self, depth: usize) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0 && depth < DEPTH_MAX
    }

    fn issue(&mut self, message: impl Into<String>) {
        if self.issues.len() < ISSUES_MAX {
            let path = if self.path.is_empty() { "root".into() } else { self.path.join("/") };
            let path = super::text::head(&path, SHOWN_CHARS_MAX).to_owned();
            self.issues.push(Issue { path, message: message.into() });
        }
    }

    fn visit(&mut self, schema: &Value, value: &Value, depth: usize) {
        if !self.step(depth) {
            return self.issue("is nested too deeply or too large to check");
        }
        let schema = match schema {
            Value::Bool(false) => return self.issue("is not allowed"),
            Value::Object(schema) => schema,
            _ => return,
        };
        if let Some(Value::String(reference)) = schema.get("$ref") {
            match self.resolve(reference) {
                Some(target) => self.visit(target, value, depth + 1),
                None => self.issue(format!("uses an unknown reference {}", shown(reference))),
            }
        }
        self.plain(schema, value);
        match value {
            Value::Object(fields) => self.object(schema, fields, depth),
            Value::Array(items) => self.array(schema, items, depth),
            Value::String(text) => self.string(schema, text),
            Value::Number(number) => self.number(schema, number),
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(schema, value, depth);
    }

    fn plain(&mut self, schema: &Map<String, Value>, value: &Value) {
        if let Some(wanted) = schema.get("type")
            && !types(wanted).iter().any(|name| is_type(value, name))
            && !types(wanted).is_empty()
        {
            let wanted = types(wanted).join(" or ");
            self.issue(format!("must be {}, is {}", shown(&wanted), type_name(value)));
        }
        if let Some(Value::Array(allowed)) = schema.get("enum")
            && !allowed.iter().any(|one| same(one, value))
        {
            let list = Value::Array(allowed.clone()).to_string();
            self.issue(format!("must be one of {}", shown(&list)));
        }
        if let Some(wanted) = schema.get("const")
            && !same(wanted, value)
        {
            self.issue(format!("must be {}", shown(&wanted.to_string())));
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, fields: &Map<String, Value>, depth: usize) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = name.as_str()
                && !fields.contains_key(name)
            {
                self.path.push(name.to_owned());
                self.issue("is required");
                self.path.pop();
            }
        }
        for (name, value) in fields {
            let known = properties.and_then(|p| p.get(name));
            if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
                self.path.push(name.clone());
                self.visit(schema, value, depth + 1);
                self.path.pop();
            }
        }
    }

    fn array(&mut self, schema: &Map<String, Value>, items: &[Value], depth: usize) {
        let Some(schema) = schema.get("items") else { return };
        for (index, value) in items.iter().enumerate() {
            self.path.push(index.to_string());
            self.visit(schema, value, depth + 1);
            self.path.pop();
        }
    }

    fn string(&mut self, schema: &Map<String, Value>, text: &str) {
        let limit = |key: &str| schema.get(key).and_then(Value::as_number);
        let (least, most) = (limit("minLength"), limit("maxLength"));
        if least.is_none() && most.is_none() {
            return;
        }
        let count = Number::from(text.chars().count());
        if least.is_some_and(|n| order(&count, n) == Ordering::Less) {
            self.issue(format!("must have at least {} characters", least.unwrap_or(&count)));
        }
        if most.is_some_and(|n| order(&count, n) == Ordering::Greater) {
            self.issue(format!("must have at most {} characters", most.unwrap_or(&count)));
        }
    }

    fn number(&mut self, schema: &Map<String, Value>, number: &Number) {
        if let Some(Value::Number(least)) = schema.get("minimum")
            && order(number, least) == Ordering::Less
        {
            self.issue(format!("must be at least {least}"));
        }
        if let Some(Value::Number(most)) = schema.get("maximum")
            && order(number, most) == Ordering::Greater
        {
            self.issue(format!("must be at most {most}"));
        }
    }

    fn combined(&mut self, schema: &Map<String, Value>, value: &Value, depth: usize) {
        for member in members(schema, "allOf") {
            self.visit(member, value, depth + 1);
        }
        if let Some(Value::Array(any)) = schema.get("anyOf")
            && !any.iter().any(|member| self.fits(member, value, depth + 1))
        {
            self.issue("fits none of the allowed forms");
        }
        if let Some(Value::Array(one)) = schema.get("oneOf") {
            let fitting = one.iter().filter(|m| self.fits(m, value, depth + 1)).count();
            if fitting != 1 {
                self.issue(format!("must fit exactly one of the allowed forms, fits {fitting}"));
            }
        }
    }
}

/// The members of a combining keyword.
pub fn members<'m>(
    schema: &'m Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'m Value> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// The known type names of a `type` keyword, which is a name or a list of names.
#[must_use]
pub fn types(keyword: &Value) -> Vec<&str> {
    const KNOWN: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let names: Vec<&str> = match keyword {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter(|name| KNOWN.contains(name)).collect()
}

/// Whether a value is of a named type; a number without fraction is an integer.
#[must_use]
pub fn is_type(value: &Value, name: &str) -> bool {
    match (name, value) {
        ("integer", Value::Number(number)) => whole(number),
        ("number", Value::Number(_)) => true,
        _ => name == type_name(value),
    }
}

fn whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn shown(text: &str) -> String {
    let start = super::text::head(text, SHOWN_CHARS_MAX);
    if start.len() == text.len() { text.to_owned() } else { format!("{start}…") }
}

/// Equality as JSON Schema has it: numbers by value, not by notation.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn order(a: &Number, b: &Number) -> Ordering {
    match (exact(a), exact(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
    }
}

fn exact(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}
