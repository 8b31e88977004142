//! Cases of the decoder, each in every way of cutting its bytes.

use super::super::{Delta, End, Finished};
use super::*;
use crate::base::Rng;
use crate::base::limits::{ARGS_BYTES_MAX, CALLS_MAX};
use crate::model::fuzz::{decode, fuzz_stream};
use crate::transcript::{Block, StopReason};
use serde_json::{Value, json};

/// A stream of these chunks, with `[DONE]` at its end.
fn sse(chunks: &[Value]) -> String {
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    text
}

fn delta(delta: Value) -> Value {
    json!({ "id": "r1", "model": "m-1", "choices": [{ "index": 0, "delta": delta }] })
}

fn finish(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn call(index: Option<u64>, id: &str, name: &str, args: &str) -> Value {
    let mut call = json!({ "id": id, "function": { "name": name, "arguments": args } });
    if let Some(index) = index {
        call["index"] = json!(index);
    }
    delta(json!({ "tool_calls": [call] }))
}

/// Decodes whole and in pieces of several sizes; all must agree.
fn all_ways(stream: &str, why: Ended) -> (Vec<Delta>, End) {
    let bytes = stream.as_bytes();
    let whole = decode(bytes, &[], why.clone());
    for cuts in [&[1][..], &[2, 3, 5], &[7], &[64, 1]] {
        assert_eq!(decode(bytes, cuts, why.clone()), whole, "cuts {cuts:?}");
    }
    whole
}

fn done(stream: &str) -> Finished {
    match all_ways(stream, Ended::Closed).1 {
        End::Done(finished) => finished,
        End::Failed(failure, _) => panic!("{failure:?}"),
    }
}

fn failed(stream: &str, why: Ended) -> (FailKind, crate::transcript::Assistant) {
    match all_ways(stream, why).1 {
        End::Failed(failure, message) => (failure.kind, message),
        End::Done(finished) => panic!("{finished:?}"),
    }
}

fn text(finished: &Finished) -> String {
    crate::transcript::message::join_text(&finished.message.content)
}

fn calls(finished: &Finished) -> Vec<(String, String, Value)> {
    let own = |(id, name, args): (&str, &str, &serde_json::Map<String, Value>)| {
        (id.to_owned(), name.to_owned(), Value::Object(args.clone()))
    };
    finished.message.calls().map(own).collect()
}

fn named(id: &str, name: &str, args: Value) -> (String, String, Value) {
    (id.to_owned(), name.to_owned(), args)
}

/// M2, M8: a usual reply, with reasoning, text, usage and the provider's names.
#[test]
fn a_usual_reply() {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
        "prompt_tokens_details": { "cached_tokens": 60 } });
    let stream = sse(&[
        delta(json!({ "role": "assistant", "content": "" })),
        delta(json!({ "reasoning_content": "hm" })),
        delta(json!({ "content": "Hel" })),
        delta(json!({ "content": "lo" })),
        finish("stop"),
        json!({ "choices": [], "usage": usage }),
    ]);
    let (deltas, end) = all_ways(&stream, Ended::Closed);
    let want = [Delta::Start, Delta::Thinking("hm".into()), Delta::Text("Hello".into())];
    assert_eq!(deltas, want);
    let End::Done(Finished { message, bad_args }) = end else { panic!() };
    assert!(bad_args.is_empty());
    let thinking = Block::Thinking { thinking: "hm".into() };
    assert_eq!(message.content, [thinking, Block::text("Hello")]);
    assert_eq!(message.stop_reason, StopReason::Stop);
    assert_eq!(message.response_id.as_deref(), Some("r1"));
    assert_eq!(message.response_model.as_deref(), Some("m-1"));
    let usage = message.usage.unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.output, usage.total_tokens), (40, 60, 7, 107));
}

/// M7, B012: one id twice, and no ids at all: two calls, told apart by position.
#[test]
fn b012_duplicate_and_empty_ids_keep_their_positions() {
    for id in ["dup", ""] {
        let stream = sse(&[
            call(Some(0), id, "read", "{\"path\":\"a\"}"),
            call(Some(1), id, "read", "{\"path\":\"b\"}"),
            finish("tool_calls"),
        ]);
        let calls = calls(&done(&stream));
        assert_eq!(calls.len(), 2);
        assert_eq!((&calls[0].2["path"], &calls[1].2["path"]), (&json!("a"), &json!("b")));
        if id.is_empty() {
            assert_ne!(calls[0].0, calls[1].0);
            assert!(calls[0].0.starts_with("call_") && calls[0].0.len() == 29, "{}", calls[0].0);
        }
    }
    // All in one chunk, without numbers.
    let both = json!({ "tool_calls": [
        { "id": "dup", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } },
        { "id": "dup", "function": { "name": "read", "arguments": "{\"path\":\"b\"}" } }] });
    assert_eq!(calls(&done(&sse(&[delta(both), finish("tool_calls")]))).len(), 2);
}

/// M7, B085: another id on a known number opens another call.
#[test]
fn b085_same_index_other_id() {
    let stream = sse(&[
        call(Some(0), "k1", "stat", "{\"p\":1}"),
        call(Some(0), "k2", "stat", "{\"p\":2}"),
        finish("tool_calls"),
    ]);
    let want = [named("k1", "stat", json!({"p": 1})), named("k2", "stat", json!({"p": 2}))];
    assert_eq!(calls(&done(&stream)), want);
}

/// M7, B086, B087: pieces without numbers go to the call opened last; numbers may be mixed.
#[test]
fn b086_b087_missing_numbers() {
    let stream = sse(&[
        call(None, "c1", "lookup", "{\"key\":"),
        delta(json!({ "tool_calls": [{ "function": { "arguments": "\"north\"}" } }] })),
        call(None, "c2", "clock", "{\"z\":0}"),
        finish("tool_calls"),
    ]);
    let want =
        [named("c1", "lookup", json!({"key": "north"})), named("c2", "clock", json!({"z": 0}))];
    assert_eq!(calls(&done(&stream)), want);
    let mixed =
        sse(&[call(Some(0), "c1", "a", "{}"), call(None, "c2", "b", "{}"), finish("tool_calls")]);
    assert_eq!(calls(&done(&mixed)), [named("c1", "a", json!({})), named("c2", "b", json!({}))]);
}

/// M7, B088: arguments before the name are kept; without a name the calls cannot be read.
#[test]
fn b088_arguments_before_the_name() {
    let first = delta(json!({ "tool_calls": [
        { "id": "c1", "function": { "arguments": "{\"q\":" } }] }));
    let stream = sse(&[first.clone(), call(None, "c1", "search", "\"x\"}"), finish("tool_calls")]);
    let (deltas, end) = all_ways(&stream, Ended::Closed);
    let start = Delta::CallStart { index: 0, id: "c1".into(), name: "search".into() };
    let args = Delta::CallArgs { index: 0, text: "{\"q\":\"x\"}".into() };
    assert_eq!(deltas, [Delta::Start, start, args]);
    let End::Done(finished) = end else { panic!() };
    assert_eq!(calls(&finished), [named("c1", "search", json!({"q": "x"}))]);
    let (kind, _) = failed(&sse(&[first, finish("tool_calls")]), Ended::Closed);
    assert_eq!(kind, FailKind::MalformedCalls);
}

/// M8, B091: a stream that just ends is incomplete, whatever protocol it was.
#[test]
fn b091_closed_without_an_end() {
    let stream = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0}\n\n"
    );
    assert_eq!(failed(stream, Ended::Closed).0, FailKind::Incomplete);
}

/// M8, B092: the last word is an end also without a reason; a bare end of file is not.
#[test]
fn b092_done_without_a_reason() {
    let v1 = "data: {\"choices\":[{\"delta\":{\"content\":\"Seven.\"}}]}\n\ndata: [DONE]\n\n";
    let v2 = "data: {\"choices\":[{\"delta\":{\"content\":\"Seven.\"},\"finish_reason\":null}]}\n\n\
              data: {\"choices\":[]}\n\ndata: [DONE]\n\n";
    for stream in [v1, v2] {
        let finished = done(stream);
        assert_eq!(finished.message.stop_reason, StopReason::Stop);
        assert_eq!(text(&finished), "Seven.");
    }
    let v3 = "data: {\"choices\":[{\"delta\":{\"content\":\"Sev\"}}]}\n\n";
    let (kind, message) = failed(v3, Ended::Closed);
    assert_eq!(kind, FailKind::Incomplete);
    assert_eq!(message.stop_reason, StopReason::Error);
    assert_eq!(message.content, [Block::text("Sev")]);
    assert_eq!(message.error_code.as_deref(), Some("stream_incomplete"));
}

/// M8, B093: the last word ends the reply at once, before its blank line.
#[test]
fn b093_done_ends_at_once() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\
     \"finish_reason\":\"stop\"}]}\n\n\
                  data: [DONE]\n";
    let mut decoder = Decoder::new(Meta::default());
    assert_eq!(decoder.feed(stream.as_bytes(), &mut Vec::new()), Progress::Complete);
    assert!(matches!(decoder.finish(Ended::Closed, Millis(0), &mut Vec::new()), End::Done(_)));
}

/// M10, B095, B097: errors inside a good answer are typed by their text.
#[test]
fn b095_b097_errors_inside_a_stream() {
    let flat = "data: {\"choices\":null,\"error_type\":\"BadRequestError\",\"error_message\":\
                \"maximum context length is 8192 tokens, requested 9000\"}\n\ndata: [DONE]\n\n";
    assert_eq!(failed(flat, Ended::Closed).0, FailKind::ContextOverflow);
    let nested = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
                  data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\"}}\n\n";
    let (kind, message) = failed(nested, Ended::Closed);
    assert_eq!((kind, message.content), (FailKind::Overloaded, vec![Block::text("a")]));
    let bare = "event: error\nid: 77\nretry: 500\n\n";
    let (kind, message) = failed(bare, Ended::Closed);
    assert_eq!(kind, FailKind::Unknown);
    assert!(message.error_message.unwrap().contains("error"));
}

/// M11, B098: bodies that are no stream.
#[test]
fn b098_whole_bodies() {
    let kind = |body: &str| failed(body, Ended::Closed).0;
    assert_eq!(kind("{\"choices\":[]}"), FailKind::MalformedResponse);
    let auth = "{\"error\":{\"message\":\"bad key\",\"type\":\"authentication_error\"}}";
    assert_eq!(kind(auth), FailKind::Auth);
    assert_eq!(kind("<html>gateway</html>"), FailKind::MalformedResponse);
    assert_eq!(kind("Bad gateway\n"), FailKind::MalformedResponse);
    assert_eq!(kind(""), FailKind::Incomplete);
    let huge = format!("<html>{}", "x".repeat(100_000));
    assert!(failed(&huge, Ended::Closed).1.error_message.unwrap().len() < 1_024);
    let good = json!({ "id": "r", "choices": [{ "index": 0, "finish_reason": "stop",
        "message": { "role": "assistant", "content": "hi" } }] });
    assert_eq!(text(&done(&good.to_string())), "hi");
}

/// M1, B099: characters cut by a packet are not damaged.
#[test]
fn b099_cut_characters() {
    let stream = sse(&[
        delta(json!({ "content": "\u{1f30a}\u{6c34}" })),
        delta(json!({ "content": "\u{1f30a}\u{6c34}" })),
        call(Some(0), "c", "say", "{\"t\":\"\u{1f30a}\"}"),
        finish("tool_calls"),
    ]);
    let want = decode(stream.as_bytes(), &[], Ended::Closed);
    for cut in 1..stream.len() {
        assert_eq!(decode(stream.as_bytes(), &[cut, 0], Ended::Closed), want, "cut {cut}");
    }
    assert!(!format!("{want:?}").contains('\u{fffd}'));
    assert_eq!(want.0[1], Delta::Text("\u{1f30a}\u{6c34}\u{1f30a}\u{6c34}".into()));
}

/// M1, B103: a 5 MB line arrives in full, in time that grows with its length only.
#[test]
fn b103_a_long_line() {
    let big = "y".repeat(5_000_000);
    let stream = sse(&[delta(json!({ "content": big })), finish("stop")]);
    let (_, end) = decode(stream.as_bytes(), &[1_024], Ended::Closed);
    let End::Done(finished) = end else { panic!() };
    assert_eq!(text(&finished), big);
    let line = "data: ".to_owned() + &"z".repeat(STREAM_LINE_BYTES_MAX);
    let (_, end) = decode(line.as_bytes(), &[65_536], Ended::Closed);
    assert!(matches!(end, End::Failed(Failure { kind: FailKind::TooLarge, .. }, _)));
}

/// M8, B106: a break behind the reason to stop costs the usage, nothing else.
#[test]
fn b106_reset_after_the_reason() {
    let stream = sse(&[delta(json!({ "content": "x" })), finish("stop")]);
    let stream = stream.replace("data: [DONE]\n\n", "");
    let (_, end) = all_ways(&stream, Ended::Cut("reset".into()));
    let End::Done(finished) = end else { panic!("{end:?}") };
    assert_eq!((text(&finished).as_str(), finished.message.usage), ("x", None));
}

/// M8, B108, B109: a break before it is a failure that keeps what was said; the kinds that the
/// caller retries are marked so.
#[test]
fn b108_b109_a_break_before_the_reason() {
    let stream = sse(&[delta(json!({ "reasoning": "hm" })), delta(json!({ "content": " " }))]);
    let stream = stream.replace("data: [DONE]\n\n", "");
    let (kind, message) = failed(&stream, Ended::Cut("reset".into()));
    assert_eq!(kind, FailKind::Network);
    assert!(kind.retryable());
    let text = crate::transcript::message::join_text(&message.content);
    assert!(text.trim().is_empty(), "nothing visible was delivered");
    let (kind, _) = failed(&sse(&[finish("length")]), Ended::Closed);
    assert_eq!(kind, FailKind::Length);
    assert!(!kind.retryable());
}

/// M9, B110: every way of saying "no arguments" means the empty object.
#[test]
fn b110_no_arguments() {
    let variants = [
        json!({"name": "now", "arguments": ""}),
        json!({"name": "now", "arguments": null}),
        json!({"name": "now"}),
        json!({"name": "now", "arguments": "   "}),
    ];
    for function in variants {
        let call = json!({ "index": 0, "id": "c", "function": function });
        let finished = done(&sse(&[delta(json!({ "tool_calls": [call] })), finish("tool_calls")]));
        assert_eq!(calls(&finished), [named("c", "now", json!({}))]);
        assert!(finished.bad_args.is_empty());
    }
}

/// M9, B111: arguments as an object, streamed or whole.
#[test]
fn b111_arguments_as_an_object() {
    let call = json!({ "id": "c1", "type": "function",
        "function": { "name": "read", "arguments": { "path": "a.txt" } } });
    let want = [named("c1", "read", json!({"path": "a.txt"}))];
    let part = json!({ "tool_calls": [call] });
    assert_eq!(calls(&done(&sse(&[delta(part.clone()), finish("tool_calls")]))), want);
    let body = json!({ "choices": [{ "message": part, "finish_reason": "tool_calls" }] });
    assert_eq!(calls(&done(&body.to_string())), want);
}

/// M9, B114: fragments are never parsed before the end, and string literals are mended. (Where
/// mending fails the reply is a failure, not a result: semantics 3.3 wins over the case.)
#[test]
fn b114_literals_are_mended_at_the_end() {
    let stream = sse(&[
        call(Some(0), "c", "edit", "{\"old\":\"a\nb\",\"new\":"),
        call(Some(0), "", "", "\"\\U0001F600\"}"),
        finish("tool_calls"),
    ]);
    let want = json!({"old": "a\nb", "new": "\\U0001F600"});
    assert_eq!(calls(&done(&stream)), [named("c", "edit", want)]);
    let stream = sse(&[
        delta(json!({ "content": "so" })),
        call(Some(0), "c", "edit", "{bad"),
        finish("tool_calls"),
    ]);
    let (kind, message) = failed(&stream, Ended::Closed);
    assert_eq!((kind, message.content), (FailKind::MalformedCalls, vec![Block::text("so")]));
}

/// M9, B115: JSON that is no object spoils only its own call.
#[test]
fn b115_arguments_that_are_no_object() {
    for args in ["null", "[]", "\"x\"", "5", "true"] {
        let stream = sse(&[
            call(Some(0), "c0", "good", "{\"a\":1}"),
            call(Some(1), "c1", "bad", args),
            finish("tool_calls"),
        ]);
        let finished = done(&stream);
        assert_eq!(calls(&finished)[1], named("c1", "bad", json!({})));
        let [(1, error)] = finished.bad_args.as_slice() else { panic!("{finished:?}") };
        assert!(error.len() < 1_000);
    }
}

/// M9, B116: broken JSON and a call without a name are one kind, so that one counter sees both.
#[test]
fn b116_unusable_calls_are_one_kind() {
    for (name, args) in [("f", "{bad"), ("", "{\"args\":{}}")] {
        let stream = sse(&[call(Some(0), "c", name, args), finish("tool_calls")]);
        assert_eq!(failed(&stream, Ended::Closed).0, FailKind::MalformedCalls);
    }
}

/// M8: the table of reasons, with and without calls and text.
#[test]
fn reasons_to_stop() {
    let with = |reason: &str, say: &str, tool: bool| {
        let mut chunks = vec![delta(json!({ "content": say }))];
        if tool {
            chunks.push(call(Some(0), "c", "f", "{}"));
        }
        chunks.push(finish(reason));
        match all_ways(&sse(&chunks), Ended::Closed).1 {
            End::Done(f) => Ok((f.message.stop_reason, f.message.calls().count())),
            End::Failed(failure, _) => Err(failure.kind),
        }
    };
    assert_eq!(with("stop", "a", false), Ok((StopReason::Stop, 0)));
    assert_eq!(with("end", "a", false), Ok((StopReason::Stop, 0)));
    assert_eq!(with("stop", "", true), Ok((StopReason::ToolUse, 1)));
    assert_eq!(with("stop", "a", true), Ok((StopReason::Stop, 0)));
    assert_eq!(with("length", "a", true), Ok((StopReason::Length, 0)));
    assert_eq!(with("length", "", true), Err(FailKind::Length));
    for reason in ["tool_calls", "function_call", "tool_call"] {
        assert_eq!(with(reason, "a", true), Ok((StopReason::ToolUse, 1)));
        assert_eq!(with(reason, "a", false), Ok((StopReason::Stop, 0)));
    }
    assert_eq!(with("content_filter", "a", false), Err(FailKind::Refusal));
    assert_eq!(with("network_error", "a", false), Err(FailKind::Network));
    assert_eq!(with("whatever", "a", false), Err(FailKind::Unknown));
    assert_eq!(with("stop", "", false), Err(FailKind::Empty));
}

/// M7: the legacy form of a call.
#[test]
fn legacy_function_calls() {
    let stream = sse(&[
        delta(json!({ "function_call": { "name": "read", "arguments": "{\"path\":" } })),
        delta(json!({ "function_call": { "arguments": "\"a\"}" } })),
        finish("function_call"),
    ]);
    let calls = calls(&done(&stream));
    assert_eq!((calls[0].1.as_str(), &calls[0].2), ("read", &json!({"path": "a"})));
    assert_eq!(calls[0].0.len(), 29);
}

/// M8: being stopped wins over everything, and is told apart from a failure.
#[test]
fn a_stopped_reply() {
    let stream = sse(&[delta(json!({ "content": "x" })), call(Some(0), "c", "f", "{}")]);
    let (_, message) = failed(&stream, Ended::Aborted("user".into()));
    assert_eq!(message.stop_reason, StopReason::Aborted);
    assert_eq!(message.error_message.as_deref(), Some("user"));
    assert_eq!(message.content, [Block::text("x")]);
}

/// M6: calls and arguments have bounds.
#[test]
fn bounds_are_held() {
    let many: Vec<Value> =
        (0..=CALLS_MAX as u64).map(|n| call(Some(n), &format!("c{n}"), "f", "{}")).collect();
    let (_, end) = decode(sse(&many).as_bytes(), &[], Ended::Closed);
    assert!(matches!(end, End::Failed(Failure { kind: FailKind::TooLarge, .. }, _)));
    let long = call(Some(0), "c", "f", &"x".repeat(ARGS_BYTES_MAX + 1));
    let (_, end) = decode(sse(&[long]).as_bytes(), &[], Ended::Closed);
    assert!(matches!(end, End::Failed(Failure { kind: FailKind::TooLarge, .. }, _)));
}

/// M5: the short cut reads the same as the long way, also where texts hold what looks like JSON.
#[test]
fn the_short_cut_changes_nothing() {
    let texts = ["a", "b\"c", "d\\e", "\u{1f30a}", "\n", "{}", "f", " ", "g\"},{\"x\":\""];
    let chunks: Vec<Value> = texts.iter().map(|t| delta(json!({ "content": t }))).collect();
    let mut all = chunks;
    all.push(finish("stop"));
    assert_eq!(text(&done(&sse(&all))), texts.concat());
    let args = ["{\"a\":\"", "x\\n", "\u{1f30a}", "\"", "}"];
    let mut chunks = vec![call(Some(3), "c", "f", "")];
    let piece = |text: &str| json!([{ "index": 3, "function": { "arguments": text } }]);
    chunks.extend(args.iter().map(|text| delta(json!({ "tool_calls": piece(text) }))));
    chunks.push(finish("tool_calls"));
    let want = json!({"a": "x\n\u{1f30a}"});
    assert_eq!(calls(&done(&sse(&chunks))), [named("c", "f", want)]);
    // A quote that ends the text early is no text, and the data no JSON.
    let same = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let stream = same.repeat(2) + &same.replace("\"a\"", "\"a\"b\"");
    assert_eq!(failed(&stream, Ended::Closed).0, FailKind::MalformedResponse);
}

/// M1: cut surrogates and stray bytes do not cost the reply.
#[test]
fn damaged_texts_are_replaced() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(text(&done(stream)), "a\u{fffd}");
    let mut bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"a".to_vec();
    bytes.extend_from_slice(b"\xff\"}}]}\n\ndata: [DONE]\n\n");
    let (_, end) = decode(&bytes, &[], Ended::Closed);
    let End::Done(finished) = end else { panic!() };
    assert_eq!(text(&finished), "a\u{fffd}");
}

/// M2: streams put together by chance from pieces that matter read the same however they are cut.
#[test]
fn seeded_streams_hold_the_rules() {
    let pieces: Vec<String> = [
        delta(json!({ "content": "hi" })),
        delta(json!({ "content": "\"\\\u{1f30a}" })),
        delta(json!({ "reasoning": "hm" })),
        call(Some(0), "a", "f", "{"),
        call(None, "", "", "}"),
        call(Some(1), "", "g", "[1]"),
        call(None, "b", "h", ""),
        finish("stop"),
        finish("tool_calls"),
        finish("length"),
        json!({ "choices": [], "usage": { "prompt_tokens": 3 } }),
        json!({ "error": "rate limit" }),
    ]
    .iter()
    .map(|chunk| format!("data: {chunk}\n\n"))
    .chain(
        [": ping\n", "event: error\n\n", "data: [DONE]\n\n", "\r\n", "data: {", "\u{feff}", "<"]
            .map(str::to_owned),
    )
    .collect();
    for seed in 0..3_000 {
        let mut rng = Rng(seed);
        let mut data: Vec<u8> = (0..5).map(|_| rng.below(256) as u8).collect();
        for _ in 0..rng.below(9) {
            data.extend_from_slice(pieces[rng.below(pieces.len() as u64) as usize].as_bytes());
            if rng.below(12) == 0 {
                data.push(rng.below(256) as u8);
            }
        }
        fuzz_stream(&data);
    }
}
