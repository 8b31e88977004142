//! Reads the notation. It is our own text, held by a test: what cannot be read is `any`.

use super::{Field, Range, Type};
use serde_json::Value;

/// Reads one definition.
pub(super) fn read(text: &'static str) -> Type {
    Reader { rest: text }.either()
}

struct Reader {
    rest: &'static str,
}

impl Reader {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, what: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'static str {
        self.skip();
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn either(&mut self) -> Type {
        let mut types = vec![self.one()];
        while self.take("|") {
            types.push(self.one());
        }
        match types.len() {
            1 => types.remove(0),
            _ => Type::Either(types),
        }
    }

    fn one(&mut self) -> Type {
        if self.take("{") {
            return self.object();
        }
        if self.take("[") {
            let of = self.either();
            self.take("]");
            return Type::List(Box::new(of), self.range());
        }
        if self.take("\"") {
            let (text, rest) = self.rest.split_once('"').unwrap_or((self.rest, ""));
            self.rest = rest;
            return Type::Literal(text.into());
        }
        if self.rest.starts_with('@') {
            let text = self.rest;
            self.rest = &text[1..];
            let word = self.word();
            return Type::Named(&text[..=word.len()]);
        }
        match self.word() {
            "str" => Type::Text(self.range()),
            "int" => Type::Number { whole: true, range: self.range() },
            "num" => Type::Number { whole: false, range: self.range() },
            "bool" => Type::Bool,
            "null" => Type::Null,
            "true" => Type::Literal(true.into()),
            "map" => {
                self.take("<str,");
                let of = self.either();
                self.take(">");
                Type::Map(Box::new(of))
            }
            other => match other.parse::<u64>() {
                Ok(number) => Type::Literal(Value::from(number)),
                Err(_) => Type::Any,
            },
        }
    }

    fn object(&mut self) -> Type {
        let (mut fields, mut open) = (Vec::new(), false);
        while !self.take("}") {
            if self.rest.is_empty() {
                break;
            }
            if self.take("...") {
                open = true;
            } else {
                fields.push(self.field());
            }
            self.take(",");
        }
        Type::Object { fields, open }
    }

    fn field(&mut self) -> Field {
        if self.take("!") {
            return Field { name: self.word(), needed: false, of: None };
        }
        let name = self.word();
        let needed = !self.take("?");
        self.take(":");
        Field { name, needed, of: Some(self.either()) }
    }

    fn range(&mut self) -> Range {
        let mut range = Range::default();
        if !self.rest.starts_with('(') {
            return range;
        }
        let (items, rest) = self.rest[1..].split_once(')').unwrap_or((self.rest, ""));
        self.rest = rest;
        for item in items.split(',') {
            let number = item.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            if item.starts_with("min") || item.starts_with(">=") {
                range.least = number.unwrap_or(0);
            } else {
                range.most = number;
            }
        }
        range
    }
}
