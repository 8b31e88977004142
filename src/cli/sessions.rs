//! `stepclaw sessions`: lists and single conversations. What is here reads only and needs no lock;
//! what writes is in `change.rs`.

use super::args::{Format, SessionsArgs, SessionsCommand};
use super::export::export;
use super::words::{count, moment, span, state as run_state, table};
use super::{Done, FAILED, Failed, USAGE, change, print_all};
use crate::base::{Millis, SessionKey};
use crate::records::{RunRow, SessionRow};
use crate::store::{Loaded, Reader, StateLock, agent_db};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn run(args: &SessionsArgs) -> Done {
    let (paths, config) = super::config::loaded()?;
    // Who writes goes through a gateway that runs (decisions 6).
    let through = super::client::running(&paths).is_some();
    match &args.command {
        SessionsCommand::List { json, agent } => list(&paths.state, *json, agent.as_deref()),
        SessionsCommand::Show { key, json } => show(&paths.state, key, *json),
        SessionsCommand::Export { key, format, output } => {
            write_out(&paths.state, key, *format, output.as_deref())
        }
        SessionsCommand::Fork { key, new, json } => {
            super::fork::fork(&config, &paths, key, new.as_deref(), *json)
        }
        SessionsCommand::Reset { key, reason, json } if through => {
            super::fork::reset(&config, &paths, key, *reason, *json)
        }
        SessionsCommand::Delete { key, yes, json } if through => {
            super::fork::delete(&config, &paths, key, *yes, *json)
        }
        SessionsCommand::Reset { key, reason, json } => {
            change::reset(&paths.state, &config, key, *reason, *json)
        }
        SessionsCommand::Delete { key, yes, json } => {
            change::delete(&paths.state, &config, key, *yes, *json)
        }
    }
}

/// The agents that have a database.
pub(super) fn agents(state: &Path) -> Vec<String> {
    let Ok(dir) = std::fs::read_dir(state.join("agents")) else { return vec![] };
    let mut names: Vec<String> =
        dir.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn list(state: &Path, as_json: bool, only: Option<&str>) -> Done {
    let mut rows: Vec<SessionRow> = Vec::new();
    for agent in agents(state).iter().filter(|a| only.is_none_or(|only| only == *a)) {
        if let Some(reader) = Reader::open(&agent_db(state, agent))? {
            rows.extend(reader.sessions()?);
        }
    }
    rows.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.key.cmp(&b.key)));
    let lived = StateLock::owner(state).is_some();
    if as_json {
        let sessions: Vec<Value> = rows.iter().map(|row| object(row, lived)).collect();
        let value = json!({"count": rows.len(), "sessions": sessions});
        return print_all(format!("{value:#}\n").as_bytes());
    }
    if rows.is_empty() {
        return print_all(b"No conversations yet. Start one: stepclaw agent -m \"list\"\n");
    }
    let mut lines = vec![["KEY", "ENTRIES", "CHANGED", "STATE"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let changed = local(row.updated_at, "%Y-%m-%d %H:%M");
        [row.key.clone(), row.entries.to_string(), changed, Stand::of(row, lived).words(row)]
    }));
    print_all(super::visible(&table("<><<", &lines)).as_bytes())
}

/// How a conversation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stand {
    /// Nothing goes on.
    Idle,
    /// A run writes.
    Running,
    /// Its run's process has died; the next one closes it.
    Interrupted,
    /// Its run was stopped by a restart and is closed; it is taken up again.
    Resumable,
}

impl Stand {
    /// `lived`: a process has the state directory. Without one, no run lives.
    fn of(row: &SessionRow, lived: bool) -> Stand {
        match (&row.active_run, lived) {
            (Some(_), true) => Stand::Running,
            (Some(_), false) => Stand::Interrupted,
            (None, _) if row.interrupted => Stand::Resumable,
            (None, _) => Stand::Idle,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Stand::Idle => "idle",
            Stand::Running => "running",
            Stand::Interrupted => "interrupted",
            Stand::Resumable => "resumable",
        }
    }

    fn words(self, row: &SessionRow) -> String {
        let run = row.active_run.as_deref().unwrap_or_default();
        match self {
            Stand::Idle => "idle".to_owned(),
            Stand::Running => format!("run {run}"),
            Stand::Interrupted => format!("interrupted: run {run}"),
            Stand::Resumable => "interrupted: to be taken up again".to_owned(),
        }
    }
}

/// A conversation for programs.
fn object(row: &SessionRow, lived: bool) -> Value {
    let mut value = serde_json::to_value(row).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("state".into(), json!(Stand::of(row, lived).name()));
    }
    value
}

/// A time for people, in their zone.
pub(super) fn local(at: Millis, format: &str) -> String {
    let ms = i64::try_from(at.0).unwrap_or(0);
    let Ok(time) = jiff::Timestamp::from_millisecond(ms) else { return at.to_string() };
    time.to_zoned_datetime(super::zone::local().0).strftime(format).to_string()
}

fn find(state: &Path, key: &str) -> Result<(Reader, Loaded, SessionRow), Failed> {
    let key = SessionKey::parse(key).map_err(|e| Failed::new(USAGE, e.to_string()))?;
    let missing = || Failed::new(FAILED, format!("there is no conversation {key}"));
    let reader = Reader::open(&agent_db(state, key.agent()))?.ok_or_else(missing)?;
    let mut loaded = reader.session(key.as_str())?.ok_or_else(missing)?;
    let row = loaded.session.take().ok_or_else(missing)?;
    for what in &loaded.damaged {
        eprintln!("stepclaw: left out, damaged: {what}");
    }
    Ok((reader, loaded, row))
}

fn show(state: &Path, key: &str, as_json: bool) -> Done {
    let (reader, loaded, row) = find(state, key)?;
    let runs = reader.runs(&row.session_id)?;
    let lived = StateLock::owner(state).is_some();
    if as_json {
        let value = json!({
            "session": object(&row, lived), "runs": runs, "waiting": loaded.waiting,
            "openCalls": loaded.calls.len(), "entries": loaded.branch,
        });
        return print_all(format!("{value:#}\n").as_bytes());
    }
    let time = |at| local(at, "%Y-%m-%d %H:%M:%S %Z");
    let line = |name: &str, what: String| [name.to_owned(), what];
    let calls = loaded.calls.len() as u64;
    let open = format!("{} waiting, {}", loaded.waiting, count(calls, "open call", "open calls"));
    let mut lines = vec![
        line("key", row.key.clone()),
        line("session", format!("{} (revision {})", row.session_id, row.revision)),
        line("state", Stand::of(&row, lived).words(&row)),
        line("works in", row.cwd.clone()),
        line("belongs to", row.parent_key.clone().unwrap_or_default()),
        line("queue", row.queue_settings.clone().unwrap_or_default()),
        line("made", time(row.created_at)),
        line("began", time(row.started_at)),
        line("last spoken", time(row.interaction_at)),
        line("changed", time(row.updated_at)),
        line("entries", format!("{}; {open}", row.entries)),
    ];
    lines.retain(|[_, what]| !what.is_empty());
    let mut text = table("<<", &lines);
    text.push_str("\nruns, the latest first:\n");
    let shown: Vec<[String; 4]> =
        runs.iter().take(RUNS_SHOWN).map(|run| run_line(run, lived)).collect();
    text.push_str(&table("<<<<", &shown));
    if runs.len() > RUNS_SHOWN {
        let _ =
            writeln!(text, "  (of {}; stepclaw runs list --session-key {})", runs.len(), row.key);
    }
    print_all(super::visible(&text).as_bytes())
}

/// Most runs that are shown with a conversation.
const RUNS_SHOWN: usize = 20;

fn run_line(run: &RunRow, lived: bool) -> [String; 4] {
    let how = run_state(run, lived);
    let how = match run.ended_at {
        Some(at) => format!("{how} after {}", span(at.since(run.accepted_at))),
        None => how,
    };
    [String::new(), moment(run.accepted_at), run.run_id.clone(), how]
}

fn write_out(state: &Path, key: &str, format: Format, output: Option<&Path>) -> Done {
    let (_, loaded, row) = find(state, key)?;
    let text = export(&row, &loaded.branch, format);
    match output {
        None => print_all(text.as_bytes()),
        // A conversation is never written over something else, least of all over its own store.
        Some(path) => std::fs::File::create_new(path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .map(|()| super::OK)
            .map_err(|e| Failed::new(FAILED, format!("{}: {e}", path.display()))),
    }
}
