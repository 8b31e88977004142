use super::super::{Cancel, end_survivor, run};
use super::*;
use crate::transcript::message::join_text;
use std::{fs, thread, time::Instant};

fn ctx(cwd: &Path) -> Ctx {
    Ctx {
        cwd: cwd.to_path_buf(),
        cancel: Cancel::new(),
        ticket: None,
        helper: None,
        exec_timeout_s: 60,
        workspace_only_patch: true,
        shell: Some("/bin/sh".into()),
        env: std::env::vars().filter(|(name, _)| name == "PATH" || name == "HOME").collect(),
    }
}

fn exec_with(ctx: &Ctx, args: Value) -> (String, Value, bool) {
    let output = run("exec", args.as_object().unwrap(), ctx, &mut |_| {});
    (join_text(&output.content), output.details.unwrap_or_default(), output.is_error)
}

fn exec(args: Value) -> (String, Value, bool) {
    let dir = tempfile::tempdir().unwrap();
    exec_with(&ctx(dir.path()), args)
}

fn sh(command: &str) -> (String, Value, bool) {
    exec(json!({"command": command}))
}

/// Whether a process is there and is no zombie.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn ends(pid: &str) -> bool {
    (0..100).any(|_| {
        thread::sleep(Duration::from_millis(5));
        !alive(pid)
    })
}

/// tools#7: the shapes of extensions 1.7.
#[test]
fn results_have_their_shapes() {
    let (text, details, error) = sh("echo hi; exit 3");
    assert_eq!((text.as_str(), error), ("hi\n\nCommand exited with code 3", false));
    assert_eq!(details["status"], "completed");
    assert_eq!((&details["exitCode"], &details["exitSignal"]), (&json!(3), &json!(null)));
    assert_eq!(details["aggregated"], "hi\n");
    assert_eq!(details["noOutputTimedOut"], false);
    assert!(details["durationMs"].is_u64() && details["cwd"].is_string());
    assert_eq!(sh("true").0, "(no output)");
    for (command, kind, code) in [
        ("no_such_command_here", "shell-command-not-found", json!(127)),
        ("exec /", "shell-not-executable", json!(126)),
        ("kill -9 $$", "signal", json!(null)),
    ] {
        let (text, details, error) = sh(command);
        assert!(error, "{command}: {text}");
        assert_eq!(details["status"], "failed");
        assert_eq!((&details["failureKind"], &details["exitCode"]), (&json!(kind), &code));
        assert_eq!(details["timedOut"], false);
    }
    let dir = tempfile::tempdir().unwrap();
    let missing = Ctx { helper: Some("/no/such/helper".into()), ..ctx(dir.path()) };
    let (text, details, error) = exec_with(&missing, json!({"command": "true"}));
    assert!(error && text.starts_with("The command could not be started"), "{text}");
    assert_eq!(details["failureKind"], "runtime-error");
}

#[test]
fn options_that_are_not_built_are_refused() {
    for (name, value) in [
        ("pty", json!(true)),
        ("elevated", json!("full")),
        ("node", json!("n1")),
        ("ask", json!("always")),
        ("background", json!(true)),
        ("yieldMs", json!(100)),
        ("host", json!("sandbox")),
        ("host", json!("node")),
    ] {
        let (text, _, error) = exec(json!({"command": "echo ran", (name): value}));
        assert!(error && text.contains(name) && text.contains("nothing was run"), "{text}");
    }
    let fine = json!({"command": "echo ran", "host": "auto", "pty": false, "title": "t"});
    assert_eq!(exec(fine).0, "ran");
    for command in [
        "/approve abc allow-once",
        "openclaw channels login",
        "cd x && sudo /usr/bin/stepclaw channels  login --channel irc",
        "A=1 openclaw channels login",
    ] {
        assert!(sh(command).0.contains("is for people"), "{command}");
    }
    assert_eq!(sh("echo openclaw channels login").0, "openclaw channels login");
}

#[test]
fn environment_is_guarded_and_quiet() {
    for name in ["PATH", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "ld_preload", "A=B", ""] {
        let (text, _, error) = exec(json!({"command": "true", "env": {(name): "x"}}));
        assert!(error && text.contains("nothing was run"), "{name}: {text}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut ctx = ctx(dir.path());
    ctx.env.push(("EDITOR".into(), "vi".into()));
    ctx.env.push(("SECRET".into(), "1".into()));
    let command = "echo $STEPCLAW_SHELL $OPENCLAW_SHELL $EDITOR $VISUAL $GIT_EDITOR $PAGER \
                   $GIT_PAGER $GIT_TERMINAL_PROMPT $SECRET $A ${STEPCLAW_EXEC_ID:+marked}";
    let args = json!({"command": command, "env": {"A": "own", "STEPCLAW_EXEC_ID": ""}});
    assert_eq!(exec_with(&ctx, args).0, "exec exec true true true cat cat 0 1 own marked");
    fs::create_dir(dir.path().join("sub")).unwrap();
    let (text, details, _) = exec_with(&ctx, json!({"command": "pwd", "workdir": "sub"}));
    assert!(text.ends_with("/sub") && details["cwd"].as_str().unwrap().ends_with("/sub"));
    assert!(exec(json!({"command": "pwd", "workdir": "none"})).0.contains("is not a directory"));
}

#[test]
fn shells() {
    let bash = |path: &Path| path.ends_with("bash") || path == Path::new("/bin/sh");
    assert_eq!(choose(Some("/bin/sh"), ""), Path::new("/bin/sh"));
    for other in [Some("/usr/bin/fish"), Some("/usr/sbin/nologin"), Some("/no/zsh"), None] {
        assert!(bash(&choose(other, "/usr/bin:/bin")), "{other:?}");
    }
}

/// B166: a child that keeps the pipe open does not hold the call; it is left running, its output
/// is cut off.
#[test]
fn b166_a_background_child_does_not_hold_the_call() {
    for command in
        ["sleep 240 & echo $! >pid; echo done", "{ sleep 240 & } 2>&1; echo $! >pid; printf done"]
    {
        let dir = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let (text, details, error) = exec_with(&ctx(dir.path()), json!({"command": command}));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!((text.as_str(), error), ("done", false));
        assert_eq!(details["exitCode"], 0);
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
        assert!(alive(&pid), "policy: what a finished command leaves behind is left running");
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

/// B166: what was written before the end is complete, also with a busy writer left behind.
#[test]
fn b166_output_before_the_end_is_complete() {
    let (text, details, _) = sh("head -c 150000 /dev/zero | tr '\\0' x; echo; echo end");
    assert!(text.ends_with("x\nend"), "{}", &text[text.len() - 20..]);
    assert_eq!(details["aggregated"].as_str().unwrap().len(), 150_005);
    let began = Instant::now();
    let (text, ..) = sh("echo first; yes flood & sleep 0.05; exit 0");
    assert!(text.starts_with("first") && began.elapsed() < Duration::from_secs(2));
}

/// B170: mixed streams in order, characters whole, counts that add up.
#[test]
fn b170_output_is_capped_on_characters() {
    let (text, ..) = sh("echo 1; echo 2 >&2; echo 3; echo 4 >&2");
    assert_eq!(text, "1\n2\n3\n4");
    let unit = "\u{6f22}".repeat(500);
    let command = format!(
        "i=0; while [ $i -lt 600 ]; do printf '{unit}'; i=$((i+1)); done; \
                           printf '\\377\\376'; echo err >&2"
    );
    let (text, details, _) = sh(&command);
    assert!(text.contains("\u{fffd}\u{fffd}err"));
    assert!(text.ends_with("[2 invalid or control bytes were replaced by the sign \u{fffd}]"));
    let kept = details["aggregated"].as_str().unwrap();
    assert!(kept.chars().count() <= 200_000);
    let (omitted, shown) = (100_134, 199_872);
    assert!(kept.contains(&format!("[{omitted} of 300006 characters omitted, {shown} kept]")));
}

/// B171: what a model sees has no control characters.
#[test]
fn b171_binary_output_is_made_safe() {
    let (text, details, _) = sh("printf 'a\\000b\\033[31mred\\033[0m\\033]0;title\\007\\377\\n'");
    let note = "[2 invalid or control bytes were replaced by the sign \u{fffd}]";
    assert_eq!(text, format!("a\u{fffd}bred\u{fffd}\n\n{note}"));
    assert_eq!(details["aggregated"], "a\u{fffd}bred\u{fffd}\n");
}

/// B172: a lone lead byte is a result like any other.
#[test]
fn b172_a_lone_lead_byte_is_replaced() {
    let (text, details, error) = sh("printf '\\302'");
    assert!(text.starts_with('\u{fffd}') && !error);
    assert_eq!(details["exitCode"], 0);
}

/// B173: the time limit ends the whole tree, keeps what was written, and says so.
#[test]
fn b173_time_limit_ends_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    // The second child makes itself a session: only its marker leads to it. The third ignores the
    // wish to end.
    let command = "echo part; sleep 300 & echo $! >a; setsid sh -c 'echo $$ >b; exec sleep 301' & \
                   sh -c 'trap \"\" TERM; echo $$ >c; sleep 302; true' & \
                   sh -c 'sleep 303; true'";
    let began = Instant::now();
    let args = json!({"command": command, "timeoutSeconds": 0.7});
    let (text, details, error) = exec_with(&ctx(dir.path()), args);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(error && text.starts_with("part\n\nCommand timed out after 0.7 s"), "{text}");
    assert_eq!(details["failureKind"], "overall-timeout");
    assert_eq!((&details["timedOut"], &details["exitCode"]), (&json!(true), &json!(null)));
    for name in ["a", "b", "c"] {
        let pids = fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(!pids.trim().is_empty(), "{name}");
        assert!(pids.lines().all(ends), "{name}: {pids}");
    }
}

#[test]
fn aborting_ends_the_tree_and_keeps_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = ctx(dir.path());
    let mut seen = None;
    let cancel = ctx.cancel.clone();
    let args = json!({"command": "echo $$; sleep 300 & echo $!; wait"});
    let output = run("exec", args.as_object().unwrap(), &ctx, &mut |progress| {
        if let Progress::Process { pgid, started } = progress {
            seen = Some((pgid, started));
            let cancel = cancel.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(100));
                cancel.cancel();
            });
        }
    });
    let text = join_text(&output.content);
    let (pgid, started) = seen.unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(pgid.to_string().as_str()), "{text}");
    assert!(ends(lines.next().unwrap()));
    assert!(started > 0);
    assert!(output.is_error && text.contains("Command aborted"));
    assert_eq!(output.details.unwrap()["failureKind"], "aborted");
    let output = run("exec", args.as_object().unwrap(), &ctx, &mut |_| panic!("not started"));
    assert_eq!(output, ToolOutput::error("Operation aborted"));
}

/// B175: standard input is empty, and a default time limit exists. The session without a
/// terminal needs the helper: `spec/exec_child.rs`.
#[test]
fn b175_input_is_empty_and_a_limit_exists() {
    assert_eq!(sh("cat").0, "(no output)");
    let dir = tempfile::tempdir().unwrap();
    let ctx = Ctx { exec_timeout_s: 7, ..ctx(dir.path()) };
    let args = |value: Value| json!({"command": "x", "timeoutSeconds": value});
    let limit = |args: Value| limit(args.as_object().unwrap(), &ctx);
    assert_eq!(limit(json!({})), Ok(Some(Duration::from_secs(7))));
    assert_eq!(limit(args(json!(0))), Ok(None));
    assert_eq!(limit(args(json!(1.5))), Ok(Some(Duration::from_millis(1_500))));
    assert!(limit(args(json!(-1))).is_err() && limit(args(json!("1"))).is_err());
}

#[test]
fn progress_tells_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let args = json!({"command": "echo soon; sleep 1.1"});
    let mut updates = Vec::new();
    run("exec", args.as_object().unwrap(), &ctx(dir.path()), &mut |progress| {
        if let Progress::Update(output) = progress {
            updates.push(join_text(&output.content));
        }
    });
    assert_eq!(updates, ["soon\n"]);
}

/// Recovery ends what was recorded, and nothing that only has the same id.
#[test]
fn survivors_end_only_under_their_start_time() {
    let mut child = Command::new("sh")
        .args(["-c", "sleep 300 & setsid sleep 300 & echo $! ; wait"])
        .env(kill::MARKER, "survivor-test")
        .stdout(std::process::Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let pgid = child.id();
    let started = kill::start_time(pgid);
    assert!(started > 0);
    assert!(!end_survivor(pgid, started + 1) && !end_survivor(pgid, 0));
    assert!(!end_survivor(0, started) && !end_survivor(u32::MAX, 1));
    assert!(alive(&pgid.to_string()));
    let waiter = thread::spawn(move || child.wait().unwrap());
    assert!(end_survivor(pgid, started));
    assert_eq!(waiter.join().unwrap().signal(), Some(15));
    assert!(ends(&line), "the one in a session of its own");
}
