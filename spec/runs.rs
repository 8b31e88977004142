//! Runs, and changing conversations as a whole, through the built program (spec/cli.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::{Home, KEY, alive, nap, until};
use serde_json::{Value, json};

fn object(home: &Home, args: &[&str]) -> Value {
    let left = home.run(args);
    assert_eq!(left.status, Some(0), "{args:?}: {left:?}");
    serde_json::from_str(&left.out).unwrap()
}

fn said(home: &Home, run: &str, key: &str, message: &str) {
    home.run(&["agent", "-m", message, "--run-id", run, "--session-key", key]);
}

fn execute(home: &Home, sql: &str) -> usize {
    let db = rusqlite::Connection::open(home.state().join("agents/main/agent.sqlite")).unwrap();
    db.execute(sql, []).unwrap()
}

/// A run in a tool whose process is killed.
fn killed(home: &Home, run: &str) -> String {
    let nap = nap();
    let message = format!("run: sleep {nap}");
    let mut running = home.start(&["agent", "-m", &message, "--run-id", run]);
    until("the tool", || alive(&nap));
    home.until_row("SELECT 1 FROM calls WHERE pgid IS NOT NULL");
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    nap
}

/// L20: runs are listed, the latest first, of one conversation or of all.
#[test]
fn runs_are_listed() {
    let home = Home::new();
    let none = home.run(&["runs", "list"]);
    assert!(none.status == Some(0) && none.out.contains("No runs yet"), "{none:?}");
    said(&home, "run-one", "main", "say 1 word");
    said(&home, "run-two", "main", "fail");
    said(&home, "run-three", "other", "say 1 word");
    let text = home.run(&["runs", "list"]).out;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("RUN ") && lines[0].ends_with("STATE"), "{text}");
    assert!(lines[1].starts_with("run-three  agent:main:other ") && lines[1].contains(" ms  "));
    assert!(lines[2].starts_with("run-two ") && lines[2].contains("provider error "), "{text}");
    assert!(lines[3].starts_with("run-one ") && lines[3].ends_with("  completed"), "{text}");
    let ids = |args: &[&str]| -> Vec<String> {
        let list = object(&home, &[&["runs", "list", "--json"], args].concat());
        let runs = list["runs"].as_array().unwrap();
        assert_eq!(list["count"], runs.len());
        runs.iter().map(|r| r["runId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--session-key", "main"]), ["run-two", "run-one"]);
    assert_eq!(ids(&["--limit", "1"]), ["run-three"]);
    assert_eq!(ids(&["--agent", "nobody"]), [""; 0]);
    for (args, status) in [
        (&["runs", "list", "--session-key", "none"][..], 1),
        (&["runs", "list", "--session-key", "a b"], 2),
        (&["runs", "list", "--session-key", "agent:main:main", "--agent", "x"], 2),
        (&["runs", "list", "--limit", "0"], 2),
    ] {
        let left = home.run(args);
        assert_eq!((left.status, &*left.out), (Some(status), ""), "{args:?}");
        assert!(!left.err.is_empty(), "{args:?}");
    }
}

/// L20: a run is found by a beginning of its id that is its own.
#[test]
fn a_beginning_names_a_run() {
    let home = Home::new();
    said(&home, "abcdef-1", "main", "say 1 word");
    said(&home, "abcdef-12", "other", "say 1 word");
    let run = |name: &str| home.run(&["runs", "show", name]);
    assert!(run("abcdef-1").out.starts_with("run           abcdef-1\n"), "a whole id");
    let several = run("abcdef");
    assert_eq!((several.status, &*several.out), (Some(1), ""));
    assert!(several.err.contains("several runs") && several.err.contains("abcdef-12"));
    execute(&home, "UPDATE runs SET run_id = 'abcxyz' WHERE run_id = 'abcdef-1'");
    assert!(run("abcdef").out.contains("abcdef-12"));
    let short = run("abcxy");
    assert_eq!(short.status, Some(2));
    assert!(short.err.contains("needs 6 characters"), "{short:?}");
    assert!(run("abcxyz-no").err.contains("there is no run abcxyz-no"));
}

/// L20: what a run waited for is told phase by phase, the sums first.
#[test]
fn a_run_is_told_phase_by_phase() {
    let home = Home::new();
    said(&home, "told-run", "main", "say 1 word");
    execute(&home, "UPDATE runs SET phases = NULL, turn = NULL");
    assert!(home.run(&["runs", "show", "told-run"]).out.contains("was not recorded"));
    execute(
        &home,
        r#"UPDATE runs SET accepted_at = 1000, claimed_at = 1500, ended_at = 9000,
           turn = '{"arriving":"message","lane":"main","priority":"foreground","attempt":0}',
           phases = '{"stretches":[{"phase":"queued","at":1000},{"phase":"calling","at":1500},
           {"phase":"waiting","at":2000},{"phase":"calling","at":3000},{"phase":"ended","at":9000}
           ],"leftOut":0}'"#,
    );
    let text = home.run(&["runs", "show", "told-run"]).out;
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words:?} in\n{text}"));
    assert!(at("lane main, priority foreground") < at("(8.00 s later)"));
    assert!(at("calling  6.50 s   81%      2  the model") < at("the call failed"));
    assert!(at("waiting  1.00 s   12%      1  the time to try again") < at("AFTER"));
    assert!(at("1.00 s  waiting  1.00 s  it was time to try again") < at("6.00 s  completed"));
    let told = object(&home, &["runs", "show", "told-run", "--json"]);
    assert_eq!((&told["state"], &told["durationMs"]), (&json!("completed"), &json!(8_000)));
    assert_eq!(told["course"]["totals"][0], json!({"phase": "calling", "ms": 6_500, "times": 2}));
    assert_eq!(told["course"]["stretches"].as_array().unwrap().len(), 5);
    execute(&home, "UPDATE runs SET into_run = 'the-host'");
    let joined = home.run(&["runs", "show", "told-run"]).out;
    assert!(joined.contains("joined the-host, which was completed"), "{joined}");
}

/// L17: what lives is told from what was interrupted.
#[test]
fn the_interrupted_are_marked() {
    let home = Home::new();
    let state = |field: &str| {
        let list = object(&home, &["sessions", "list", "--json"]);
        assert_eq!(list["sessions"][0]["key"], KEY);
        list["sessions"][0][field].clone()
    };
    let run = home.start(&["agent", "-m", "wait 20", "--run-id", "living"]);
    home.until_active();
    assert_eq!(state("state"), "running");
    assert!(home.run(&["sessions", "list"]).out.contains("  run living"));
    assert!(home.run(&["runs", "list"]).out.contains("  running"));
    drop(run);
    assert_eq!(state("state"), "interrupted");
    assert!(home.run(&["sessions", "list"]).out.contains("interrupted: run living"));
    assert!(home.run(&["runs", "show", "living"]).out.contains("interrupted"));
    execute(&home, "UPDATE sessions SET active_run = NULL, interrupted = 1");
    assert_eq!(state("state"), "resumable");
    assert!(home.run(&["sessions", "show", KEY]).out.contains("to be taken up again"));
    assert_eq!(state("queueSettings"), Value::Null);
    execute(&home, "UPDATE sessions SET queue_settings = '{\"mode\":\"collect\"}'");
    assert_eq!(state("queueSettings"), "{\"mode\":\"collect\"}");
    let shown = home.run(&["sessions", "show", KEY]).out;
    for words in ["queue        {\"mode\":\"collect\"}", "began        ", "last spoken  "] {
        assert!(shown.contains(words), "{shown}");
    }
}

/// L18: a reset closes what a dead process left, drops what waits, and leaves the context behind.
#[test]
fn a_reset_begins_anew() {
    let home = Home::new();
    home.say("say 1 word");
    let nap = killed(&home, "dead-run");
    let waits = "INSERT INTO runs(run_id, session_id, entry, accepted_at, request) \
                 SELECT 'waits', session_id, '\"prompt\"', 1, 'h' FROM sessions";
    execute(&home, waits);
    let waits = "INSERT INTO queue(session_id, msg_id, kind, body, run_id) SELECT session_id, 9, \
                 'followup', '{\"content\":\"x\",\"timestamp\":1}', 'waits' FROM sessions";
    execute(&home, waits);
    let reset = home.run(&["sessions", "reset", "main", "--reason", "new", "--json"]);
    assert_eq!(reset.status, Some(0), "{reset:?}");
    assert!(reset.err.contains("run dead-run was interrupted; it is closed now"), "{reset:?}");
    assert!(reset.err.contains("ended process group"), "{reset:?}");
    until("the end of the survivor", || !alive(&nap));
    let value: Value = serde_json::from_str(&reset.out).unwrap();
    let shown = object(&home, &["sessions", "show", KEY, "--json"]);
    let want = json!({"ok": true, "key": KEY, "sessionId": shown["session"]["sessionId"],
        "revision": 1, "reason": "new", "dropped": 1, "closed": "dead-run"});
    assert_eq!(value, want);
    assert_eq!((&shown["waiting"], &shown["openCalls"]), (&json!(0), &json!(0)));
    let entries = shown["entries"].as_array().unwrap();
    let last = entries.last().unwrap();
    assert_eq!((&last["type"], &last["reason"]), (&json!("reset"), &json!("new")), "{last}");
    // The call has its one result, the runs their ends, and nothing is left to be closed.
    assert_eq!(home.results().len(), 1);
    let states: Vec<Value> = ["dead-run", "waits"]
        .map(|run| object(&home, &["runs", "show", run, "--json"])["state"].clone())
        .to_vec();
    assert_eq!(states, ["aborted by restart", "aborted by user"]);
    let next = home.run(&["agent", "-m", "say 1 word"]);
    assert_eq!((next.status, &*next.err), (Some(0), ""));
    let plain = home.run(&["sessions", "reset", KEY]);
    assert_eq!(plain.out, format!("{KEY} begins anew (revision 2)\n"));
}

/// L18, Z4, B206, B207: the message that finds its conversation stale begins it anew and is the
/// first of it; freshness is judged by what was before it.
#[test]
fn b206_an_idle_reset_comes_before_its_message() {
    let home = Home::new();
    home.config("{ session: { reset: { mode: 'idle', idleMinutes: 45 } } }");
    let back = |minutes: u32| {
        let sql = "UPDATE sessions SET interaction_at = interaction_at - 60000 *";
        execute(&home, &format!("{sql} {minutes}"));
    };
    home.say("say 1 word");
    back(30);
    let fresh = home.run(&["agent", "-m", "say 2 words"]);
    assert_eq!((&*fresh.out, &*fresh.err), ("one two\n", ""), "45 minutes are not over");
    back(95);
    let stale = home.run(&["agent", "-m", "say 3 words"]);
    assert_eq!((stale.status, &*stale.out), (Some(0), "one two three\n"));
    assert_eq!(stale.err, "stepclaw: a new beginning (idle)\n");
    let shown = object(&home, &["sessions", "show", KEY, "--json"]);
    assert_eq!(shown["session"]["revision"], 1);
    let entries = shown["entries"].as_array().unwrap();
    let at = entries.iter().position(|entry| entry["type"] == "reset").unwrap();
    assert_eq!((at, &entries[at]["reason"]), (4, &json!("idle")));
    let texts: Vec<Value> = home.messages().iter().map(|m| m["content"].clone()).collect();
    assert_eq!(texts[4], "say 3 words", "the first after the reset, and only there");
    assert_eq!(texts.iter().filter(|text| **text == "say 3 words").count(), 1);
    back(95);
    let json = object(&home, &["agent", "--json", "-m", "say 1 word"]);
    assert_eq!(json["result"]["payloads"].as_array().unwrap().len(), 1, "{json}");
}

/// L19: a deletion says what went, and leaves the runs known.
#[test]
fn a_deletion_says_what_went() {
    let home = Home::new();
    said(&home, "gone-run", "main", "say 1 word");
    let asked = home.run(&["sessions", "delete", KEY]);
    assert_eq!((asked.status, &*asked.out), (Some(2), ""));
    assert!(asked.err.contains("--yes"), "{asked:?}");
    let gone = home.run(&["sessions", "delete", KEY, "--yes"]);
    assert_eq!(gone.status, Some(0), "{gone:?}");
    assert!(gone.out.contains("is deleted, with 2 entries;"), "{gone:?}");
    assert_eq!(home.run(&["sessions", "show", KEY]).status, Some(1));
    let run = home.run(&["runs", "show", "gone-run"]).out;
    assert!(run.contains("conversation  deleted\n") && run.contains("completed"), "{run}");
    assert!(home.run(&["runs", "list"]).out.contains("(deleted)"));
    // A dead process's run is no obstacle, and the key is free again.
    killed(&home, "dead-run");
    let gone = object(&home, &["sessions", "delete", KEY, "--yes", "--json"]);
    assert_eq!(
        (&gone["ok"], &gone["key"], &gone["waiting"]),
        (&json!(true), &json!(KEY), &json!(0))
    );
    home.say("say 1 word");
}

/// L18: a living owner is named, and a conversation that is not there is not made.
#[test]
fn writers_take_the_lock() {
    let home = Home::new();
    for command in [&["sessions", "reset", KEY][..], &["sessions", "delete", KEY, "--yes"]] {
        let left = home.run(command);
        assert_eq!((left.status, &*left.out), (Some(1), ""), "{command:?}");
        assert!(left.err.contains("there is no conversation agent:main:main"), "{left:?}");
        assert!(!home.state().exists(), "nothing is made");
    }
    home.say("say 1 word");
    let owner = stepclaw::store::StateLock::take(&home.state(), "the owner (process 1)").unwrap();
    for command in [&["sessions", "reset", KEY][..], &["sessions", "delete", KEY, "--yes"]] {
        let left = home.run(command);
        assert_eq!((left.status, &*left.out), (Some(75), ""), "{command:?}");
        assert!(left.err.contains("in use by the owner (process 1)"), "{left:?}");
    }
    drop(owner);
    assert_eq!(home.run(&["sessions", "reset", "none"]).status, Some(1));
    assert_eq!(home.run(&["sessions", "reset", "a b"]).status, Some(2));
    assert_eq!(object(&home, &["sessions", "list", "--json"])["count"], 1);
}

/// L21: a pipe in place of a config or a database is named and not waited for.
#[test]
fn pipes_are_not_waited_for() {
    let pipe = |path: std::path::PathBuf| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let home = Home::new();
    pipe(home.state().join("stepclaw.json"));
    for args in [&["config", "validate"][..], &["sessions", "list"], &["agent", "-m", "x"]] {
        let left = home.start(args).end(5_000);
        assert_eq!(left.status, Some(2), "{left:?}");
        assert!(left.err.contains("stepclaw.json: it is not a regular file"), "{left:?}");
    }
    let home = Home::new();
    pipe(home.state().join("agents/main/agent.sqlite"));
    for args in [&["sessions", "list"][..], &["agent", "-m", "x"], &["sessions", "reset", "main"]] {
        let left = home.start(args).end(5_000);
        assert_eq!(left.status, Some(1), "{left:?}");
        assert!(left.err.contains("agent.sqlite is not a regular file"), "{left:?}");
    }
}
