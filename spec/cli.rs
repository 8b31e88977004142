//! The built program as a person or a script uses it (spec/cli.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::{Home, KEY, alive, mode, nap, until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// L1: on a pipe there is the answer and nothing else.
#[test]
fn a_pipe_gets_the_answer_alone() {
    let home = Home::new();
    let left = home.run(&["agent", "-m", "say 3 words"]);
    assert_eq!((left.status, &*left.out, &*left.err), (Some(0), "one two three\n", ""));
    assert_eq!(mode(&home.state()), 0o700, "the state is its owner's alone");
    assert!(home.say("run: echo $((40 + 2))").contains("42"));
}

/// L2: the message may come on standard input.
#[test]
fn the_message_may_come_on_standard_input() {
    let home = Home::new();
    let mut child = home.command(&["agent"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("say 2 words\nsay 1 word\n".as_bytes()).unwrap();
    let left = common::Running(child).end(5_000);
    assert_eq!(left.status, Some(0), "{left:?}");
    assert!(left.out.contains("one two") && left.err.is_empty(), "{left:?}");
    let empty = home.run(&["agent"]);
    assert_eq!(empty.status, Some(2));
    assert!(empty.err.contains("there is no message"), "{empty:?}");
}

/// L3: statuses 0, 1, 2, 75 and 124; 130 is with the signals.
#[test]
fn statuses_say_how_it_ended() {
    let home = Home::new();
    assert_eq!(home.run(&["agent", "-m", "say 1 word"]).status, Some(0));
    let failed = home.run(&["agent", "-m", "fail"]);
    assert_eq!(failed.status, Some(1));
    assert!(failed.err.contains("the model failed"), "{failed:?}");
    for usage in [
        &["agent", "--no-such-flag"][..],
        &["agent", "-m", "x", "--session-key", "agent:a b:c"],
        &["agent", "-m", "x", "--session-key", "agent:main"],
        &["agent", "-m", "x", "--model", "no/such"],
        &["agent", "-m", "x", "--cwd", "/no/such/place"],
        &["sessions", "show", "agent:"],
        &[],
    ] {
        let left = home.run(usage);
        assert_eq!((left.status, &*left.out), (Some(2), ""), "{usage:?}");
        assert!(!left.err.is_empty(), "{usage:?}");
    }
    let lock = stepclaw::store::StateLock::take(&home.state(), "the owner (process 1)").unwrap();
    let locked = home.run(&["agent", "-m", "x"]);
    assert_eq!(locked.status, Some(75));
    assert!(locked.err.contains("in use by the owner (process 1)"), "{locked:?}");
    assert_eq!(home.run(&["sessions", "list"]).status, Some(0), "reading needs no lock");
    drop(lock);
    let late = home.run(&["agent", "-m", "wait 20", "--timeout", "1"]);
    assert_eq!(late.status, Some(124), "{late:?}");
}

/// L3: a run's id is not run twice.
#[test]
fn a_run_is_not_run_twice() {
    let home = Home::new();
    let args = ["agent", "-m", "run: echo x >> ran", "--run-id", "one"];
    assert_eq!(home.run(&args).status, Some(0));
    let again = home.run(&args);
    assert_eq!(again.status, Some(0), "its stored outcome");
    assert!(again.err.contains("run one was done before; it is not done again"), "{again:?}");
    let other = home.run(&["agent", "-m", "run: echo y >> ran", "--run-id", "one"]);
    assert_eq!(other.status, Some(1));
    assert!(other.err.contains("run one exists already, for another request"), "{other:?}");
    assert_eq!(std::fs::read_to_string(home.work("ran")).unwrap(), "x\n");
    home.say("say 1 word");
}

/// L4: one object, with the same names whatever happened.
#[test]
fn json_is_one_object() {
    let home = Home::new();
    let object = |message: &str| {
        let left = home.run(&["agent", "--json", "-m", message]);
        let value: Value = serde_json::from_str(&left.out).unwrap();
        (left, value)
    };
    let (left, good) = object("together: run: echo hi; run: exit 3");
    assert_eq!((left.status, &good["status"]), (Some(0), &Value::from("ok")));
    assert_eq!(good["termination"]["kind"], "completed");
    assert_eq!((&good["sessionKey"], &good["error"]), (&Value::from(KEY), &Value::Null));
    let calls = good["result"]["meta"]["toolCalls"].as_array().unwrap();
    let outcome = |i: usize| calls[i]["outcome"].as_str().unwrap();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|c| c["name"] == "exec" && c["started"] == true));
    let mut outcomes = [outcome(0), outcome(1)];
    outcomes.sort_unstable();
    assert!(outcomes.iter().all(|o| ["ok", "failed"].contains(o)), "{outcomes:?}");
    assert!(good["result"]["payloads"][0]["text"].as_str().unwrap().contains("hi"));
    let (left, bad) = object("fail");
    assert_eq!((left.status, &bad["status"]), (Some(1), &Value::from("error")));
    assert_eq!(bad["termination"]["kind"], "provider_error");
    let names = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&good), names(&bad));
    assert!(bad["error"].as_str().unwrap().contains("the model failed"));
    // L22: what is delivered of a run that failed is its error.
    let told = bad["result"]["payloads"].as_array().unwrap();
    assert_eq!(told.len(), 1, "{bad}");
    assert!(bad["error"].as_str().unwrap().contains(told[0]["text"].as_str().unwrap()), "{bad}");
}

/// L5: lines on standard input steer the run that goes on.
#[test]
fn lines_steer_a_run() {
    let home = Home::new();
    let mut command = home.command(&["agent", "--interactive"]);
    let mut run = common::Running(command.stdin(Stdio::piped()).spawn().unwrap());
    run.type_in("run: echo first >> log; until [ -f go ]; do sleep 0.01; done\n");
    until("the first tool", || home.work("log").exists());
    run.type_in("run: echo second >> log\n");
    home.until_row("SELECT 1 FROM queue WHERE kind = 'steer'");
    std::fs::write(home.work("go"), "").unwrap();
    let left = run.end(5_000);
    assert_eq!(left.status, Some(0), "{left:?}");
    assert_eq!(std::fs::read_to_string(home.work("log")).unwrap(), "first\nsecond\n");
    let roles: Vec<String> =
        home.messages().iter().map(|m| m["role"].as_str().unwrap().to_owned()).collect();
    let want = ["user", "assistant", "toolResult", "user", "assistant", "toolResult", "assistant"];
    assert_eq!(roles, want);
}

/// L6: conversations are listed, shown and written out.
#[test]
fn conversations_can_be_read() {
    let home = Home::new();
    let none = home.run(&["sessions", "list"]);
    assert!(none.status == Some(0) && none.out.contains("No conversations"), "{none:?}");
    assert_eq!(home.run(&["sessions", "show", KEY]).status, Some(1));
    home.say("run: echo '```'");
    home.run(&["agent", "-m", "say 1 word", "--session-key", "other"]);
    let list: Value = serde_json::from_str(&home.run(&["sessions", "list", "--json"]).out).unwrap();
    assert_eq!(list["count"], 2);
    assert_eq!(list["sessions"][0]["key"], "agent:main:other");
    let shown: Value =
        serde_json::from_str(&home.run(&["sessions", "show", KEY, "--json"]).out).unwrap();
    assert_eq!((&shown["openCalls"], &shown["waiting"]), (&Value::from(0), &Value::from(0)));
    assert_eq!(shown["entries"].as_array().unwrap().len(), 4);
    assert_eq!(shown["runs"][0]["termination"]["kind"], "completed");
    let show = home.run(&["sessions", "show", KEY]).out;
    assert!(show.contains("completed after"), "{show}");
    let export = |format: &str| home.run(&["sessions", "export", KEY, "--format", format]).out;
    assert!(export("text").contains("exec {\"command\":"));
    assert!(export("markdown").contains("````\n```\n````"), "the fence is longer than its text");
    let lines = export("jsonl");
    let values: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(values.len(), 5);
    for pair in values[1..].windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }
    let file = home.path("out.txt");
    let to = file.to_str().unwrap();
    assert_eq!(home.run(&["sessions", "export", KEY, "-o", to]).status, Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), export("text"));
}

/// L7: errors of the config name file, line and column, for every command.
#[test]
fn config_errors_have_a_place() {
    let home = Home::new();
    let path = home.run(&["config", "path"]).out;
    assert_eq!(path.trim_end(), home.state().join("stepclaw.json").to_str().unwrap());
    assert_eq!(home.run(&["config", "validate"]).status, Some(0));
    home.config("{ store: { synchronous: 'normal' } }");
    assert!(home.run(&["config", "show"]).out.contains("normal"));
    assert!(home.run(&["config", "validate"]).out.contains(": fine"));
    home.config("{\n  store: {},\n  agentz: {}\n}");
    for args in [&["config", "validate"][..], &["config", "show"], &["agent", "-m", "x"]] {
        let left = home.run(args);
        assert_eq!(left.status, Some(2), "{left:?}");
        let place = format!("{}:3:3:", path.trim_end());
        assert!(left.err.contains(&place) && left.err.contains("agentz"), "{left:?}");
    }
}

/// L8: help and completions come out of the same table.
#[test]
fn help_and_completions_exist() {
    let home = Home::new();
    for command in ["agent", "sessions", "runs", "config", "replay"] {
        assert!(home.run(&["--help"]).out.contains(command));
        let help = home.run(&[command, "--help"]);
        assert!(help.status == Some(0) && help.out.contains("Usage"), "{help:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = home.run(&["completions", shell]);
        assert!(text.status == Some(0) && text.out.contains("session-key"), "{shell}");
        assert!(["reset", "delete", "runs"].iter().all(|c| text.out.contains(c)), "{shell}");
    }
}

/// L9, B039: in each phase a signal ends the run within a second, with status 130 and nobody left.
/// (Phases of a provider's answer are in the tests of models; approval, compaction and lanes
/// belong to later parts.)
#[test]
fn b039_a_signal_ends_each_phase() {
    let nap = nap();
    let tool = format!("run: sleep {nap}");
    let both = format!("together: run: echo x; run: sleep {nap}");
    for (phase, message) in [
        ("before the first word", "wait 20"),
        ("tool", &tool),
        ("batch", &both),
        ("backoff", "fail network"),
    ] {
        let home = Home::new();
        let run = home.start(&["agent", "-m", message]);
        home.until_active();
        match phase {
            "tool" | "batch" => until(phase, || alive(&nap)),
            "backoff" => home.until_row("SELECT 1 FROM entries WHERE body LIKE '%network%'"),
            _ => {}
        }
        let begin = Instant::now();
        run.signal(Signal::INT);
        let left = run.end(1_000);
        assert_eq!(left.status, Some(130), "{phase}: {left:?}");
        assert!(left.err.contains("the run was aborted"), "{phase}: {left:?}");
        assert!(begin.elapsed() < Duration::from_secs(1));
        assert!(!alive(&nap), "{phase}: a descendant is left");
        let shown = home.run(&["sessions", "show", KEY]).out;
        assert!(
            shown.contains("0 open calls") && shown.contains("aborted by user after"),
            "{shown}"
        );
        home.say("say 1 word");
    }
}

/// L9, B039: between tools: nothing starts any more.
#[test]
fn b039_a_signal_between_tools() {
    let home = Home::new();
    let steps: Vec<String> = (0..150).map(|n| format!("run: echo {n} >> log")).collect();
    let run = home.start(&["agent", "-m", &format!("then: {}", steps.join("; "))]);
    until("some tools", || std::fs::read(home.work("log")).is_ok_and(|log| log.len() > 8));
    run.signal(Signal::INT);
    let left = run.end(1_000);
    assert_eq!(left.status, Some(130), "{left:?}");
    let count = std::fs::read_to_string(home.work("log")).unwrap().lines().count();
    assert!(count < 150);
    // Every call that was asked for has its result, and no more ran than results tell.
    assert!(home.results().len() >= count);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(std::fs::read_to_string(home.work("log")).unwrap().lines().count(), count);
}

/// L10: the second signal leaves at once, whatever the tool does, and the tool does not stay.
#[test]
fn the_second_signal_leaves_at_once() {
    let home = Home::new();
    let nap = nap();
    let run = home.start(&["agent", "-m", &format!("run: trap '' INT TERM HUP; sleep {nap}")]);
    until("the tool", || alive(&nap));
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(60));
    run.signal(Signal::INT);
    let left = run.end(1_000);
    assert_eq!(left.status, Some(130), "{left:?}");
    until("the end of the tool", || !alive(&nap));
}

/// L23: a detached run leaves nothing behind but what its tools did.
#[test]
fn a_detached_run_is_in_memory_alone() {
    let home = Home::new();
    let left = home.run(&["agent", "--detached", "-m", "run: echo x >> ran"]);
    assert_eq!(left.status, Some(0), "{left:?}");
    assert!(left.out.contains("worked"), "{left:?}");
    assert_eq!(std::fs::read_to_string(home.work("ran")).unwrap(), "x\n");
    let db = rusqlite::Connection::open(home.state().join("agents/main/agent.sqlite")).unwrap();
    for table in ["sessions", "entries", "runs", "calls", "queue"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = db.query_row(&sql, [], |r| r.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    let late = home.run(&["agent", "--detached", "-m", "wait 20", "--timeout", "1"]);
    assert_eq!(late.status, Some(124), "{late:?}");
}

/// F10, F14: a conversation is compacted on demand; without a summary this is said.
#[test]
fn a_conversation_is_compacted_on_demand() {
    let home = Home::new();
    home.config("{agents: {defaults: {compaction: {keepRecentTokens: 50}}}}");
    let short = home.run(&["agent", "-m", "/compact"]);
    assert_eq!(short.status, Some(0), "{}", short.err);
    assert!(short.err.contains("not compacted"), "{}", short.err);
    assert!(!short.err.contains("couldn't"), "nobody was to answer: {}", short.err);
    for _ in 0..3 {
        home.say("say 100 words");
    }
    let failed = home.run(&["agent", "-m", "/compact fail"]);
    assert!(failed.err.contains("removed WITHOUT a summary"), "{}", failed.err);
    for _ in 0..3 {
        home.say("say 100 words");
    }
    let done = home.run(&["agent", "-m", "/compact mind the ports"]);
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert!(done.err.contains("earlier messages were summed up"), "{}", done.err);
    assert!(!done.err.contains("couldn't") && done.out.is_empty(), "{done:?}");
    let shown = home.run(&["sessions", "export", "main"]);
    assert!(shown.out.contains("removed without a summary"), "{}", shown.out);
    assert!(shown.out.contains("## Goal"), "{}", shown.out);
    assert!(!shown.out.contains("/compact"), "the command is not for the model: {}", shown.out);
    assert_eq!(home.say("say 2 words").split_whitespace().count(), 2);
}

/// PR18, PR19: the first run gives the workspace its files; what is deleted stays deleted; showing
/// the prompt makes nothing.
#[test]
fn a_workspace_is_begun_once() {
    let home = Home::new();
    let show = home.run(&["prompt", "show"]);
    assert!(show.out.contains("missing") && show.out.contains("OPENCLAW_CACHE_BOUNDARY"));
    assert!(!home.state().exists(), "looking makes nothing");
    assert_eq!(home.run(&["agent", "--local", "-m", "say 1 word"]).status, Some(0));
    let first = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md"];
    assert!(first.iter().all(|name| home.work(name).is_file()));
    let show = home.run(&["prompt", "show"]);
    let layers = ["identity", "tooling", "safety", "file:BOOTSTRAP.md", "temporal context"];
    let places: Vec<usize> = layers.iter().map(|l| show.out.find(l).unwrap()).collect();
    assert!(places.is_sorted(), "{}", show.out);
    std::fs::write(home.work("SOUL.md"), "mine").unwrap();
    std::fs::remove_file(home.work("BOOTSTRAP.md")).unwrap();
    home.say("say 1 word");
    assert!(!home.work("BOOTSTRAP.md").exists());
    assert_eq!(std::fs::read_to_string(home.work("SOUL.md")).unwrap(), "mine");
    let text = home.run(&["prompt", "show", "--text"]).out;
    assert!(text.contains("\nmine\n") && !text.contains("BOOTSTRAP.md below"), "{text}");
    let bare = Home::new();
    bare.config("{ agents: { defaults: { skipBootstrap: true } } }");
    bare.say("say 1 word");
    assert_eq!(std::fs::read_dir(bare.work(".")).unwrap().count(), 0);
}
