//! `stepclaw runs`: what ran, how long, and how it ended. Reads only, and needs no lock.

use super::args::{RunsArgs, RunsCommand};
use super::course::Course;
use super::sessions::agents;
use super::words::{moment, span, state, table};
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::base::SessionKey;
use crate::records::RunRow;
use crate::store::{Reader, StateLock, agent_db};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Shortest beginning of a run's id that stands for it.
const BEGINNING_CHARS_MIN: usize = 6;

/// Most candidates that are named where a beginning stands for several runs.
const CANDIDATES_MAX: u32 = 5;

pub(super) fn run(args: &RunsArgs) -> Done {
    let (paths, _) = super::config::loaded()?;
    match &args.command {
        RunsCommand::List { agent, session_key, limit, json } => {
            let rows = match session_key {
                Some(key) => of_conversation(&paths.state, key, agent.as_deref(), *limit)?,
                None => latest(&paths.state, agent.as_deref(), *limit)?,
            };
            list(&paths.state, &rows, *json)
        }
        RunsCommand::Show { run, json } => show(&paths.state, run, *json),
    }
}

fn latest(state: &Path, only: Option<&str>, limit: u32) -> Result<Vec<RunRow>, Failed> {
    let mut rows = Vec::new();
    for agent in agents(state).iter().filter(|a| only.is_none_or(|only| only == *a)) {
        if let Some(reader) = Reader::open(&agent_db(state, agent))? {
            rows.extend(reader.latest_runs(limit)?);
        }
    }
    rows.sort_by(|a, b| b.accepted_at.cmp(&a.accepted_at).then_with(|| b.run_id.cmp(&a.run_id)));
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(rows)
}

fn of_conversation(
    state: &Path,
    key: &str,
    agent: Option<&str>,
    limit: u32,
) -> Result<Vec<RunRow>, Failed> {
    let key = SessionKey::parse(key).map_err(|e| Failed::new(USAGE, e.to_string()))?;
    if let Some(agent) = agent.filter(|agent| *agent != key.agent()) {
        return Err(Failed::new(USAGE, format!("{key} is no conversation of agent {agent}")));
    }
    let missing = || Failed::new(FAILED, format!("there is no conversation {key}"));
    let reader = Reader::open(&agent_db(state, key.agent()))?.ok_or_else(missing)?;
    let rows = reader.runs_of(key.as_str(), limit)?;
    if rows.is_empty() && !reader.sessions()?.iter().any(|row| row.key == key.as_str()) {
        return Err(missing());
    }
    Ok(rows)
}

/// How long a run took, if it has ended.
fn took(run: &RunRow) -> Option<u64> {
    run.ended_at.map(|at| at.since(run.accepted_at))
}

/// A run for programs; its course is told by `show`.
fn object(run: &RunRow, state: &str) -> Value {
    let mut value = serde_json::to_value(run).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("phases");
        fields.insert("durationMs".into(), json!(took(run)));
        fields.insert("state".into(), json!(state));
    }
    value
}

fn conversation(run: &RunRow) -> String {
    run.key.clone().unwrap_or_else(|| "(deleted)".to_owned())
}

fn list(dir: &Path, rows: &[RunRow], as_json: bool) -> Done {
    let lived = StateLock::owner(dir).is_some();
    if as_json {
        let runs: Vec<Value> = rows.iter().map(|run| object(run, &state(run, lived))).collect();
        let value = json!({"count": runs.len(), "runs": runs});
        return print_all(format!("{value:#}\n").as_bytes());
    }
    if rows.is_empty() {
        return print_all(b"No runs yet. Start one: stepclaw agent -m \"list\"\n");
    }
    let mut lines = vec![["RUN", "CONVERSATION", "ACCEPTED", "TIME", "STATE"].map(str::to_owned)];
    lines.extend(rows.iter().map(|run| {
        let time = took(run).map_or_else(|| "-".to_owned(), span);
        let accepted = moment(run.accepted_at);
        [run.run_id.clone(), conversation(run), accepted, time, state(run, lived)]
    }));
    print_all(super::visible(&table("<<<><", &lines)).as_bytes())
}

/// The run of that name in any agent's database, or the only one whose name begins so.
fn find(state: &Path, name: &str) -> Result<RunRow, Failed> {
    let mut found: Vec<(String, RunRow)> = Vec::new();
    let mut short = false;
    for agent in agents(state) {
        let Some(reader) = Reader::open(&agent_db(state, &agent))? else { continue };
        if name.chars().count() < BEGINNING_CHARS_MIN {
            short = true;
            found.extend(reader.run(name)?.map(|run| (agent, run)));
        } else {
            let runs = reader.runs_named(name, CANDIDATES_MAX + 1)?;
            found.extend(runs.into_iter().map(|run| (agent.clone(), run)));
        }
    }
    // A whole name counts before the beginnings that another agent's runs may share with it.
    if found.iter().any(|(_, run)| run.run_id == name) {
        found.retain(|(_, run)| run.run_id == name);
    }
    match found.len() {
        1 => Ok(found.remove(0).1),
        0 if short => Err(Failed::new(
            USAGE,
            format!(
                "there is no run {name}; the beginning of an id needs {BEGINNING_CHARS_MIN} \
                 characters"
            ),
        )),
        0 => Err(Failed::new(FAILED, format!("there is no run {name}"))),
        _ => Err(Failed::new(FAILED, several(name, &found))),
    }
}

fn several(name: &str, found: &[(String, RunRow)]) -> String {
    let most = usize::try_from(CANDIDATES_MAX).unwrap_or(usize::MAX);
    let mut text = format!("{name} stands for several runs:");
    for (agent, run) in found.iter().take(most) {
        let _ = write!(text, "\n  {} (agent {agent}, {})", run.run_id, conversation(run));
    }
    if found.len() > most {
        text.push_str("\n  and more");
    }
    text
}

fn show(dir: &Path, name: &str, as_json: bool) -> Done {
    let run = find(dir, name)?;
    let state = state(&run, StateLock::owner(dir).is_some());
    let course = run.phases.as_ref().and_then(|p| Course::read(p, run.ended_at, &state));
    if as_json {
        let mut value = object(&run, &state);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("course".into(), course.map_or(Value::Null, |c| c.json()));
        }
        return print_all(format!("{value:#}\n").as_bytes());
    }
    let mut lines = about(&run, &state);
    lines.retain(|[_, what]| !what.is_empty());
    let mut text = table("<<", &lines);
    text.push('\n');
    match course {
        Some(course) => text.push_str(&course.text()),
        None => text.push_str("What it waited for was not recorded.\n"),
    }
    print_all(super::visible(&text).as_bytes())
}

/// Who, where, when; what says nothing is empty.
fn about(run: &RunRow, state: &str) -> Vec<[String; 2]> {
    let line = |name: &str, what: String| [name.to_owned(), what];
    let later = |at| format!("{} ({} later)", moment(at), span(at.since(run.accepted_at)));
    let key = run.key.clone().unwrap_or_else(|| "deleted".to_owned());
    let result = match (&run.into_run, &run.termination) {
        (Some(_), Some(how)) => format!("{state}, which was {}", super::words::ended(how)),
        _ => state.to_owned(),
    };
    vec![
        line("run", run.run_id.clone()),
        line("conversation", key),
        line("session", run.session_id.to_string()),
        line("turn", run.turn.as_ref().map(turn).unwrap_or_default()),
        line("accepted", moment(run.accepted_at)),
        line("started", run.started_at.map(later).unwrap_or_default()),
        line("ended", run.ended_at.map(later).unwrap_or_default()),
        line("state", result),
    ]
}

/// How it was to wait, as far as that says something.
fn turn(turn: &Value) -> String {
    let word = |name: &str| match &turn[name] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut parts = Vec::new();
    parts.extend(word("arriving").filter(|a| a != "message"));
    parts.extend(word("lane").map(|lane| format!("lane {lane}")));
    parts.extend(word("priority").map(|priority| format!("priority {priority}")));
    let mode = ["inline", "channel"].iter().find_map(|from| turn[from]["mode"].as_str());
    parts.extend(mode.map(|mode| format!("queue mode {mode}")));
    parts.extend(word("owner").map(|owner| format!("owner {owner}")));
    let attempt = turn["attempt"].as_u64().filter(|n| *n > 0);
    parts.extend(attempt.map(|n| format!("attempt {n} to go on after an interruption")));
    if turn["narrowed"] == true {
        parts.push("only tools that can be repeated".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L20: of how a run waited only what says something is told.
    #[test]
    fn a_turn_is_told_shortly() {
        let plain = json!({"arriving": "message", "group": {"channel": "cli"}, "line": "hi",
            "inline": {}, "channel": {}, "lane": "main", "owner": null,
            "priority": "foreground", "attempt": 0, "narrowed": false});
        assert_eq!(turn(&plain), "lane main, priority foreground");
        let odd = json!({"arriving": "heartbeat", "inline": {"mode": "collect"},
            "channel": {"mode": "steer"}, "lane": {"named": "x"}, "attempt": 2, "narrowed": true});
        assert_eq!(
            turn(&odd),
            "heartbeat, lane {\"named\":\"x\"}, queue mode collect, attempt 2 to go on after an \
             interruption, only tools that can be repeated"
        );
        assert_eq!(turn(&json!({})), "");
    }
}
