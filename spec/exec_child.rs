//! The built program as its own helper: commands get a session without a controlling terminal.

use serde_json::json;
use std::path::PathBuf;
use stepclaw::{
    tools::run::{Cancel, Ctx, Progress, run},
    transcript::message::join_text,
};

fn ctx() -> Ctx {
    Ctx {
        cwd: std::env::temp_dir(),
        cancel: Cancel::new(),
        ticket: None,
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_stepclaw"))),
        exec_timeout_s: 20,
        workspace_only_patch: true,
        shell: Some("/bin/sh".into()),
        env: std::env::vars().filter(|(name, _)| name == "PATH").collect(),
    }
}

fn sh(command: &str) -> (String, serde_json::Value, u32) {
    let args = serde_json::Map::from_iter([("command".to_owned(), json!(command))]);
    let mut group = 0;
    let output = run("exec", &args, &ctx(), &mut |progress| {
        if let Progress::Process { pgid, .. } = progress {
            group = pgid;
        }
    });
    (join_text(&output.content), output.details.unwrap_or_default(), group)
}

/// B175: the shell leads a session of its own, which has no terminal to ask a person on.
#[test]
fn b175_commands_have_no_terminal() {
    let (text, _, group) = sh("echo $$ $(cut -d' ' -f5,6,7 /proc/$$/stat); cat; tty");
    let first = text.lines().next().unwrap_or_default();
    assert_eq!(first, format!("{group} {group} {group} 0"));
    assert!(text.contains("not a tty"), "{text}");
    let (text, details, _) = sh("cat </dev/tty");
    assert!(text.contains("/dev/tty"), "{text}");
    assert_ne!(details["exitCode"], 0);
}

#[test]
fn statuses_pass_through_the_helper() {
    assert_eq!(sh("exit 3").1["exitCode"], 3);
    assert_eq!(sh("no_such_command_here").1["failureKind"], "shell-command-not-found");
    assert_eq!(sh("kill -9 $$").1["exitSignal"], 9);
}
