//! `stepclaw sessions`: lists and single conversations. Reads only, and needs no lock.

use super::args::{Format, SessionsArgs, SessionsCommand};
use super::export::export;
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::base::{Millis, SessionKey};
use crate::store::{Loaded, Reader, RunRow, SessionRow, agent_db};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn run(args: &SessionsArgs) -> Done {
    let (paths, _) = super::config::loaded()?;
    match &args.command {
        SessionsCommand::List { json, agent } => list(&paths.state, *json, agent.as_deref()),
        SessionsCommand::Show { key, json } => show(&paths.state, key, *json),
        SessionsCommand::Export { key, format, output } => {
            write_out(&paths.state, key, *format, output.as_deref())
        }
    }
}

/// The agents that have a database.
fn agents(state: &Path) -> Vec<String> {
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
    if as_json {
        let value = json!({"count": rows.len(), "sessions": rows});
        return print_all(format!("{value:#}\n").as_bytes());
    }
    if rows.is_empty() {
        return print_all(b"No conversations yet. Start one: stepclaw agent -m \"list\"\n");
    }
    let width = rows.iter().map(|r| r.key.chars().count()).max().unwrap_or(0).max(3);
    let mut text = format!("{:width$}  {:>7}  {:16}  STATE\n", "KEY", "ENTRIES", "CHANGED");
    for row in &rows {
        let state = row.active_run.as_deref().map_or("idle".to_owned(), |r| format!("run {r}"));
        let _ = writeln!(
            text,
            "{:width$}  {:>7}  {:16}  {state}",
            row.key,
            row.entries,
            local(row.updated_at, "%Y-%m-%d %H:%M")
        );
    }
    print_all(text.as_bytes())
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
    if as_json {
        let value = json!({
            "session": row, "runs": runs, "waiting": loaded.queue.len(),
            "openCalls": loaded.calls.len(), "entries": loaded.branch,
        });
        return print_all(format!("{value:#}\n").as_bytes());
    }
    let mut text = String::new();
    let _ = writeln!(text, "key       {}", row.key);
    let _ = writeln!(text, "session   {} (revision {})", row.session_id, row.revision);
    let _ = writeln!(text, "works in  {}", row.cwd);
    let _ = writeln!(text, "made      {}", local(row.created_at, "%Y-%m-%d %H:%M:%S %Z"));
    let _ = writeln!(text, "changed   {}", local(row.updated_at, "%Y-%m-%d %H:%M:%S %Z"));
    let _ = writeln!(
        text,
        "entries   {}; {} waiting, {} open calls\n",
        row.entries,
        loaded.queue.len(),
        loaded.calls.len()
    );
    let _ = writeln!(text, "runs, the latest first:");
    for run in runs.iter().take(20) {
        let _ = writeln!(text, "  {}", run_line(run));
    }
    print_all(text.as_bytes())
}

fn run_line(run: &RunRow) -> String {
    let start = local(run.accepted_at, "%Y-%m-%d %H:%M:%S");
    match (&run.termination, run.ended_at) {
        (Some(termination), Some(ended)) => {
            let how = serde_json::to_value(termination).unwrap_or_default();
            let kind = how["kind"].as_str().unwrap_or("ended").to_owned();
            format!("{start}  {}  {kind} after {} ms", run.run_id, ended.since(run.accepted_at))
        }
        _ => format!("{start}  {}  not ended", run.run_id),
    }
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
