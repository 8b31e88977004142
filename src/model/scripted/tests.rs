//! Cases of the offline model.

use super::*;
use crate::transcript::{Content, Custom, User};
use serde_json::json;

fn user(text: &str) -> Message {
    let content = Content::Text(text.into());
    Message::User(User { content, timestamp: Millis(0), idempotency_key: None })
}

fn result(id: &str, text: &str, is_error: bool) -> Message {
    Message::ToolResult(ToolResult {
        tool_call_id: id.into(),
        tool_name: "read".into(),
        content: vec![Block::text(text)],
        details: None,
        is_error,
        timestamp: Millis(0),
    })
}

/// Plays one reply.
fn turn(messages: &[Message]) -> (Vec<Delta>, End) {
    let (mut deltas, mut end) = (Vec::new(), None);
    run(messages, &CallHandle::new(), &|| Millis(9), &mut |event| match event {
        ModelEvent::Delta(delta) => crate::model::wire::push_delta(&mut deltas, delta),
        ModelEvent::End(it) => assert!(end.replace(*it).is_none(), "one end"),
        ModelEvent::Alive => {}
    });
    (deltas, end.unwrap())
}

/// Plays replies, answering every call, until a final answer; gives the calls of each round and
/// the answer. `steer` comes in behind the first round.
fn converse(
    messages: &mut Vec<Message>,
    steer: Option<&str>,
) -> (Vec<Vec<(String, Value)>>, String) {
    let mut rounds = Vec::new();
    loop {
        let End::Done(Finished { message, .. }) = turn(messages).1 else { panic!() };
        let calls: Vec<(String, String, Value)> = message
            .calls()
            .map(|(id, name, args)| (id.to_owned(), name.to_owned(), Value::Object(args.clone())))
            .collect();
        let text = message::join_text(&message.content);
        messages.push(Message::Assistant(message));
        if calls.is_empty() {
            return (rounds, text);
        }
        for (id, name, _) in &calls {
            messages.push(result(id, &format!("output of {name}"), name == "exec"));
        }
        if let Some(text) = steer.filter(|_| rounds.is_empty()) {
            messages.push(user(text));
        }
        rounds.push(calls.into_iter().map(|(_, name, args)| (name, args)).collect());
    }
}

fn one(name: &str, args: Value) -> Vec<(String, Value)> {
    vec![(name.to_owned(), args)]
}

/// M30: every request of the language, one round each.
#[test]
fn requests_become_calls() {
    let text = "list\nLIST src\nread a.txt\nwrite b.txt: one\\ntwo: 2\n\
                edit b.txt: one => 1\nrun: echo a: b; ls";
    let (rounds, answer) = converse(&mut vec![user(text)], None);
    let edits = json!([{"oldText": "one", "newText": "1"}]);
    let want = [
        one("ls", json!({"path": "."})),
        one("ls", json!({"path": "src"})),
        one("read", json!({"path": "a.txt"})),
        one("write", json!({"path": "b.txt", "content": "one\ntwo: 2"})),
        one("edit", json!({"path": "b.txt", "edits": edits})),
        one("exec", json!({"command": "echo a: b; ls"})),
    ];
    assert_eq!(rounds, want);
    assert!(answer.contains("3. read a.txt: worked. Output:\noutput of read"), "{answer}");
    assert!(answer.contains("6. run echo a: b; ls: failed."), "{answer}");
    assert!(!answer.contains("language model"), "{answer}");
}

/// M30: batches and sequences.
#[test]
fn together_and_then() {
    let read = |path: &str| ("read".to_owned(), json!({"path": path}));
    let (rounds, _) =
        converse(&mut vec![user("together: read a; read b\nthen: read c; read d")], None);
    assert_eq!(rounds, [vec![read("a"), read("b")], vec![read("c")], vec![read("d")]]);
}

/// M31: steering is taken up behind what is left of the plan; a new message begins a new plan.
#[test]
fn steering_waits_for_the_plan() {
    let read = |path: &str| vec![("read".to_owned(), json!({"path": path}))];
    let mut messages = vec![user("read a\nread b")];
    let (rounds, _) = converse(&mut messages, Some("read c"));
    assert_eq!(rounds, [read("a"), read("b"), read("c")]);
    messages.push(user("read d"));
    let (rounds, answer) = converse(&mut messages, None);
    assert_eq!(rounds, [read("d")]);
    assert!(!answer.contains("read a"), "{answer}");
    let mut ids: Vec<&str> = messages
        .iter()
        .filter_map(|m| if let Message::Assistant(reply) = m { Some(reply.calls()) } else { None })
        .flatten()
        .map(|(id, _, _)| id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "ids differ over the whole conversation");
}

/// M31: what was stopped or failed is not taken up again.
#[test]
fn a_stopped_plan_is_over() {
    let mut messages = vec![user("read a\nread b")];
    let End::Done(Finished { message, .. }) = turn(&messages).1 else { panic!() };
    let id = message.calls().next().unwrap().0.to_owned();
    messages.push(Message::Assistant(message));
    messages.push(result(&id, "x", true));
    messages.push(Message::Custom(Custom {
        custom_type: "openclaw:turn-aborted".into(),
        content: Content::Text("stopped".into()),
        display: false,
        details: None,
        timestamp: Millis(0),
    }));
    messages.push(user("say 2 words"));
    assert_eq!(plan(&messages), [Beat::Say("one two".into())]);
    let mut failed = vec![user("fail")];
    let End::Failed(failure, message) = turn(&failed).1 else { panic!() };
    assert!(!failure.kind.retryable());
    failed.push(Message::Assistant(message));
    failed.push(user("read z"));
    assert!(matches!(plan(&failed).as_slice(), [Beat::Call { name, .. }] if name == "read"));
}

/// M32: anything else is answered with what the script is; the words are streamed.
#[test]
fn it_says_what_it_is() {
    for text in ["Hello, who are you?", "read", "write x", "say many words", "fail whale", ""] {
        let (deltas, end) = turn(&[user(text)]);
        let End::Done(finished) = end else { panic!() };
        let answer = message::join_text(&finished.message.content);
        assert!(answer.contains("not a language model") && answer.contains("list [DIR]"), "{text}");
        assert_eq!(deltas, [Delta::Start, Delta::Text(answer)]);
    }
    let (rounds, answer) = converse(&mut vec![user("read a\nplease")], None);
    assert_eq!(rounds.len(), 1);
    assert!(answer.contains("did not understand \"please\""), "{answer}");
}

/// M32: words, waits and failures, in the order of the lines.
#[test]
fn words_waits_and_failures() {
    let (deltas, end) = turn(&[user("say 3 words\nwait 0.01\nfail rate_limit\nread a")]);
    assert_eq!(deltas, [Delta::Start, Delta::Text("one two three".into())]);
    let End::Failed(failure, message) = end else { panic!() };
    assert_eq!(failure.kind, FailKind::RateLimit);
    assert_eq!(message.error_code.as_deref(), Some("rate_limit"));
    assert_eq!(message.content, [Block::text("one two three")]);
}

/// M33: stopping ends a wait at once.
#[test]
fn stopping_ends_a_wait() {
    let handle = CallHandle::new();
    let own = handle.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        run(&[user("wait 60\nread a")], &own, &|| Millis(0), &mut |event| {
            let _ = tell.send(event);
        });
    });
    assert_eq!(told.recv().unwrap(), ModelEvent::Delta(Delta::Start));
    let start = std::time::Instant::now();
    handle.abort("user");
    let Ok(ModelEvent::End(end)) = told.recv() else { panic!() };
    assert!(start.elapsed() < Duration::from_secs(5));
    let End::Failed(failure, message) = *end else { panic!() };
    assert_eq!((failure.message.as_str(), message.stop_reason), ("user", StopReason::Aborted));
    worker.join().unwrap();
}
