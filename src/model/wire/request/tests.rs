//! Cases of the encoder.

use super::*;
use crate::base::{Millis, Rng};
use crate::transcript::{Custom, StopReason, User};

fn user(text: &str) -> Message {
    let content = Content::Text(text.into());
    Message::User(User { content, timestamp: Millis(0), idempotency_key: None })
}

fn reply(content: Vec<Block>, stop_reason: StopReason) -> Message {
    Message::Assistant(Assistant {
        content,
        api: String::new(),
        provider: String::new(),
        model: String::new(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason,
        error_message: None,
        error_code: None,
        timestamp: Millis(0),
    })
}

fn call(id: &str, args: Value) -> Block {
    let arguments = args.as_object().cloned().unwrap_or_default();
    Block::ToolCall { id: id.into(), name: "read".into(), arguments }
}

fn calling(ids: &[&str]) -> Message {
    reply(ids.iter().map(|id| call(id, json!({"path": id}))).collect(), StopReason::ToolUse)
}

fn result(id: &str, content: Vec<Block>) -> Message {
    Message::ToolResult(ToolResult {
        tool_call_id: id.into(),
        tool_name: "read".into(),
        content,
        details: None,
        is_error: false,
        timestamp: Millis(0),
    })
}

fn text_result(id: &str, text: &str) -> Message {
    result(id, vec![Block::text(text)])
}

fn image() -> Block {
    Block::Image { data: "QUJD".into(), mime_type: "image/png".into() }
}

fn encoder(compat: Compat, messages: &[Message]) -> Encoder {
    let mut encoder = Encoder::new(compat);
    messages.iter().for_each(|message| encoder.push(message));
    encoder
}

fn sent(compat: Compat, messages: &[Message]) -> Vec<Value> {
    let params = Params { model: "m", ..Params::default() };
    let request = encoder(compat, messages).request(&params);
    let body: Value = serde_json::from_slice(&request).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Ids of calls and of results in the order in which they are sent.
fn ids(messages: &[Value]) -> (Vec<String>, Vec<String>) {
    let own = |value: &Value| value.as_str().unwrap().to_owned();
    let calls = messages.iter().filter_map(|m| m["tool_calls"].as_array()).flatten();
    let calls = calls.map(|call| own(&call["id"])).collect();
    let results = messages.iter().filter(|m| m["role"] == "tool");
    (calls, results.map(|m| own(&m["tool_call_id"])).collect())
}

/// M19: everything of a request has its place.
#[test]
fn a_whole_request() {
    let schema = json!({"type": "object"});
    let tool = |name| Tool { name, description: "d", parameters: &schema };
    let params = Params {
        model: "m",
        system: "be good",
        system_rest: "today",
        tools: &[tool("write"), tool("read")],
        max_tokens: Some(5),
        max_tokens_field: MaxTokensField::MaxCompletionTokens,
        usage: true,
        no_store: true,
        ..Params::default()
    };
    let request = encoder(Compat::default(), &[user("hi")]).request(&params);
    let body: Value = serde_json::from_slice(&request).unwrap();
    let function = |name: &str| {
        json!({"type": "function",
            "function": {"name": name, "description": "d", "parameters": {"type": "object"}}})
    };
    let want = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "be good\n\ntoday"},
            {"role": "user", "content": "hi"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 5,
        "store": false,
        "tools": [function("read"), function("write")],
    });
    assert_eq!(body, want);
}

/// M22, B009, B010: composite and overlong ids are cut to the wire's form, alike for call and
/// result, different for different ids, the same in the next request; the history keeps its own.
#[test]
fn b009_b010_ids_fit_the_wire() {
    let long = |tail: &str| format!("{}{tail}", "mcp__docs-lookup-x__search_everything_".repeat(2));
    let stored = [
        "call_aaaaaaaaaaaaaaaaaaaaaaaa|fc_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
            .into(),
        "call_aaaaaaaaaaaaaaaaaaaaaaaa|fc_c".into(),
        long("1"),
        long("2"),
        "a b/c".to_owned(),
    ];
    let names: Vec<&str> = stored.iter().map(String::as_str).collect();
    let mut messages = vec![user("go"), calling(&names)];
    messages.extend(names.iter().map(|id| text_result(id, "x")));
    let (calls, results) = ids(&sent(Compat::default(), &messages));
    assert_eq!(calls, results);
    assert_eq!(calls[0], "call_aaaaaaaaaaaaaaaaaaaaaaaa");
    assert_eq!(calls[4], "a_b_c");
    let mut unique = calls.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 5);
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    assert!(calls.iter().all(|id| id.len() <= 40 && id.bytes().all(legal)), "{calls:?}");
    messages.push(user("again"));
    assert_eq!(ids(&sent(Compat::default(), &messages)).0, calls);
}

/// M22, B011: nine letters and digits, without collisions; fitting ids pass unchanged.
#[test]
fn b011_nine_character_ids() {
    let compat = Compat { ids: IdStyle::Nine, ..Compat::default() };
    let mut ids = Ids::new(compat.ids);
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..10_000 {
        let id = ids.open(&format!("tooluse_Ab{n}xxxxxxxx"), "f");
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
        assert!(seen.insert(id));
    }
    assert_eq!(ids.open("abcDEF123", "f"), "abcDEF123");
    assert_ne!(ids.open("abcDEF123", "f"), "abcDEF123");
}

/// M22, B012: one id for two calls, or none: two ids on the wire, results in order of occurrence.
#[test]
fn b012_equal_ids_are_told_apart() {
    for id in ["dup", ""] {
        let messages =
            [user("go"), calling(&[id, id]), text_result(id, "first"), text_result(id, "second")];
        let sent = sent(Compat::default(), &messages);
        let (calls, results) = ids(&sent);
        assert_eq!(calls, results);
        assert_ne!(calls[0], calls[1]);
        assert_eq!((&sent[2]["content"], &sent[3]["content"]), (&json!("first"), &json!("second")));
    }
}

/// M20, B079: absent text is written as the backend wants it.
#[test]
fn b079_absent_text() {
    let content = |no_text| {
        let compat = Compat { no_text, ..Compat::default() };
        sent(compat, &[user("go"), calling(&["c"]), text_result("c", "x")])[1]
            .get("content")
            .cloned()
    };
    assert_eq!(content(NoText::Null), Some(Value::Null));
    assert_eq!(content(NoText::Empty), Some(json!("")));
    assert_eq!(content(NoText::Omitted), None);
}

/// M21, B110, B111: arguments are sent as canonical JSON text, empty ones as `{}`.
#[test]
fn b110_b111_arguments_are_text() {
    let blocks = vec![call("a", json!({})), call("b", json!({"z": 1, "a": [2]}))];
    let messages = [user("go"), reply(blocks, StopReason::ToolUse)];
    let sent = sent(Compat::default(), &messages);
    let args = |n: usize| sent[1]["tool_calls"][n]["function"]["arguments"].clone();
    assert_eq!((args(0), args(1)), (json!("{}"), json!("{\"a\":[2],\"z\":1}")));
}

/// M23: results without text, missing results, results without a call.
#[test]
fn results_are_complete() {
    let messages = [
        user("go"),
        calling(&["a", "b"]),
        result("a", vec![]),
        text_result("stray", "x"),
        user("next"),
    ];
    let sent = sent(Compat { result_name: true, ..Compat::default() }, &messages);
    let tool = |id: &str, text: &str| {
        let (role, name) = ("tool", "read");
        json!({"role": role, "tool_call_id": id, "name": name, "content": text})
    };
    assert_eq!(sent[2..4], [tool("a", "(no output)"), tool("b", "No result provided")]);
    assert_eq!(sent[4], json!({"role": "user", "content": "next"}));
    assert_eq!(sent.len(), 5);
}

/// M24: images of results follow the last result of their batch; models without eyes get a text.
#[test]
fn images_follow_the_results() {
    let messages =
        [user("go"), calling(&["a", "b"]), result("a", vec![image()]), text_result("b", "x")];
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}});
    let compat = Compat { images: true, assistant_after_result: true, ..Compat::default() };
    let seeing = sent(compat, &messages);
    assert_eq!(seeing[2]["content"], "(see attached image)");
    assert_eq!((&seeing[3]["role"], &seeing[4]["role"]), (&json!("tool"), &json!("assistant")));
    assert_eq!(seeing[5]["content"][1], url);
    let blind = sent(Compat::default(), &messages);
    assert_eq!(blind[2]["content"], IMAGE_OMITTED);
    assert_eq!(blind.len(), 4);
    let block = Message::User(User {
        content: Content::Blocks(vec![Block::text("look"), Block::text(" "), image()]),
        timestamp: Millis(0),
        idempotency_key: None,
    });
    let seen = sent(Compat { images: true, ..Compat::default() }, std::slice::from_ref(&block));
    assert_eq!(seen[0]["content"], json!([{"type": "text", "text": "look"}, url]));
    assert_eq!(sent(Compat::default(), &[block])[0]["content"], format!("look\n{IMAGE_OMITTED}"));
}

/// M25: failed replies leave a marker or nothing, reasoning is not sent, notes speak as the user.
#[test]
fn replies_that_are_not_sent() {
    let thinking = Block::Thinking { thinking: "hm".into() };
    let note = Message::Custom(Custom {
        custom_type: "openclaw:turn-aborted".into(),
        content: Content::Text("stopped".into()),
        display: false,
        details: None,
        timestamp: Millis(0),
    });
    let messages = [
        user("go"),
        reply(vec![Block::text("par")], StopReason::Error),
        reply(vec![], StopReason::Error),
        reply(vec![Block::text("x"), call("a", json!({}))], StopReason::Aborted),
        text_result("a", "x"),
        reply(vec![thinking.clone()], StopReason::Stop),
        note,
        reply(vec![thinking, Block::text("ok")], StopReason::Stop),
    ];
    let want = [
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "content": TURN_FAILED}),
        json!({"role": "user", "content": "stopped"}),
        json!({"role": "assistant", "content": "ok"}),
    ];
    assert_eq!(sent(Compat::default(), &messages), want);
}

/// M26: no text is empty, and some user message is always there.
#[test]
fn there_is_always_something_to_say() {
    assert_eq!(sent(Compat::default(), &[])[0]["role"], "user");
    assert_eq!(sent(Compat::default(), &[user(" ")])[0]["content"], NO_TEXT);
}

/// A message by chance, with ids that collide now and then.
fn any_message(rng: &mut Rng) -> Message {
    let id = ["a", "b", "", "a|x", "long_long_long_long_long_long_long_long_long"]
        [rng.below(5) as usize];
    let other = ["a", "b", "c"][rng.below(3) as usize];
    match rng.below(8) {
        0 | 1 => user(["x", "", "y"][rng.below(3) as usize]),
        2 | 3 => calling(&[id, other]),
        4 => result(id, vec![image()]),
        5 => text_result(other, "r"),
        6 => reply(vec![Block::text("t")], StopReason::Stop),
        _ => reply(vec![Block::text("t")], StopReason::Error),
    }
}

/// M27: bytes are only ever appended, a request never changes them, and what was sent is again the
/// beginning of what is sent next, once a batch is complete.
#[test]
fn requests_grow_at_their_end() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let compat = Compat {
            images: rng.below(2) == 0,
            assistant_after_result: rng.below(2) == 0,
            ..Compat::default()
        };
        let messages: Vec<Message> = (0..12).map(|_| any_message(&mut rng)).collect();
        let mut growing = Encoder::new(compat);
        for (count, message) in messages.iter().enumerate() {
            let before = growing.bytes().to_vec();
            let settled = growing.request(&Params::default());
            growing.push(message);
            assert!(growing.bytes().starts_with(&before), "seed {seed}");
            let again = encoder(compat, &messages[..=count]);
            assert_eq!(growing.bytes(), again.bytes(), "seed {seed}");
            let request = growing.request(&Params::default());
            let body: Value = serde_json::from_slice(&request).unwrap();
            let (mut calls, mut results) = ids(body["messages"].as_array().unwrap());
            calls.sort();
            results.sort();
            assert_eq!(calls, results, "seed {seed}: every call has its one result");
            calls.dedup();
            assert_eq!(calls.len(), results.len(), "seed {seed}: ids are unique");
            let result = matches!(message, Message::ToolResult(_));
            let had_user = messages[..count].iter().any(|m| matches!(m, Message::User(_)));
            if !result && had_user {
                let end =
                    settled.len() - settled.iter().rev().position(|b| *b == b']').unwrap() - 1;
                assert!(request.starts_with(&settled[..end]), "seed {seed}");
            }
        }
    }
}
