//! The command line and a gateway that runs beside it (spec/gateway.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::{Home, Running};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};

fn start(home: &Home) -> Running {
    let args = ["gateway", "--json", "--port", "0"];
    let mut child = home.command(&args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"ready\""), "{line}");
    Running(child)
}

fn json(home: &Home, args: &[&str]) -> Value {
    let left = home.run(args);
    assert_eq!(left.status, Some(0), "{args:?}: {left:?}");
    serde_json::from_str(&left.out).unwrap()
}

/// The first start makes a token for its owner alone; the command line finds it, and the gateway.
#[test]
fn commands_find_the_gateway() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let none = home.run(&["gateway", "status"]);
    assert_eq!(none.status, Some(1));
    assert!(none.err.contains("`stepclaw gateway` starts one"), "{}", none.err);
    let gateway = start(&home);
    let token = std::fs::metadata(home.state().join("gateway.token")).unwrap();
    assert_eq!(token.permissions().mode() & 0o777, 0o600);
    let status = json(&home, &["gateway", "status", "--json"]);
    assert_eq!((&status["running"], &status["sessions"]), (&true.into(), &0.into()), "{status}");
    assert_eq!(json(&home, &["gateway", "call", "health"])["ok"], true);
    let wrong = home.run(&["gateway", "call", "nothing"]);
    assert_eq!(wrong.status, Some(1));
    assert!(wrong.err.contains("unknown method: nothing"), "{}", wrong.err);
    let mut stranger = home.command(&["health"]);
    stranger.env("STEPCLAW_GATEWAY_TOKEN", "another");
    let left = Running(stranger.spawn().unwrap()).end(20_000);
    assert!(left.err.contains("STEPCLAW_GATEWAY_TOKEN"), "{}", left.err);
    assert!(home.run(&["health"]).out.contains("The gateway is well"));
    assert!(
        home.run(&["status"]).out.contains("offline") || home.run(&["status"]).status == Some(0)
    );
    assert!(home.run(&["devices", "list"]).out.contains("No devices yet"));
    let stopped = home.run(&["gateway", "stop"]);
    assert_eq!(stopped.status, Some(0), "{stopped:?}");
    assert_eq!(gateway.end(20_000).status, Some(0));
}

/// `agent` goes through the gateway, with the words and the exit statuses that it has by itself.
#[test]
fn agent_goes_through_it() {
    let home = Home::new();
    let gateway = start(&home);
    let said = home.run(&["agent", "-m", "say 3 words"]);
    assert_eq!((said.status, said.out.as_str()), (Some(0), "one two three\n"), "{said:?}");
    let tool = home.run(&["agent", "-m", "run: echo through-it"]);
    assert!(tool.out.contains("through-it"), "{tool:?}");
    assert_eq!(home.run(&["agent", "-m", "fail"]).status, Some(1));
    let late = home.run(&["agent", "-m", "wait 30", "--timeout", "1"]);
    assert_eq!(late.status, Some(124), "{late:?}");
    let waits = home.start(&["agent", "-m", "wait 30"]);
    common::until("the run", || home.run(&["runs", "list"]).out.contains("running"));
    waits.signal(Signal::INT);
    assert_eq!(waits.end(20_000).status, Some(130));
    let alone = home.run(&["agent", "--local", "-m", "say 1 word"]);
    assert_eq!(alone.status, Some(75), "{alone:?}");
    let answer = json(&home, &["agent", "--json", "-m", "say 2 words"]);
    assert_eq!(answer["result"]["payloads"][0]["text"], "one two", "{answer}");
    let audit = home.run(&["audit"]);
    assert!(audit.out.contains("agent.run.finished"), "{audit:?}");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.end(20_000).status, Some(0));
}

/// Resets, deletions and forks are made through the gateway, and without one under the lock.
#[test]
fn sessions_change_with_and_without_it() {
    let home = Home::new();
    home.say("say 1 word");
    let forked = home.run(&["sessions", "fork", "main", "--as", "one"]);
    assert_eq!(forked.status, Some(0), "{forked:?}");
    let shown = home.run(&["sessions", "show", "one"]);
    assert!(shown.out.contains("agent:main:main"), "it names its parent: {}", shown.out);
    let again = home.run(&["sessions", "fork", "main", "--as", "one"]);
    assert_eq!(again.status, Some(1), "it is there already");
    let gateway = start(&home);
    assert_eq!(home.run(&["sessions", "fork", "one", "--as", "two"]).status, Some(0));
    let history =
        json(&home, &["gateway", "call", "chat.history", "--params", "{\"sessionKey\": \"two\"}"]);
    assert_eq!(history["messages"].as_array().unwrap().len(), 2, "{history}");
    assert_eq!(home.run(&["sessions", "reset", "two"]).status, Some(0));
    assert_eq!(home.run(&["sessions", "delete", "one", "--yes"]).status, Some(0));
    assert_eq!(home.run(&["sessions", "delete", "one", "--yes"]).status, Some(1));
    assert_eq!(home.run(&["gateway", "stop"]).status, Some(0));
    drop(gateway);
    assert!(home.run(&["sessions", "show", "two"]).out.contains("revision 1"));
}
