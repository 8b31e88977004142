use super::*;
use serde_json::json;

fn problems(method: &str, params: Value) -> String {
    let Value::Object(map) = params else { panic!("an object") };
    Schemas::default().problems(method, &map).join("; ")
}

/// Y6: each problem is named with its place; a known field without a mechanism says so.
#[test]
fn problems_are_named() {
    let fine = json!({"sessionKey": "main", "message": "hi", "idempotencyKey": "k"});
    assert_eq!(problems("chat.send", fine), "");
    let bad = json!({"message": 1, "idempotencyKey": "", "bogus": 1, "queueMode": "later",
        "mentions": [], "timeoutMs": -1, "workContext": {"page": "x", "title": "y", "z": 1}});
    let text = problems("chat.send", bad);
    for part in [
        "at root: unexpected property 'bogus'",
        "must have required property 'sessionKey'",
        "at /message: must be string",
        "at /idempotencyKey: must NOT have fewer than 1 characters",
        "at /queueMode: must be one of \"steer\", \"followup\"",
        "at /mentions: is not supported here",
        "at /timeoutMs: must be >= 0",
        "at /workContext: unexpected property 'z'",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(
        problems("chat.history", json!({"sessionKey": "a", "limit": 1001})),
        "at /limit: must be <= 1000"
    );
    assert_eq!(
        problems("chat.history", json!({"sessionKey": "a", "limit": 1.5})),
        "at /limit: must be integer"
    );
    assert_eq!(problems("sessions.patch", json!({"key": "a", "label": null})), "");
    assert_eq!(
        problems("sessions.patch", json!({"key": "a", "label": 3})),
        "at /label: must match a schema in anyOf"
    );
    assert_eq!(problems("no.such", json!({})), "at root: no params are known");
}

/// Every definition is read to its end: a word of the notation that is none would be `any`.
#[test]
fn every_definition_is_read() {
    let text = format!("{:?}", definitions().map(|(_, d)| notation::read(d)).collect::<Vec<_>>());
    assert!(names().len() > 70, "{}", names().len());
    // The only places that may hold anything.
    let any = PARAMS.matches(": any").count() + PARAMS.matches(",any>").count();
    assert_eq!(text.matches("Any").count(), any, "{text}");
    for (_, definition) in definitions() {
        for part in definition.split('@').skip(1) {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            assert!(Schemas::knows(&format!("@{}", &part[..end])), "@{part}");
        }
    }
}

/// A nested object, a list and a choice of objects.
#[test]
fn nested_values_are_checked() {
    let client = json!({"id": "cli", "version": "1", "platform": "linux", "mode": "cli"});
    let connect = |client: Value, more: Value| {
        let mut params = json!({"minProtocol": 4, "maxProtocol": 4, "client": client});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        problems("connect", params)
    };
    assert_eq!(connect(client.clone(), json!({})), "");
    assert!(connect(json!({"id": "x"}), json!({})).contains("at /client/id: must be one of"));
    assert!(connect(json!({}), json!({})).contains("at /client: must have required property 'id'"));
    let caps = connect(client.clone(), json!({"caps": ["a", ""]}));
    assert_eq!(caps, "at /caps/1: must NOT have fewer than 1 characters");
    let catalog = connect(client, json!({"modelCatalog": {"x": 1}}));
    assert_eq!(catalog, "at /modelCatalog: must match a schema in anyOf");
}
