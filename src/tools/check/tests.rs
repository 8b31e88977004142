use super::*;
use crate::{base::Rng, tools::spec::core};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn ok(name: &str, value: Value) -> Value {
    Value::Object(check(&core(), name, &map(value)).map_err(|r| r.text).unwrap().args)
}

fn refused(name: &str, value: Value) -> String {
    check(&core(), name, &map(value)).unwrap_err().text
}

/// A spec around any schema.
fn spec(parameters: Value) -> Vec<ToolSpec> {
    let (name, description) = ("t".to_owned(), String::new());
    vec![ToolSpec {
        name,
        description,
        parameters,
        sequential: false,
        poll: false,
        replay_safe: false,
    }]
}

/// tools#2. B110: empty, blank, null and absent arguments all mean an empty object.
#[test]
fn b110_nothing_means_an_empty_object() {
    for raw in [None, Some(json!(null)), Some(json!("")), Some(json!("   "))] {
        assert_eq!(arguments("ls", raw.as_ref()).unwrap(), Map::new());
    }
    assert!(check(&core(), "ls", &Map::new()).is_ok());
}

/// B111: an object is as good as its text.
#[test]
fn b111_object_and_text_are_the_same() {
    let object = arguments("read", Some(&json!({"path": "a.txt"}))).unwrap();
    let text = arguments("read", Some(&json!("{\"path\": \"a.txt\"}"))).unwrap();
    assert_eq!(object, text);
    assert_eq!(check(&core(), "read", &text).unwrap().index, 4);
}

/// B114: text that does not parse is a result the model can read, not a failed turn.
#[test]
fn b114_unreadable_text_is_a_rejection() {
    let raw = json!("{\"old\":\"a\nb\",\"new\":\"\\U0001F600\"}");
    let rejected = arguments("edit", Some(&raw)).unwrap_err();
    assert_eq!(rejected.kind, RejectKind::Invalid);
    assert!(rejected.text.contains("is not valid JSON"), "{}", rejected.text);
}

/// B115: JSON that is no object, and an echo that stays small.
#[test]
fn b115_other_json_is_rejected_with_a_bounded_echo() {
    for text in ["null", "[]", "\"x\"", "5", "true"] {
        let rejected = arguments("read", Some(&json!(text))).unwrap_err();
        assert!(rejected.text.contains("must be a JSON object"), "{}", rejected.text);
        assert!(rejected.text.ends_with(text));
    }
    assert!(arguments("read", Some(&json!([]))).is_err());
    let huge = "漢".repeat(2_000_000);
    let rejected = arguments("read", Some(&json!(huge))).unwrap_err();
    assert!(rejected.text.chars().count() < 1_000);
    assert!(rejected.text.contains("2000000 characters in total"));
    let args = json!({"path": [huge]});
    let total = serde_json::to_string_pretty(&args).unwrap().chars().count();
    let text = refused("read", args);
    let at = text.find("Received arguments:\n").unwrap() + 20;
    assert!(text[at..].chars().count() < 1_000, "{}", text.len());
    assert!(text.ends_with(&format!("[cut here: {total} characters in total]")));
}

/// B117: an unknown tool names what there is, bounded.
#[test]
fn b117_unknown_tools_name_the_others() {
    let rejected = check(&core(), "does_not_exist", &Map::new()).unwrap_err();
    assert_eq!(rejected.kind, RejectKind::Unknown);
    let want = "Tool does_not_exist not found. Available tools: apply_patch, edit, exec, ls, \
                read, write.";
    assert_eq!(rejected.text, want);
    assert!(check(&core(), "Read", &Map::new()).is_err(), "names are exact");
    assert_eq!(
        check(&[], "x", &Map::new()).unwrap_err().text,
        "Tool x not found. No tools are available."
    );
    let mut many = Vec::new();
    for i in 0..500 {
        let mut one = spec(json!({}));
        one[0].name = format!("tool_{i:03}");
        many.append(&mut one);
    }
    let text = check(&many, &"n".repeat(9_999), &Map::new()).unwrap_err().text;
    assert!(text.ends_with("tool_039 and 460 more."), "{text}");
    assert!(text.len() < 1_000);
}

/// The three parts of the text.
#[test]
fn rejections_have_three_parts() {
    let text = refused("edit", json!({"edits": [{"oldText": "a"}, 5]}));
    let want = "Validation failed for tool \"edit\":\n  - path: is required\n  \
                - edits/0/newText: is required\n  - edits/1: must be object, is number\n\n\
                Received arguments:\n{\n  \"edits\": [";
    assert!(text.starts_with(want), "{text}");
    assert!(
        refused("read", json!({"path": "a", "offset": 0})).contains("offset: must be at least")
    );
}

/// tools#3: every row of the table of semantics 3.2.
#[test]
fn coercion_follows_the_table() {
    let deep = format!("[{}]", "1,".repeat(40_000) + "1");
    let rows = [
        (json!({"type": "number"}), json!(" 1.5 "), json!(1.5)),
        (json!({"type": "integer"}), json!("7"), json!(7)),
        (json!({"type": "integer"}), json!("18446744073709551615"), json!(u64::MAX)),
        (json!({"type": "integer"}), json!("1.5"), json!("1.5")),
        (json!({"type": "number"}), json!("inf"), json!("inf")),
        (json!({"type": "number"}), json!(""), json!("")),
        (json!({"type": "number"}), json!(true), json!(1)),
        (json!({"type": "integer"}), json!(null), json!(0)),
        (json!({"type": "boolean"}), json!("true"), json!(true)),
        (json!({"type": "boolean"}), json!(0), json!(false)),
        (json!({"type": "boolean"}), json!("yes"), json!("yes")),
        (json!({"type": "boolean"}), json!(null), json!(false)),
        (json!({"type": "string"}), json!(5), json!("5")),
        (json!({"type": "string"}), json!(false), json!("false")),
        (json!({"type": "string"}), json!(null), json!("")),
        (json!({"type": "string"}), json!([]), json!([])),
        (json!({"type": "array"}), json!("[1]"), json!([1])),
        (json!({"type": "array"}), json!("{}"), json!("{}")),
        (json!({"type": "array"}), json!(deep), json!(deep)),
        (json!({"type": "object"}), json!("{\"a\":1}"), json!({"a": 1})),
        (json!({"type": "null"}), json!(""), json!(null)),
        (json!({"type": "null"}), json!(0), json!(null)),
        (json!({"type": "null"}), json!(false), json!(null)),
        (json!({"type": ["null", "number"]}), json!("5"), json!(5)),
        (json!({"type": ["string", "null"]}), json!(null), json!(null)),
        (json!({"anyOf": [{"type": "null"}, {"type": "string"}]}), json!(0), json!("0")),
        (json!({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}), json!("true"), json!(true)),
        (json!({"allOf": [{"type": "number"}, {"minimum": 1}]}), json!("2"), json!(2)),
        (json!({"additionalProperties": {"type": "string"}}), json!({"A": 1}), json!({"A": "1"})),
        (
            json!({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "number"}}}),
            json!(["1"]),
            json!([1]),
        ),
    ];
    for (schema, value, want) in rows {
        assert_eq!(coerce(&schema, value.clone()), want, "{schema} {value}");
    }
}

/// tools#4.
#[test]
fn shims_of_the_core_tools() {
    let one = json!([{"oldText": "a", "newText": "b"}]);
    let want = json!({"path": "p", "edits": one});
    assert_eq!(ok("edit", json!({"path": "p", "oldText": "a", "newText": "b"})), want);
    assert_eq!(ok("edit", json!({"path": "p", "edits": one.to_string()})), want);
    assert_eq!(ok("edit", json!({"path": "p", "edits": one[0]})), want);
    let both = ok("edit", json!({"path": "p", "edits": one, "oldText": "c", "newText": "d"}));
    assert_eq!(both["edits"].as_array().unwrap().len(), 2);
    let patch = "*** Begin Patch\n*** End Patch";
    assert_eq!(ok("apply_patch", json!({"patch": patch})), json!({"input": patch}));
    let plain = arguments("apply_patch", Some(&json!(patch))).unwrap();
    assert_eq!(Value::Object(plain), json!({"input": patch}));
    let exec = ok("exec", json!({"command": "x", "timeoutSeconds": null, "env": {"A": 1}}));
    assert_eq!(exec, json!({"command": "x", "env": {"A": "1"}}));
    assert!(refused("exec", json!({"command": "x", "timeoutSeconds": -1})).contains("at least 0"));
    assert_eq!(ok("read", json!({"path": null, "limit": "3"})), json!({"path": "", "limit": 3}));
}

/// Schemas and values that would run away are refused, not followed.
#[test]
fn depth_and_work_are_bounded() {
    let twice = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "object"});
    assert!(check(&spec(twice.clone()), "t", &Map::new()).is_err());
    assert!(check(&spec(json!({"$ref": "#"})), "t", &Map::new()).is_err());
    assert!(check(&spec(json!({"$ref": "#/nowhere"})), "t", &Map::new()).is_err());
    let mut value = json!(1);
    for _ in 0..100 {
        value = json!({"a": value});
    }
    let nested = json!({"properties": {"a": {"$ref": "#"}}});
    let text = check(&spec(nested), "t", &map(value)).unwrap_err().text;
    assert!(text.contains("nested too deeply") && text.len() < 2_000, "{text}");
    for schema in [json!(null), json!(5), json!({"type": 5, "required": 7, "enum": {}})] {
        assert!(check(&spec(schema), "t", &map(json!({"a": 1}))).is_ok());
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn value(rng: &mut Rng, depth: u64) -> Value {
    match rng.below(if depth == 0 { 9 } else { 12 }) {
        0 => json!(null),
        1 => json!(rng.below(2) == 0),
        2 => json!(rng.below(4)),
        3 => json!(-1.5),
        4 => json!(2.0),
        5 => json!(["", "1", "true", "漢字", "[1]", "{\"a\":1}"][rng.below(6) as usize]),
        6 => json!("ab"),
        7 => json!(u64::MAX),
        8 => json!("2"),
        9 => (0..rng.below(3)).map(|_| value(rng, depth - 1)).collect(),
        _ => {
            let mut fields = Map::new();
            for _ in 0..rng.below(3) {
                fields.insert(NAMES[rng.below(3) as usize].into(), value(rng, depth - 1));
            }
            Value::Object(fields)
        }
    }
}

fn schema(rng: &mut Rng, depth: u64) -> Value {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.into(), value);
    for _ in 0..1 + rng.below(3) {
        let type_name = |rng: &mut Rng| {
            let all = ["array", "boolean", "integer", "null", "number", "object", "string"];
            all[rng.below(7) as usize]
        };
        match rng.below(if depth == 0 { 9 } else { 16 }) {
            0..=2 => put("type", json!(type_name(rng))),
            3 => {
                let (one, two) = (type_name(rng), type_name(rng));
                put("type", if one == two { json!([one]) } else { json!([one, two]) })
            }
            4 => put("enum", json!([value(rng, 1)])),
            5 => put("const", value(rng, 1)),
            6 => put(["minimum", "maximum"][rng.below(2) as usize], json!(rng.below(3))),
            7 => put(["minLength", "maxLength"][rng.below(2) as usize], json!(rng.below(3))),
            8 => put("required", json!([NAMES[rng.below(3) as usize]])),
            9 => put("items", schema(rng, depth - 1)),
            10 => put(
                "additionalProperties",
                match rng.below(3) {
                    0 => json!(false),
                    _ => schema(rng, depth - 1),
                },
            ),
            11 => put("$ref", json!("#/$defs/x")),
            12 | 13 => {
                let mut inner = Map::new();
                inner.insert(NAMES[rng.below(3) as usize].into(), schema(rng, depth - 1));
                put("properties", Value::Object(inner))
            }
            _ => {
                let keyword = ["anyOf", "oneOf", "allOf"][rng.below(3) as usize];
                put(keyword, json!([schema(rng, depth - 1), schema(rng, depth - 1)]))
            }
        };
    }
    Value::Object(fields)
}

/// tools#3: our checker says yes exactly where a full implementation does; converting keeps what
/// fits and is settled after one pass wherever the result fits.
#[test]
fn agrees_with_a_full_implementation() {
    let mut rng = Rng(20);
    let (mut yes, mut mended) = (0, 0);
    for round in 0..3_000 {
        let mut schema = schema(&mut rng, 2);
        schema["$defs"] = json!({"x": self::schema(&mut rng, 0)});
        let oracle = jsonschema::validator_for(&schema).unwrap();
        for _ in 0..6 {
            let value = value(&mut rng, 2);
            let ours = schema::validate(&schema, &value).is_empty();
            assert_eq!(ours, oracle.is_valid(&value), "round {round}: {schema} {value}");
            let once = coerce(&schema, value.clone());
            if ours {
                yes += 1;
                assert_eq!(once, value, "what fits is left alone");
            } else if oracle.is_valid(&once) {
                mended += 1;
                assert_eq!(coerce(&schema, once.clone()), once, "round {round}: {schema} {value}");
            }
        }
    }
    assert!(yes > 1_000 && mended > 300, "the generator reaches both: {yes}, {mended}");
}
