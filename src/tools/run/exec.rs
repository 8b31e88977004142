//! `exec`: a shell command (extensions 1.7, tools#7).

use super::{
    Ctx, Outcome, Progress, child, kill,
    process::{self, End, Finished},
    text,
};
use crate::{tools::text::note, transcript::ToolOutput};
use serde_json::{Map, Value, json};
use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Options that mean something elsewhere and nothing here.
const REFUSED: [&str; 6] = ["ask", "background", "elevated", "node", "pty", "yieldMs"];
/// What an editor or a pager must not do without a terminal: wait for a person.
const QUIET: [(&str, &str); 8] = [
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
const EMPTY: &str = "(no output)";

pub(super) fn run(
    args: &Map<String, Value>,
    ctx: &Ctx,
    progress: &mut dyn FnMut(Progress),
) -> Outcome {
    supported(args)?;
    let line = text(args, "command")?;
    allowed(line)?;
    let cwd = workdir(args, ctx)?;
    let limit = limit(args, ctx)?;
    let id = unique();
    let mut command = shell(ctx, line);
    command.current_dir(&cwd).env_clear().envs(ctx.env.iter().map(|(k, v)| (k, v)));
    command.envs(QUIET).envs(overrides(args)?);
    command.env("STEPCLAW_SHELL", "exec").env("OPENCLAW_SHELL", "exec").env(kill::MARKER, &id);
    match process::run(command, &id, limit, &ctx.cancel, progress) {
        Ok(finished) => Ok(report(&finished, limit, &cwd)),
        Err(error) => {
            let details = json!({
                "status": "failed", "exitCode": null, "failureKind": "runtime-error",
                "timedOut": false, "cwd": cwd.to_string_lossy(),
            });
            let text = format!("The command could not be started: {error}");
            Ok(ToolOutput::error(text).with(details))
        }
    }
}

fn supported(args: &Map<String, Value>) -> Result<(), String> {
    for name in REFUSED {
        let off = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || value == "";
        if args.get(name).is_some_and(|value| !off(value)) {
            return Err(format!("The option {name} is not supported here; nothing was run."));
        }
    }
    match args.get("host") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(host)) if ["", "auto", "gateway"].contains(&host.as_str()) => Ok(()),
        Some(host) => Err(format!(
            "host {host} is not supported here, only auto and gateway; nothing was run."
        )),
    }
}

/// Commands that belong to a person: they would act as one through the model's hands.
fn allowed(line: &str) -> Result<(), String> {
    for part in line.split([';', '&', '|', '\n', '(', '{']) {
        let prefix = |word: &&str| {
            word.contains('=') || ["command", "env", "exec", "nohup", "sudo"].contains(word)
        };
        let mut words = part.split_whitespace().skip_while(prefix);
        let first = words.next().unwrap_or_default();
        let name = first.rsplit('/').next().unwrap_or_default();
        let login = ["openclaw", "stepclaw"].contains(&name)
            && words.next() == Some("channels")
            && words.next() == Some("login");
        if first == "/approve" || login {
            let what = if login { "channels login" } else { "/approve" };
            return Err(format!("{what} is for people, not for exec; nothing was run."));
        }
    }
    Ok(())
}

fn workdir(args: &Map<String, Value>, ctx: &Ctx) -> Result<PathBuf, String> {
    let shown = args.get("workdir").and_then(Value::as_str).filter(|dir| !dir.is_empty());
    let path = shown.map_or_else(|| Ok(ctx.cwd.clone()), |shown| ctx.resolve(shown))?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(format!("workdir {} is not a directory; nothing was run.", path.display()))
}

fn limit(args: &Map<String, Value>, ctx: &Ctx) -> Result<Option<Duration>, String> {
    let seconds = match args.get("timeoutSeconds") {
        None | Some(Value::Null) => ctx.exec_timeout_s as f64,
        Some(value) => value
            .as_f64()
            .filter(|seconds| *seconds >= 0.0)
            .ok_or("timeoutSeconds must be a number that is not negative.")?,
    };
    // What no clock can hold is no limit.
    Ok(Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero()))
}

fn overrides(args: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let map = match args.get("env") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err("env must be an object of texts.".into()),
    };
    let mut list = Vec::new();
    for (name, value) in map {
        let value = value.as_str().ok_or_else(|| format!("env.{name} must be a text."))?;
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!("env.{name} is not a valid variable; nothing was run."));
        }
        let upper = name.to_ascii_uppercase();
        if upper == "PATH" || upper.starts_with("LD_") || upper.starts_with("DYLD_") {
            return Err(format!(
                "env.{name} may not be changed: it decides which programs run. Set it inside the \
                 command if you have to; nothing was run."
            ));
        }
        list.push((name.clone(), value.to_owned()));
    }
    Ok(list)
}

/// A value no other call has, also not one of another process or an earlier one.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    format!("{pid}-{}-{count}", kill::start_time(pid))
}

fn shell(ctx: &Ctx, line: &str) -> Command {
    let path = ctx.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
    let shell = choose(ctx.shell.as_deref(), path);
    let mut command;
    match &ctx.helper {
        Some(helper) => {
            command = Command::new(helper);
            command.arg(child::WORD).arg("--").arg(shell);
        }
        None => {
            command = Command::new(shell);
            command.process_group(0);
        }
    }
    command.arg("-c").arg(line);
    command
}

/// The user's shell, but bash for fish, whose language is another; else bash, else sh.
fn choose(shell: Option<&str>, path: &str) -> PathBuf {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let usable = |shell: &&str| {
        !["", "fish", "nologin", "false", "true"].contains(&name(shell).as_str())
            && Path::new(shell).is_absolute()
            && Path::new(shell).exists()
    };
    if let Some(shell) = shell.filter(usable) {
        return PathBuf::from(shell);
    }
    let places = path.split(':').chain(["/bin", "/usr/bin", "/usr/local/bin"]);
    let bash = places.filter(|dir| dir.starts_with('/')).map(|dir| Path::new(dir).join("bash"));
    bash.into_iter().find(|bash| bash.exists()).unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// The result, with the details of extensions 1.7.
fn report(finished: &Finished, limit: Option<Duration>, cwd: &Path) -> ToolOutput {
    let code = finished.status.and_then(|status| status.code());
    let signal = finished.status.and_then(|status| status.signal());
    let (failure, last) = verdict(finished.end, code, signal, limit);
    let mut text = finished.output.text.trim_end().to_owned();
    if text.is_empty() {
        text = EMPTY.to_owned();
    }
    for line in note(finished.output.replaced).into_iter().chain(last) {
        text.push_str("\n\n");
        text.push_str(&line);
    }
    let mut details = json!({
        "status": if failure.is_some() { "failed" } else { "completed" },
        "exitCode": code,
        "exitSignal": signal,
        "exitReason": match (finished.end, signal) {
            (End::TimedOut, _) => "overall-timeout",
            (End::Aborted, _) => "manual-cancel",
            (End::Exited, Some(_)) => "signal",
            (End::Exited, None) => "exit",
        },
        "durationMs": u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
        "aggregated": finished.output.text,
        "noOutputTimedOut": false,
        "cwd": cwd.to_string_lossy(),
    });
    let Some(failure) = failure else { return ToolOutput::text(text).with(details) };
    details["failureKind"] = json!(failure);
    details["timedOut"] = json!(finished.end == End::TimedOut);
    ToolOutput::error(text).with(details)
}

/// The kind of failure, if it is one, and the last line of the text.
fn verdict(
    end: End,
    code: Option<i32>,
    signal: Option<i32>,
    limit: Option<Duration>,
) -> (Option<&'static str>, Option<String>) {
    match (end, code, signal) {
        (End::TimedOut, _, _) => {
            let limit = limit.unwrap_or_default().as_secs_f64();
            let text = format!(
                "Command timed out after {limit} s and was ended with everything it had started. \
                 It may have taken effect in part: look before you run it again, and give it a \
                 larger timeoutSeconds if it needs one."
            );
            (Some("overall-timeout"), Some(text))
        }
        (End::Aborted, _, _) => {
            let text = "Command aborted. It may have taken effect in part.";
            (Some("aborted"), Some(text.to_owned()))
        }
        (End::Exited, Some(0), _) => (None, None),
        (End::Exited, Some(127), _) => {
            (Some("shell-command-not-found"), Some("Command not found (code 127)".into()))
        }
        (End::Exited, Some(126), _) => {
            (Some("shell-not-executable"), Some("Command not executable (code 126)".into()))
        }
        (End::Exited, Some(code), _) => (None, Some(format!("Command exited with code {code}"))),
        (End::Exited, None, Some(signal)) => {
            (Some("signal"), Some(format!("Command was ended by signal {signal}")))
        }
        (End::Exited, None, None) => {
            (Some("runtime-error"), Some("How the command ended is not known".into()))
        }
    }
}

#[cfg(test)]
mod tests;
