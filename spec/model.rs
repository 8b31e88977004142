//! The built program against a server that speaks OpenAI chat completions (spec/model.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::{Home, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Requests = Arc<Mutex<Vec<Value>>>;

/// A server whose answers are given by request number, and the requests it was sent.
fn serve(home: &Home, answer: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Requests {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    home.config(&format!(
        "{{ models: {{ providers: {{ t: {{ baseUrl: '{url}', apiKey: 'sk-key', \
         models: [{{ id: 'm' }}] }} }} }}, agents: {{ defaults: {{ model: 't/m' }} }} }}"
    ));
    let requests = Requests::default();
    let (seen, answer) = (requests.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (seen, answer) = (seen.clone(), answer.clone());
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                while let Some(body) = request(&stream) {
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(body);
                        seen.len() - 1
                    };
                    answer(number, &mut stream);
                }
            });
        }
    });
    requests
}

fn request(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut key) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        key |= lower.starts_with("authorization: bearer sk-key");
        if line == "\r\n" {
            break;
        }
    }
    assert!(key, "the key is sent");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

fn head(stream: &mut TcpStream) {
    let text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    let _ = stream.write_all(format!("{text}\r\n\r\n").as_bytes());
}

fn chunk(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}

fn event(stream: &mut TcpStream, delta: Value, finish: Option<&str>) {
    let event = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    chunk(stream, &format!("data: {event}\n\n"));
}

/// The rest of an answer: the text, the reason, the marker and the end of the body.
fn finish(stream: &mut TcpStream, text: &str) {
    event(stream, json!({"content": text}), Some("stop"));
    chunk(stream, "data: [DONE]\n\n");
    chunk(stream, "");
}

fn whole(stream: &mut TcpStream, text: &str) {
    head(stream);
    finish(stream, text);
}

fn status(stream: &mut TcpStream, line: &str, headers: &str) {
    let body = "{\"error\":{\"message\":\"so it is\"}}";
    let length = body.len();
    let text = format!("HTTP/1.1 {line}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes());
}

fn cut(stream: &mut TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// L22, A1, A2: silence is kept, on a pipe and in the object; a glued token goes, the text stays.
#[test]
fn silence_is_not_an_answer() {
    let home = Home::new();
    serve(&home, |number, stream| {
        let texts = ["NO_REPLY", "**no_reply**", "All done.\n\nNO_REPLY"];
        whole(stream, texts[number]);
    });
    let silent = home.run(&["agent", "-m", "a"]);
    assert_eq!((silent.status, &*silent.out, &*silent.err), (Some(0), "", ""));
    let object = home.run(&["agent", "-m", "b", "--json"]);
    let object: Value = serde_json::from_str(&object.out).unwrap();
    assert_eq!((&object["status"], &object["result"]["payloads"]), (&json!("ok"), &json!([])));
    assert_eq!(home.say("c"), "All done.\n");
}

/// M1, M26: streamed text arrives whole, after what was asked.
#[test]
fn text_is_streamed() {
    let home = Home::new();
    let requests = serve(&home, |_, stream| {
        head(stream);
        for word in ["Grü", "ße, ", "\u{1f600}"] {
            event(stream, json!({"content": word}), None);
        }
        finish(stream, "!");
    });
    assert_eq!(home.say("hello"), "Grüße, \u{1f600}!\n");
    assert_eq!(home.say("and again"), "Grüße, \u{1f600}!\n");
    let requests = requests.lock().unwrap();
    let texts: Vec<&Value> = requests[1]["messages"].as_array().unwrap().iter().collect();
    assert_eq!(texts[0]["role"], "system");
    let tail: Vec<&Value> = texts[1..].iter().map(|m| &m["content"]).collect();
    assert_eq!(tail, ["hello", "Grüße, \u{1f600}!", "and again"]);
}

/// M22: results come back with the ids of their calls, in order.
#[test]
fn tools_make_a_round_trip() {
    let home = Home::new();
    let requests = serve(&home, |number, stream| {
        head(stream);
        if number > 0 {
            return finish(stream, "done");
        }
        for (i, word) in ["one", "two"].into_iter().enumerate() {
            let args = json!({"command": format!("echo {word}")}).to_string();
            let function = json!({"name": "exec", "arguments": args});
            let id = format!("call_{word}");
            let kind = "function";
            let call = json!({"index": i, "id": id, "type": kind, "function": function});
            event(stream, json!({"tool_calls": [call]}), None);
        }
        event(stream, json!({}), Some("tool_calls"));
        chunk(stream, "data: [DONE]\n\n");
        chunk(stream, "");
    });
    assert_eq!(home.say("go"), "done\n");
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    let messages = requests[1]["messages"].as_array().unwrap();
    let [asked, one, two] = &messages[2..] else { panic!("{messages:?}") };
    assert_eq!(asked["tool_calls"][1]["id"], "call_two");
    for (message, word) in [(one, "one"), (two, "two")] {
        assert_eq!(message["role"], "tool");
        assert_eq!(message["tool_call_id"], format!("call_{word}"));
        assert!(message["content"].as_str().unwrap().contains(word));
    }
}

/// L15: a command does not see the credentials of providers, so the model and the journal do not.
#[test]
fn credentials_are_not_passed_on() {
    let home = Home::new();
    let requests = serve(&home, |number, stream| {
        head(stream);
        if number > 0 {
            return finish(stream, "done");
        }
        let function = json!({"name": "exec", "arguments": "{\"command\":\"env\"}"});
        let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
        event(stream, json!({"tool_calls": [call]}), None);
        event(stream, json!({}), Some("tool_calls"));
        chunk(stream, "data: [DONE]\n\n");
        chunk(stream, "");
    });
    let mut command = home.command(&["agent", "-m", "go"]);
    command.env("A_KEY", "sk-key").env("A_WORD", "kept");
    assert!(command.output().unwrap().status.success());
    let sent = requests.lock().unwrap()[1].to_string();
    assert!(sent.contains("A_WORD=kept"), "{sent}");
    assert!(!sent.contains("sk-key"), "{sent}");
}

/// M12: an internal error is tried again, and said.
#[test]
fn an_internal_error_is_tried_again() {
    let home = Home::new();
    let requests = serve(&home, |number, stream| match number {
        0 => status(stream, "500 Internal Server Error", ""),
        _ => whole(stream, "fine"),
    });
    let left = home.run(&["agent", "-m", "x"]);
    assert_eq!((left.status, &*left.out), (Some(0), "fine\n"), "{left:?}");
    assert!(left.err.contains("trying again in") && left.err.contains("1 of"), "{left:?}");
    assert_eq!(requests.lock().unwrap().len(), 2);
}

/// M13: a throttle that names its time is waited for.
#[test]
fn a_throttle_is_waited_for() {
    let home = Home::new();
    serve(&home, |number, stream| match number {
        0 => status(stream, "429 Too Many Requests", "retry-after: 2\r\n"),
        _ => whole(stream, "fine"),
    });
    let begin = Instant::now();
    let left = home.run(&["agent", "-m", "x"]);
    assert_eq!((left.status, &*left.out), (Some(0), "fine\n"), "{left:?}");
    assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
}

/// M12: a refused key is not tried twice, nor is a malformed request.
#[test]
fn what_cannot_get_better_is_asked_once() {
    for line in ["401 Unauthorized", "400 Bad Request"] {
        let home = Home::new();
        let requests = serve(&home, move |_, stream| status(stream, line, ""));
        let left = home.run(&["agent", "-m", "x"]);
        assert_eq!((left.status, &*left.out), (Some(1), ""), "{left:?}");
        assert!(left.err.contains("so it is") && !left.err.contains("sk-key"), "{left:?}");
        assert_eq!(requests.lock().unwrap().len(), 1, "{line}");
    }
}

/// B091, B108: an answer that breaks off is no answer; the next attempt's text stands alone.
#[test]
fn b091_b108_a_cut_answer_is_not_shown_twice() {
    let home = Home::new();
    let requests = serve(&home, |number, stream| {
        head(stream);
        event(stream, json!({"content": "The answer is"}), None);
        match number {
            0 => {
                chunk(stream, "");
                cut(stream);
            }
            _ => finish(stream, " 42"),
        }
    });
    let left = home.run(&["agent", "-m", "x"]);
    assert_eq!((left.status, &*left.out), (Some(0), "The answer is 42\n"), "{left:?}");
    assert_eq!(left.err.matches("trying again").count(), 1, "{left:?}");
    assert_eq!(requests.lock().unwrap().len(), 2);
    let shown: Vec<String> = home.messages().iter().map(|m| m["content"].to_string()).collect();
    assert_eq!(shown.iter().filter(|text| text.contains("The answer is 42")).count(), 1);
    let second = requests.lock().unwrap()[1]["messages"].to_string();
    assert!(!second.contains("The answer is"), "a broken answer is not sent back: {second}");
}

/// B093: the marker ends the answer, whatever the socket does.
#[test]
fn b093_the_marker_is_the_end() {
    let home = Home::new();
    serve(&home, |_, stream| {
        head(stream);
        event(stream, json!({"content": "ok"}), Some("stop"));
        chunk(stream, "data: [DONE]\n\n");
        std::thread::sleep(Duration::from_secs(30));
    });
    let begin = Instant::now();
    assert_eq!(home.say("x"), "ok\n");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

/// B101: comments keep a stream alive. (That they reset the clock is held by the engine's tests;
/// here they must do no harm.)
#[test]
fn b101_comments_are_no_answer() {
    let home = Home::new();
    serve(&home, |_, stream| {
        head(stream);
        for _ in 0..20 {
            chunk(stream, ": keep-alive\n\n");
        }
        finish(stream, "ok");
    });
    assert_eq!(home.say("x"), "ok\n");
}

/// L9, B039: stopped before the first word and while it streams; what had come is kept.
#[test]
fn b039_stopped_in_the_answer() {
    for words in ["", "half a"] {
        let home = Home::new();
        let requests = serve(&home, move |number, stream| {
            if number > 0 {
                return whole(stream, "fine");
            }
            if !words.is_empty() {
                head(stream);
                event(stream, json!({"content": words}), None);
            }
            std::thread::sleep(Duration::from_secs(30));
        });
        let run = home.start(&["agent", "-m", "x"]);
        until("the request", || !requests.lock().unwrap().is_empty());
        std::thread::sleep(Duration::from_millis(100));
        run.signal(Signal::INT);
        let left = run.end(1_000);
        assert_eq!((left.status, &*left.out), (Some(130), ""), "{left:?}");
        let messages = home.messages();
        let stopped = messages.iter().find(|m| m["stopReason"] == "aborted").unwrap();
        assert_eq!(stopped["content"], json!([{"type": "text", "text": words}]));
        assert_eq!(home.say("y"), "fine\n");
    }
}

/// F14, F16: a request that is too large is made again, shorter; the history is not touched.
#[test]
fn an_overflow_is_compacted_and_asked_again() {
    let home = Home::new();
    let requests = serve(&home, |number, stream| match number {
        2 => {
            let body =
                "{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}";
            let length = body.len();
            let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json";
            let text = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(text.as_bytes());
        }
        3 => whole(stream, "The port is 8080."),
        _ => whole(stream, "fine"),
    });
    assert_eq!(home.say(&format!("first {}", "word".repeat(5_000))), "fine\n");
    assert_eq!(home.say(&format!("second {}", "word".repeat(5_000))), "fine\n");
    let third = home.run(&["agent", "-m", "third"]);
    assert_eq!((third.status, &*third.out), (Some(0), "fine\n"), "{}", third.err);
    assert!(third.err.contains("2 earlier messages were summed up"), "{}", third.err);
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 5);
    let asked = requests[3]["messages"].to_string();
    assert!(asked.contains("[User]: first") && !asked.contains("second"), "what goes is asked of");
    assert!(requests[3].get("tools").is_none_or(|tools| tools == &json!([])));
    let messages = requests[4]["messages"].as_array().unwrap();
    let text = |at: usize| messages[at]["content"].as_str().unwrap_or_default();
    assert!(text(1).contains("<summary>\nThe port is 8080.\n</summary>"), "{}", text(1));
    assert!(text(2).starts_with("second") && text(4) == "third", "{messages:?}");
    let shown = home.run(&["sessions", "export", "main"]);
    assert!(shown.out.contains("first word") && shown.out.contains("8080"), "{}", shown.out);
}

/// F8, F15: what cannot be made shorter ends the run, with words that help; nothing loops (B067).
#[test]
fn b067_an_overflow_that_stays_is_told() {
    let home = Home::new();
    let requests = serve(&home, |_, stream| {
        let body = "{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}";
        let length = body.len();
        let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json";
        let text = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        let _ = stream.write_all(text.as_bytes());
    });
    let run = home.run(&["agent", "-m", "first"]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("Begin anew with /new"), "{}", run.err);
    assert_eq!(requests.lock().unwrap().len(), 1);
}

fn prompt_of(request: &Value) -> String {
    let message = &request["messages"][0];
    assert_eq!(message["role"], "system");
    message["content"].as_str().unwrap().to_owned()
}

fn shown(home: &Home, more: &[&str]) -> Value {
    let left = home.run(&[&["prompt", "show", "--json"], more].concat());
    assert_eq!(left.status, Some(0), "{left:?}");
    serde_json::from_str(&left.out).unwrap()
}

/// PR1, PR13, PR19, PR20: what is sent is what `prompt show` shows; an edited file shows in the
/// next request, and what has changed since the last one is told.
#[test]
fn the_prompt_is_what_is_shown() {
    let home = Home::new();
    let requests = serve(&home, |_, stream| whole(stream, "fine"));
    home.say("one");
    let first = prompt_of(&requests.lock().unwrap()[0]);
    let show = shown(&home, &["--diff"]);
    let text = |value: &Value, part: &str| value[part].as_str().unwrap().to_owned();
    let both = format!("{}\n\n{}", text(&show, "stable"), text(&show, "volatile"));
    assert_eq!(first, both, "the same bytes");
    assert!(!first.contains("OPENCLAW_CACHE_BOUNDARY"));
    assert!(first.contains("# AGENTS.md") && first.contains("| model=t/m"), "{first}");
    assert_eq!(show["diff"]["changes"], json!([]));
    std::fs::write(home.work("AGENTS.md"), "Answer in rhymes.").unwrap();
    let table = home.run(&["prompt", "show", "--diff"]);
    assert!(table.out.contains("~ file:AGENTS.md") && table.out.contains("is another one"));
    home.say("two");
    let requests = requests.lock().unwrap();
    let second = prompt_of(&requests[1]);
    assert!(second.contains("Answer in rhymes.") && !second.contains("# AGENTS.md"));
    let rules = |prompt: &str| prompt.split("# Project Context").next().unwrap().to_owned();
    assert_eq!(rules(&first), rules(&second));
    assert_eq!(shown(&home, &["--diff"])["diff"]["keyChanged"], false);
    let none = home.run(&["prompt", "show", "--diff", "--session-key", "other"]);
    assert_eq!(none.status, Some(1), "{none:?}");
    assert!(none.err.contains("no request of agent:main:other is on record"), "{none:?}");
}

/// PR2, PR3: a child's conversation gets its rules alone; another folder adds its own.
#[test]
fn a_prompt_depends_on_its_session() {
    let home = Home::new();
    let requests = serve(&home, |_, stream| whole(stream, "fine"));
    let child = "agent:main:subagent:1";
    home.run(&["agent", "-m", "one", "--session-key", child]);
    let folder = home.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("AGENTS.md"), "Rules of the folder.").unwrap();
    home.run(&["agent", "-m", "two", "--cwd", folder.to_str().unwrap()]);
    home.config(&{
        let file = home.state().join("stepclaw.json");
        let text = std::fs::read_to_string(file).unwrap();
        text.replace("model: 't/m'", "model: 't/m', contextInjection: 'never'")
    });
    home.run(&["agent", "-m", "three"]);
    let requests = requests.lock().unwrap();
    let [one, two, three] = [0, 1, 2].map(|n| prompt_of(&requests[n]));
    assert!(one.contains("# AGENTS.md") && !one.contains("# SOUL.md"), "{one}");
    assert!(!one.contains("NO_REPLY") && one.contains("for another agent"), "{one}");
    let ends = two.split("Rules of the folder.").collect::<Vec<_>>();
    assert!(ends[0].contains("# SOUL.md") && ends[1].starts_with("\n\n## Temporal Context"));
    assert!(!three.contains("# Project Context") && three.contains("## Workspace"), "{three}");
}

/// PR13: a gateway's runs have the prompt that a process for one run has.
#[test]
fn a_gateway_sends_the_same_prompt() {
    let home = Home::new();
    let requests = serve(&home, |_, stream| whole(stream, "fine"));
    home.say("one");
    let mut child = home.command(&["gateway", "--json", "--port", "0"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let gateway = common::Running(child);
    home.say("two");
    std::fs::write(home.work("SOUL.md"), "Be brief.").unwrap();
    home.run(&["agent", "-m", "three", "--session-key", "other"]);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.end(20_000).status, Some(0));
    let requests = requests.lock().unwrap();
    let [one, two, three] = [0, 1, 2].map(|n| prompt_of(&requests[n]));
    assert_eq!(one, two);
    assert!(three.contains("Be brief.") && three.contains("session=agent:main:other"));
}
