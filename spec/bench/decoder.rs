//! How fast a stream is decoded, beside what any decoder would have to beat: splitting the same
//! bytes into lines and parsing every chunk into a `serde_json::Value`.
//!
//! `cargo bench --bench decoder`

use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;
use stepclaw::base::Millis;
use stepclaw::model::wire::openai::{Decoder, Ended, Meta};

/// Bytes of one stream.
const STREAM_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;
/// The best of so many rounds counts: the others met a busy machine.
const ROUNDS: usize = 7;

fn chunk(delta: &Value) -> String {
    let chunk = json!({
        "id": "chatcmpl-0123456789abcdef0123456789",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "some-model-2025",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": null }],
    });
    format!("data: {chunk}\n\n")
}

fn stream(delta: impl Fn(usize) -> Value) -> String {
    let mut text = chunk(&json!({ "role": "assistant", "content": "" }));
    let mut count = 0;
    while text.len() < STREAM_BYTES {
        text.push_str(&chunk(&delta(count)));
        count += 1;
    }
    text.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
    text.push_str("data: [DONE]\n\n");
    text
}

fn decode(stream: &str) {
    let mut decoder = Decoder::new(Meta::default());
    let mut deltas = Vec::new();
    for read in stream.as_bytes().chunks(READ_BYTES) {
        decoder.feed(read, &mut deltas);
        black_box(&deltas);
        deltas.clear();
    }
    black_box(decoder.finish(Ended::Closed, Millis(0), &mut deltas));
}

fn baseline(stream: &str) {
    let mut text = String::new();
    for line in stream.lines() {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let Ok(value) = serde_json::from_str::<Value>(data) else { continue };
        if let Some(more) = value["choices"][0]["delta"]["content"].as_str() {
            text.push_str(more);
        }
    }
    black_box(text);
}

fn speed(stream: &str, run: fn(&str)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run(black_box(stream));
        best = best.min(start.elapsed().as_secs_f64());
    }
    stream.len() as f64 / best / 1e6
}

fn main() {
    let args = |n: usize| {
        // A call every few hundred pieces, so that arguments stay within their bound.
        let (index, first) = (n / 400, n.is_multiple_of(400));
        let mut call = json!({ "index": index, "function": { "arguments": "\\\"word" } });
        if first {
            call["id"] = json!(format!("call_{index}"));
            call["function"]["name"] = json!("write");
        }
        json!({ "tool_calls": [call] })
    };
    let mixed = |n: usize| {
        let text = ["line\n\"q\"", " token"][n % 2];
        json!({ "content": text })
    };
    let cases: [(&str, String); 4] = [
        ("plain deltas", stream(|_| json!({ "content": " token" }))),
        ("deltas with escapes", stream(mixed)),
        ("varying chunks", stream(|n| json!({ "content": " token", "n": n }))),
        ("tool arguments", stream(args)),
    ];
    println!("{:<22}{:>14}{:>14}{:>8}", "stream", "decoder MB/s", "Value MB/s", "times");
    for (name, stream) in &cases {
        let (ours, theirs) = (speed(stream, decode), speed(stream, baseline));
        println!("{name:<22}{ours:>14.0}{theirs:>14.0}{:>8.1}", ours / theirs);
    }
}
