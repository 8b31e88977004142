//! `stepclaw agent` through a gateway: the same words on the screen, the run somewhere else.

use super::{Client, answer};
use crate::cli::args::AgentArgs;
use crate::cli::{ABORTED, Done, FAILED, Failed, OK, POLICY, SUPERSEDED, TIMEOUT, USAGE};
use crate::config::{Config, Paths};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often signals are looked at while nothing comes.
const GLANCE: Duration = Duration::from_millis(200);

/// Sends a message to the gateway and follows its run.
pub(in crate::cli) fn through(
    args: &AgentArgs,
    message: &str,
    run: &str,
    config: &Config,
    paths: &Paths,
) -> Done {
    refuse(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    // The first one stops the run, the second one leaves at once.
    register_conditional_shutdown(SIGINT, i32::from(ABORTED), Arc::clone(&stop))
        .and_then(|_| register(SIGINT, Arc::clone(&stop)))
        .map_err(|e| Failed::new(FAILED, format!("cannot listen for signals: {e}")))?;
    let mut asked = false;
    let mut client = Client::connect(config, paths)?;
    let mut params = json!({
        "message": message, "sessionKey": args.session_key, "idempotencyKey": run,
    });
    if let Some(seconds) = args.timeout {
        params["timeout"] = seconds.into();
    }
    let id = client.send("agent", &params)?;
    let mut shown =
        Shown { json: args.json, terminal: std::io::stdout().is_terminal(), open: false };
    loop {
        if stop.load(Ordering::Relaxed) && !std::mem::replace(&mut asked, true) {
            let stop = json!({"sessionKey": args.session_key, "runId": run});
            client.send("chat.abort", &stop)?;
        }
        let Some(frame) = client.next(Instant::now() + GLANCE)? else { continue };
        if frame["type"] == "res" && frame["id"] == id.as_str() {
            if frame["payload"]["status"] == "accepted" {
                continue;
            }
            let payload = match frame["payload"].is_object() {
                true => frame["payload"].clone(),
                false => answer(frame)?,
            };
            return Ok(shown.finish(&payload, run));
        }
        shown.event(&frame, run);
    }
}

/// What only a run in this process can do.
fn refuse(args: &AgentArgs) -> Result<(), Failed> {
    let flags = [
        (args.journal.is_some(), "--journal"),
        (args.detached, "--detached"),
        (args.cwd.is_some(), "--cwd"),
        (args.interactive, "--interactive"),
        (args.model.is_some(), "--model"),
    ];
    match flags.iter().find(|(set, _)| *set) {
        None => Ok(()),
        Some((_, flag)) => {
            let words = format!(
                "{flag} needs a run in this process, and a gateway has the state directory: stop \
                 it first (`stepclaw gateway stop`)"
            );
            Err(Failed::new(USAGE, words))
        }
    }
}

/// What is on the screen.
struct Shown {
    json: bool,
    terminal: bool,
    /// A line was begun.
    open: bool,
}

impl Shown {
    fn event(&mut self, frame: &Value, run: &str) {
        let payload = &frame["payload"];
        if self.json || payload["runId"] != run {
            return;
        }
        match (frame["event"].as_str(), payload["state"].as_str()) {
            (Some("chat"), Some("delta")) => {
                let text = payload["deltaText"].as_str().unwrap_or_default();
                self.open |= !text.is_empty();
                self.print(text);
            }
            (Some("agent"), _) if payload["stream"] == "tool" && self.terminal => {
                let data = &payload["data"];
                let name = data["name"].as_str().unwrap_or_default();
                let word = match data["phase"].as_str() {
                    Some("start") => "…",
                    Some("result") if data["isError"] == true => "failed",
                    Some("result") => "done",
                    _ => return,
                };
                self.close();
                self.print(&format!("\u{1b}[2m  {name} {word}\u{1b}[0m\n"));
            }
            _ => {}
        }
    }

    fn print(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // A reader that has gone does not stop the run.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.print("\n");
        }
    }

    fn finish(mut self, payload: &Value, run: &str) -> u8 {
        if self.json {
            let mut payload = payload.clone();
            payload["runId"] = run.into();
            self.print(&(serde_json::to_string_pretty(&payload).unwrap_or_default() + "\n"));
        } else {
            let told = self.open;
            self.close();
            let texts = payload["result"]["payloads"].as_array();
            let texts = texts.into_iter().flatten().filter_map(|p| p["text"].as_str());
            let failed = payload["status"] != "ok";
            // What streamed is not said again; what did not is.
            if !told || failed {
                for text in texts {
                    if failed {
                        eprintln!("stepclaw: {text}")
                    } else {
                        self.print(&format!("{text}\n"))
                    }
                }
            }
        }
        status(&payload["termination"])
    }
}

/// The exit status that a termination stands for (decisions 31).
fn status(termination: &Value) -> u8 {
    match termination["kind"].as_str() {
        Some("completed") => OK,
        Some("aborted") if termination["cause"] == "Timeout" => TIMEOUT,
        Some("aborted") => ABORTED,
        Some("tool_loop" | "policy_stop") => POLICY,
        Some("superseded") => SUPERSEDED,
        _ => FAILED,
    }
}
