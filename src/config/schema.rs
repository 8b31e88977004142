//! The table of keys as a JSON schema, with hints for people's forms (`config.schema`).

use super::table::{self, Kind, Row, find, path_of};
use serde_json::{Map, Value, json};

/// The schema of the whole config, and hints by path: `{schema, uiHints}`.
#[must_use]
pub fn schema() -> Value {
    let rows: Vec<Row> = table::rows().collect();
    let mut root = object(&rows, "");
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = "stepclaw.json".into();
    let hints: Map<String, Value> =
        rows.iter().map(|row| (row.path.to_owned(), hint(row))).collect();
    json!({"schema": root, "uiHints": hints})
}

/// One key and those directly below it; nothing if there is no such key.
#[must_use]
pub fn lookup(path: &str) -> Option<Value> {
    let row = find(&path_of(path))?;
    let rows: Vec<Row> = table::rows().collect();
    let children: Vec<Value> = below(&rows, row.path)
        .map(|(key, child)| {
            json!({
                "key": key, "path": child.path, "type": kind_word(child.kind),
                "required": child.needed, "hasChildren": below(&rows, child.path).next().is_some(),
                "reloadKind": child.reload.word(), "hint": hint(child), "hintPath": child.path,
            })
        })
        .collect();
    Some(json!({
        "path": row.path, "schema": described(&row), "reloadKind": row.reload.word(),
        "hint": hint(&row), "hintPath": row.path, "children": children,
    }))
}

/// The rows directly below a path, each with the last step of its own.
fn below<'r>(rows: &'r [Row], path: &'r str) -> impl Iterator<Item = (&'static str, &'r Row)> {
    rows.iter().filter_map(move |row| {
        let rest = row.path.strip_prefix(path)?;
        let name = match (rest.strip_prefix('.'), path.is_empty()) {
            (Some(name), false) => name,
            (None, true) => rest,
            (_, _) => rest.strip_prefix("[]").filter(|rest| rest.is_empty()).map(|_| "[]")?,
        };
        (!name.is_empty() && !name.contains('.') && (name == "[]" || !name.contains('[')))
            .then_some((name, row))
    })
}

fn object(rows: &[Row], path: &str) -> Value {
    let properties: Map<String, Value> =
        below(rows, path).map(|(name, row)| (name.to_owned(), node(rows, row))).collect();
    let needed: Vec<&str> =
        below(rows, path).filter(|(_, row)| row.needed).map(|(name, _)| name).collect();
    let mut object =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !needed.is_empty() {
        object["required"] = json!(needed);
    }
    object
}

fn node(rows: &[Row], row: &Row) -> Value {
    let child = || below(rows, row.path).next().map_or(json!({}), |(_, row)| node(rows, row));
    let mut node = described(row);
    let more = match row.kind {
        Kind::Object => object(rows, row.path),
        Kind::Record => json!({ "additionalProperties": child() }),
        Kind::List => json!({ "items": child() }),
        Kind::Model => json!({"anyOf": [{"type": "string"}, object(rows, row.path)]}),
        _ => json!({}),
    };
    if let (Value::Object(node), Value::Object(more)) = (&mut node, more) {
        node.extend(more);
    }
    node
}

/// The row without what is inside it.
fn described(row: &Row) -> Value {
    let mut node = match row.kind {
        Kind::Secret => json!({"anyOf": [{"type": "string", "minLength": 1}, {
            "type": "object", "additionalProperties": false, "required": ["source", "id"],
            "properties": {"source": {"const": "env"}, "id": {"type": "string"},
                "provider": {"const": "default"}},
        }]}),
        Kind::Any | Kind::Model => json!({}),
        Kind::Word(words) => {
            let words: Vec<&str> = words.split(',').collect();
            json!({"type": "string", "enum": words})
        }
        Kind::Whole(least, most) => {
            let mut node = json!({"type": "integer", "minimum": least});
            if let Some(most) = most {
                node["maximum"] = most.into();
            }
            node
        }
        Kind::Text | Kind::Address => json!({"type": "string", "minLength": 1}),
        kind => json!({ "type": kind_word(kind) }),
    };
    node["description"] = row.help.into();
    if let Some(default) = &row.default {
        node["default"] = default.clone();
    }
    node
}

fn kind_word(kind: Kind) -> Value {
    match kind {
        Kind::Object | Kind::Record => "object".into(),
        Kind::List => "array".into(),
        Kind::Text | Kind::Address | Kind::Word(_) => "string".into(),
        Kind::Secret | Kind::Model => json!(["string", "object"]),
        Kind::Flag => "boolean".into(),
        Kind::Whole(..) => "integer".into(),
        Kind::Any => json!(["string", "number", "boolean", "object", "array"]),
    }
}

fn hint(row: &Row) -> Value {
    let name = table::steps(row.path).filter(|step| !matches!(*step, "*" | "[]")).last();
    let group = row.path.split('.').next().unwrap_or_default();
    let mut hint = json!({
        "label": label(name.unwrap_or_default()), "help": row.help, "group": group,
        "tags": [row.reload.word()],
    });
    if row.kind == Kind::Secret {
        hint["sensitive"] = true.into();
    }
    hint
}

/// `maxTokens` as people write it.
fn label(name: &str) -> String {
    let mut label = String::new();
    for (n, letter) in name.trim_start_matches('$').chars().enumerate() {
        match (n, letter.is_ascii_uppercase()) {
            (0, _) => label.push(letter.to_ascii_uppercase()),
            (_, true) => {
                label.push(' ');
                label.push(letter.to_ascii_lowercase());
            }
            (_, false) => label.push(letter),
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// C11: the schema takes what the reader takes and refuses strangers, and knows the secrets.
    #[test]
    fn the_schema_is_the_tables() {
        let all = schema();
        let checks = jsonschema::validator_for(&all["schema"]).unwrap();
        let fine = json!({"models": {"providers": {"a": {"baseUrl": "http://h",
            "apiKey": {"source": "env", "id": "KEY"}, "headers": {"x": "y"},
            "models": [{"id": "m", "contextWindow": 5, "input": ["text"]}]}}},
            "agents": {"defaults": {"model": {"primary": "a/m"}}},
            "session": {"identityLinks": {"me": ["x:1"]}}, "gateway": {"port": 1}});
        assert!(checks.is_valid(&fine));
        for wrong in [
            json!({"gatway": {}}),
            json!({"gateway": {"port": 0}}),
            json!({"gateway": {"port": 65_536}}),
            json!({"models": {"providers": {"a": {}}}}),
            json!({"models": {"providers": {"a": {"baseUrl": "http://h", "models": [{}]}}}}),
            json!({"store": {"synchronous": "off"}}),
        ] {
            assert!(!checks.is_valid(&wrong), "{wrong}");
        }
        let hints = &all["uiHints"];
        assert_eq!(hints["gateway.auth.token"]["sensitive"], true);
        assert_eq!(hints["models.providers.*.headers.*"]["sensitive"], true);
        assert_eq!(hints["gateway.port"]["label"], "Port");
        assert_eq!(hints["gateway.port"]["sensitive"], Value::Null);
    }

    /// C11: a key is looked up by a path of one's own, with what is directly below it.
    #[test]
    fn keys_are_looked_up() {
        let port = lookup("gateway.port").unwrap();
        assert_eq!((&port["reloadKind"], &port["children"]), (&json!("restart"), &json!([])));
        assert_eq!(port["schema"]["default"], 18_789);
        let providers = lookup("models.providers.mine").unwrap();
        let keys: Vec<&Value> =
            providers["children"].as_array().unwrap().iter().map(|c| &c["key"]).collect();
        assert_eq!(keys, ["baseUrl", "apiKey", "api", "headers", "models"]);
        let models = lookup("models.providers.mine.models").unwrap();
        assert_eq!(models["children"][0]["key"], "[]");
        assert_eq!(models["children"][0]["hasChildren"], true);
        assert!(lookup("models.providers.mine.modles").is_none());
    }
}
