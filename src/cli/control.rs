//! Commands about a gateway that runs: `gateway status|stop|call|install`, `health`, `status`,
//! `devices`, and the ledger.

use super::args::{AuditArgs, DevicesArgs, DevicesCommand};
use super::client::{ANSWER, Client, no_gateway, running};
use super::config::loaded;
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::gateway::audit::{Page, Query};
use crate::reactor::Clock;
use crate::store::state::{audit_page, state_db};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a gateway may take to bring its runs to an end: its own limit, and some grace.
const STOP: Duration = Duration::from_secs(330);

fn pretty(value: &Value) -> Done {
    print_all((serde_json::to_string_pretty(value).unwrap_or_default() + "\n").as_bytes())
}

fn asked(method: &str, params: &Value) -> Result<Value, Failed> {
    let (paths, config) = loaded()?;
    Client::connect(&config, &paths)?.call(method, params, ANSWER)
}

/// `stepclaw health`.
pub(super) fn health(as_json: bool) -> Done {
    let health = asked("health", &json!({}))?;
    if as_json {
        return pretty(&health);
    }
    let sessions = &health["sessions"];
    let text = format!(
        "The gateway is well: {} conversations stored, {} in memory, {} runs.\n",
        sessions["count"], health["inUse"], health["runs"]
    );
    print_all(text.as_bytes())
}

/// `stepclaw status`.
pub(super) fn status(as_json: bool) -> Done {
    let status = asked("status", &json!({}))?;
    if as_json {
        return pretty(&status);
    }
    let mut text = format!(
        "stepclaw {} (process {}), up {} s\nmodel {}, {} conversations\n",
        status["runtimeVersion"].as_str().unwrap_or_default(),
        status["pid"],
        status["uptimeMs"].as_u64().unwrap_or(0) / 1_000,
        status["sessions"]["defaults"]["model"].as_str().unwrap_or_default(),
        status["sessions"]["count"],
    );
    for row in status["sessions"]["recent"].as_array().into_iter().flatten() {
        let age = row["age"].as_u64().unwrap_or(0) / 1_000;
        let key = row["key"].as_str().unwrap_or_default();
        let name = row["displayName"].as_str().unwrap_or_default();
        text += &format!("  {key}  {age} s ago  {name}\n");
    }
    print_all(text.as_bytes())
}

/// `stepclaw gateway status`.
pub(super) fn gateway_status(as_json: bool) -> Done {
    let (paths, config) = loaded()?;
    let Some((pid, at)) = running(&paths) else {
        if as_json {
            pretty(&json!({"running": false, "stateDir": paths.state}))?;
            return Ok(FAILED);
        }
        return Err(no_gateway(&paths));
    };
    let mut client = Client::connect(&config, &paths)?;
    let status = client.call("status", &json!({}), ANSWER)?;
    let present = client.call("system-presence", &json!({}), ANSWER)?;
    let clients = present.as_array().map_or(0, |list| list.len().saturating_sub(1));
    if as_json {
        return pretty(&json!({
            "running": true, "pid": pid, "address": at.to_string(), "stateDir": paths.state,
            "version": status["runtimeVersion"], "uptimeMs": status["uptimeMs"],
            "sessions": status["sessions"]["count"], "clients": clients,
        }));
    }
    let text = format!(
        "A gateway runs at ws://{at} (process {pid}), up {} s: {} conversations, {clients} \
         clients.\n",
        status["uptimeMs"].as_u64().unwrap_or(0) / 1_000,
        status["sessions"]["count"],
    );
    print_all(text.as_bytes())
}

/// `stepclaw gateway stop`: the process of the lock is asked to end, and waited for.
pub(super) fn stop() -> Done {
    let (paths, _) = loaded()?;
    let (pid, _) = running(&paths).ok_or_else(|| no_gateway(&paths))?;
    let gone = || running(&paths).is_none_or(|(now, _)| now != pid);
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| Failed::new(FAILED, "the lock names no process"))?;
    if let Err(error) = kill_process(process, Signal::TERM) {
        return Err(Failed::new(FAILED, format!("cannot stop process {pid}: {error}")));
    }
    let (begin, mut told) = (Instant::now(), false);
    while !gone() {
        if begin.elapsed() > Duration::from_secs(2) && !std::mem::replace(&mut told, true) {
            eprintln!("stepclaw: the gateway brings its runs to an end first (5 minutes at most)");
        }
        if begin.elapsed() > STOP {
            return Err(Failed::new(FAILED, format!("process {pid} has not ended")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    print_all(format!("The gateway (process {pid}) has stopped.\n").as_bytes())
}

/// `stepclaw gateway call`.
pub(super) fn call(method: &str, params: &str, timeout_ms: u64) -> Done {
    let params: Value = serde_json::from_str(params)
        .map_err(|e| Failed::new(USAGE, format!("--params is no JSON: {e}")))?;
    if !params.is_object() {
        return Err(Failed::new(USAGE, "--params must be a JSON object"));
    }
    let (paths, config) = loaded()?;
    let mut client = Client::connect(&config, &paths)?;
    pretty(&client.call(method, &params, Duration::from_millis(timeout_ms))?)
}

/// `stepclaw gateway install`: a systemd unit of the user's.
pub(super) fn install() -> Done {
    let failed = |what: String| Failed::new(FAILED, what);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.ok_or_else(|| failed("HOME is not set".to_owned()))?;
    let base = std::env::var_os("XDG_CONFIG_HOME").map_or(home.join(".config"), PathBuf::from);
    let dir = base.join("systemd/user");
    let file = dir.join("stepclaw-gateway.service");
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut unit = format!(
        "[Unit]\nDescription=stepclaw gateway\nAfter=network-online.target\n\n[Service]\n\
         ExecStart=\"{}\" gateway\nRestart=on-failure\nRestartSec=2\nTimeoutStopSec=330\n",
        program.display()
    );
    for name in ["STEPCLAW_STATE_DIR", "STEPCLAW_CONFIG_PATH"] {
        if let Ok(value) = std::env::var(name)
            && !value.is_empty()
        {
            unit += &format!("Environment=\"{name}={value}\"\n");
        }
    }
    unit += "\n[Install]\nWantedBy=default.target\n";
    match std::fs::read_to_string(&file) {
        Ok(there) if there != unit => {
            let words = format!("{} is there and differs: remove it first", file.display());
            return Err(failed(words));
        }
        Ok(_) => {}
        Err(_) => {
            std::fs::create_dir_all(&dir)
                .and_then(|()| std::fs::write(&file, &unit))
                .map_err(|e| failed(format!("{}: {e}", file.display())))?;
        }
    }
    let text = format!(
        "{} is in place. To start it:\n  systemctl --user daemon-reload\n  \
         systemctl --user enable --now stepclaw-gateway\n",
        file.display()
    );
    print_all(text.as_bytes())
}

/// `stepclaw devices`.
pub(super) fn devices(args: &DevicesArgs) -> Done {
    let (method, params) = match &args.command {
        DevicesCommand::List => ("device.pair.list", json!({})),
        DevicesCommand::Approve { request } => {
            ("device.pair.approve", json!({ "requestId": request }))
        }
        DevicesCommand::Reject { request } => {
            ("device.pair.reject", json!({ "requestId": request }))
        }
        DevicesCommand::Remove { device } => ("device.pair.remove", json!({ "deviceId": device })),
        DevicesCommand::Rename { device, label } => {
            ("device.pair.rename", json!({"deviceId": device, "label": label}))
        }
        DevicesCommand::Rotate { device } => {
            ("device.token.rotate", json!({"deviceId": device, "role": "operator"}))
        }
        DevicesCommand::Revoke { device } => {
            ("device.token.revoke", json!({"deviceId": device, "role": "operator"}))
        }
    };
    let answer = asked(method, &params)?;
    if args.json || !matches!(args.command, DevicesCommand::List) {
        return pretty(&answer);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = String::new();
    for of in answer["pending"].as_array().into_iter().flatten() {
        let (id, device) = (text(&of["requestId"]), text(&of["deviceId"]));
        lines += &format!("asks     {id}  {device}  {}\n", text(&of["clientId"]));
    }
    for of in answer["paired"].as_array().into_iter().flatten() {
        let name = [&of["operatorLabel"], &of["displayName"], &of["clientId"]];
        let name = name.into_iter().find_map(Value::as_str).unwrap_or_default();
        lines += &format!("paired   {}  {name}\n", text(&of["deviceId"]));
    }
    if lines.is_empty() {
        lines = "No devices yet.\n".to_owned();
    }
    print_all(lines.as_bytes())
}

/// `stepclaw audit`.
pub(super) fn audit(args: &AuditArgs) -> Done {
    let (paths, _) = loaded()?;
    let mut params = Map::new();
    let texts = [
        ("agentId", &args.agent),
        ("sessionKey", &args.session),
        ("runId", &args.run),
        ("kind", &args.kind),
        ("status", &args.status),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            params.insert(name.to_owned(), text.as_str().into());
        }
    }
    for (name, number) in [("after", args.after), ("before", args.before)] {
        if let Some(number) = number {
            params.insert(name.to_owned(), number.into());
        }
    }
    params.insert("limit".to_owned(), args.limit.into());
    let query = Query::read(&params).map_err(|fault| Failed::new(USAGE, fault.message))?;
    let page = audit_page(&state_db(&paths.state), &query, Clock::start().now())?;
    let page = page.unwrap_or(Page { rows: vec![], next: None });
    if args.json {
        return pretty(&page.answer(true));
    }
    let mut lines = String::new();
    for row in page.rows.iter().rev() {
        let at = super::words::moment(row.occurred_at);
        let tool = row.tool_name.as_deref().unwrap_or_default();
        let code = row.error_code.as_deref().unwrap_or_default();
        let line =
            format!("{at}  {:<21} {:<10} {} {tool} {code}", row.action, row.status, row.run_id);
        lines += line.trim_end();
        lines.push('\n');
    }
    if lines.is_empty() {
        lines = "The ledger is empty.\n".to_owned();
    }
    print_all(lines.as_bytes())
}
