//! What a killed process leaves, and what a journal tells (spec/cli.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::{Home, Left, alive, mode, nap, until};
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;
use std::process::Stdio;

/// L11, decisions 7 and 8: killed in a tool, the next run says once that the outcome is unknown,
/// runs nothing again, and ends what was left running.
#[test]
fn killed_in_a_tool() {
    let home = Home::new();
    let nap = nap();
    let message = format!("run: echo x >> ran && sleep {nap}");
    let mut run = home.start(&["agent", "-m", &message]);
    until("the tool", || alive(&nap));
    home.until_row("SELECT 1 FROM calls WHERE pgid IS NOT NULL");
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    assert!(alive(&nap), "the tool has its own life");
    assert_eq!(home.run(&["sessions", "list"]).status, Some(0));
    let left = home.run(&["agent", "-m", "say 1 word"]);
    assert_eq!(left.status, Some(0), "{left:?}");
    assert!(left.err.contains("was interrupted") && left.err.contains("ended process group"));
    until("the end of the survivor", || !alive(&nap));
    let again = home.run(&["agent", "-m", "say 1 word"]);
    assert_eq!((again.status, &*again.err), (Some(0), ""));
    let results = home.results();
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(results[0]["isError"], true);
    let text = "Outcome unknown: the process stopped while this tool was running. It may have \
                taken effect. Check before doing it again.";
    assert_eq!(results[0]["content"], json!([{"type": "text", "text": text}]));
    assert_eq!(results[0]["details"], json!({"status": "unknown", "reason": "process-stopped"}));
    assert_eq!(std::fs::read_to_string(home.work("ran")).unwrap(), "x\n", "not run again");
}

/// T6, B003: a history that lost a result elsewhere is mended for the model, and a person is told.
#[test]
fn a_mended_history_is_told() {
    let home = Home::new();
    home.say("run: echo x");
    let db = rusqlite::Connection::open(home.state().join("agents/main/agent.sqlite")).unwrap();
    let sql = "DELETE FROM entries WHERE body LIKE '%\"role\":\"toolResult\"%'";
    assert_eq!(db.execute(sql, []).unwrap(), 1);
    drop(db);
    let left = home.run(&["agent", "-m", "say 1 word"]);
    assert_eq!(left.status, Some(0), "{left:?}");
    assert!(
        left.err.contains("the history was repaired for the model: 1 results made up"),
        "{left:?}"
    );
}

/// S11, B055: when the store cannot grow, the run ends with an error that says so, and no tool is
/// started whose call is not stored.
#[test]
fn b055_no_room_in_mid_run() {
    let home = Home::new();
    home.say("say 1 word");
    let long = "x".repeat(150_000);
    let script = "trap '' XFSZ; ulimit -f 250; exec \"$0\" \"$@\"";
    let run = |message: &str| -> Left {
        let program = env!("CARGO_BIN_EXE_stepclaw");
        let mut command = home.command(&[]);
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", script, program, "agent"]).env_clear();
        shell.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command = shell;
        let mut child = command.spawn().unwrap();
        use std::io::Write;
        child.stdin.take().unwrap().write_all(message.as_bytes()).unwrap();
        common::Running(child).end(10_000)
    };
    // The message fits, the reply that repeats it as a call's argument does not.
    let left = run(&format!("write f: {long}"));
    assert_eq!(left.status, Some(1), "{left:?}");
    assert!(left.err.contains("agent.sqlite") || left.err.contains("disk"), "{left:?}");
    assert!(!home.work("f").exists(), "a tool ran whose call is not stored");
    assert!(home.say("say 2 words").contains("one two"));
}

/// A run with everything in it: a parallel batch, steering, an abort.
fn journalled(home: &Home, journal: &Path) {
    let nap = nap();
    let args = ["agent", "--interactive", "--journal", journal.to_str().unwrap()];
    let mut command = home.command(&args);
    let mut run = common::Running(command.stdin(Stdio::piped()).spawn().unwrap());
    // The second call waits until somebody writes into its pipe.
    run.type_in("together: run: touch t; run: mkfifo go && cat go; read none\n");
    until("the batch", || home.work("t").exists() && home.work("go").exists());
    run.type_in(&format!("run: sleep {nap}\n"));
    home.until_row("SELECT 1 FROM queue WHERE kind = 'steer'");
    std::fs::write(home.work("go"), "").unwrap();
    until("the steered tool", || alive(&nap));
    run.signal(Signal::INT);
    let left = run.end(2_000);
    assert_eq!(left.status, Some(130), "{left:?}");
    assert!(left.err.contains("will hold everything"), "{left:?}");
}

/// L12 to L14: a real run's journal.
#[test]
fn a_journal_replays_or_says_where_it_does_not() {
    let home = Home::new();
    let path = home.path("j");
    journalled(&home, &path);
    assert_eq!(mode(&path), 0o600);
    let bytes = std::fs::read(&path).unwrap();
    let replay = |bytes: &[u8]| {
        let file = home.path("changed");
        std::fs::write(&file, bytes).unwrap();
        home.run(&["replay", file.to_str().unwrap()])
    };
    let good = replay(&bytes);
    assert_eq!(good.status, Some(0), "{good:?}");
    assert!(good.out.contains("identical, the run ended"), "{good:?}");
    // L12: it is not overwritten.
    let again = home.run(&["agent", "-m", "x", "--journal", path.to_str().unwrap()]);
    assert_eq!((again.status, std::fs::read(&path).unwrap() == bytes), (Some(2), true));

    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let is_out = |line: &&[u8]| line.starts_with(b"{\"out\":");
    let outs: Vec<usize> = (0..lines.len()).filter(|i| is_out(&lines[*i])).collect();
    assert!(outs.len() > 5);
    // L13: whatever is changed, left out or doubled is found.
    for i in &outs {
        let mut other = lines.clone();
        other.remove(*i);
        let last = *i + 1 == lines.len();
        assert_eq!(
            replay(&other.concat()).status,
            Some(i32::from(!last)),
            "without line {}",
            i + 1
        );
    }
    let mut doubled = lines.clone();
    doubled.insert(outs[1], lines[outs[1]]);
    let found = replay(&doubled.concat());
    assert!(found.status == Some(1) && found.err.contains("replay differs"), "{found:?}");
    let text = String::from_utf8(bytes.clone()).unwrap();
    let tampered = text.replacen("touch t", "touch u", 1);
    assert_ne!(tampered, text);
    let found = replay(tampered.as_bytes());
    assert!(found.status == Some(1) && found.err.contains("replay differs"), "{found:?}");
    // L14: a torn end is left out, and said; B049: damage in the middle is refused, with its place.
    let start = bytes.len() - lines.last().unwrap().len();
    let torn = replay(&bytes[..bytes.len() - 10]);
    assert_eq!(torn.status, Some(0), "{torn:?}");
    assert!(torn.out.contains(&format!("cut off at byte {start}")), "{torn:?}");
    let before: usize = lines[..2].iter().map(|l| l.len()).sum();
    for garbage in [&b"\0\0\0\0\n"[..], b"\n", b"{\"in\":[1,\xe9\x9b\n"] {
        let damaged = [&bytes[..before], garbage, &bytes[before..]].concat();
        let found = replay(&damaged);
        let place = format!("line 3 (byte {before}) is damaged");
        assert!(found.status == Some(1) && found.err.contains(&place), "{found:?}");
    }
    let none = replay(b"what\n");
    assert!(none.status == Some(2) && none.err.contains("not the head"), "{none:?}");
}
