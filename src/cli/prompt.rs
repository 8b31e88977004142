//! `stepclaw prompt show`: what the model sees before the conversation. Reads only, needs no lock,
//! and makes nothing (PR19, PR20).

use super::args::{PromptArgs, PromptCommand, PromptShowArgs};
use super::words::{moment, table};
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::base::SessionKey;
use crate::config::{self, Config, Injection, Paths};
use crate::context::bootstrap::{Bootstrap, Fate, Kept, Limits};
use crate::context::prompt::{BOUNDARY, Change, Mode, Outline, Prompt, diff};
use crate::context::{Audience, bootstrap};
use crate::model::catalog::{self, Backend, SCRIPTED};
use crate::reactor::prompter::{Ground, Prompted, Prompter, Wanted};
use crate::records::{RunRow, SessionRow};
use crate::store::{Reader, agent_db};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

pub(super) fn run(args: &PromptArgs) -> Done {
    match &args.command {
        PromptCommand::Show(args) => show(args),
    }
}

/// What prompts are made from, as the config has it.
pub(super) fn ground(
    config: &Config,
    workspace: PathBuf,
    cwd: PathBuf,
    shell: Option<String>,
) -> Ground {
    let agent = &config.agent;
    let limit = |wanted: Option<u64>, usual: usize| {
        wanted.map_or(usual, |most| usize::try_from(most).unwrap_or(usize::MAX))
    };
    Ground {
        workspace,
        cwd,
        limits: Limits {
            file: limit(agent.bootstrap_max_chars, bootstrap::FILE_UNITS),
            total: limit(agent.bootstrap_total_max_chars, bootstrap::TOTAL_UNITS),
        },
        inject: agent.injection == Injection::Always,
        shell,
        zone: super::zone::local,
    }
}

/// What is shown, and of what.
struct Shown {
    key: SessionKey,
    model: String,
    prompted: Prompted,
    last: Option<(RunRow, Outline)>,
}

fn show(args: &PromptShowArgs) -> Done {
    let key = SessionKey::parse(&args.session_key);
    let key = key.map_err(|e| Failed::new(USAGE, e.to_string()))?;
    let (paths, config) = super::config::loaded()?;
    let reader = Reader::open(&agent_db(&paths.state, key.agent()))?;
    let row = match &reader {
        Some(reader) => reader.sessions()?.into_iter().find(|row| row.key == key.as_str()),
        None => None,
    };
    let last = match (&reader, &row) {
        (Some(reader), Some(row)) if args.diff => last_sent(reader.runs(&row.session_id)?),
        _ => None,
    };
    let model = model_of(args, &config, row.as_ref());
    let prompted = made(args, &config, &paths, &key, &model)?;
    let shown = Shown { key, model, prompted, last };
    if args.json {
        return print_all(format!("{:#}\n", shown.object(args.diff)).as_bytes());
    }
    if args.text {
        return print_all(format!("{}\n", shown.prompted.prompt.marked()).as_bytes());
    }
    let text = if args.diff { shown.changes()? } else { shown.tables() };
    print_all(super::visible(&text).as_bytes())
}

/// The model that the session's next run is sent to.
fn model_of(args: &PromptShowArgs, config: &Config, row: Option<&SessionRow>) -> String {
    let meta = row.and_then(|row| row.meta.as_deref());
    let meta = meta.and_then(|meta| serde_json::from_str::<Value>(meta).ok());
    let set = meta.and_then(|meta| meta["model"].as_str().map(str::to_owned));
    let model = args.model.clone().or(set).or_else(|| config.agent.model.clone());
    model.unwrap_or_else(|| SCRIPTED.to_owned())
}

fn made(
    args: &PromptShowArgs,
    config: &Config,
    paths: &Paths,
    key: &SessionKey,
    model: &str,
) -> Result<Prompted, Failed> {
    let workspace = config::workspace(config, paths, &config::process_env);
    let workspace = std::fs::canonicalize(&workspace).unwrap_or(workspace);
    let cwd = match &args.cwd {
        None => workspace.clone(),
        Some(dir) => super::agent::folder(dir)?,
    };
    // A model whose provider lacks a variable here has a prompt all the same.
    let tools = match catalog::resolve(config, model).map(|model| model.backend) {
        Ok(Backend::OpenAi { compat, .. }) if !compat.tools => vec![],
        _ => super::agent::specs(config).into_iter().map(|spec| spec.name).collect(),
    };
    let shell = std::env::var("SHELL").ok();
    let now = crate::reactor::Clock::start().now();
    let wanted = Wanted { key: key.as_str().into(), model: model.to_owned(), tools, now };
    Ok(Prompter::new(ground(config, workspace, cwd, shell)).prompt(&wanted))
}

/// The latest run that noted its prompt: those after it were sent the same.
fn last_sent(runs: Vec<RunRow>) -> Option<(RunRow, Outline)> {
    runs.into_iter().find_map(|run| {
        let record = run.phases.as_ref()?.get("prompt")?.clone();
        Some((run, serde_json::from_value(record).ok()?))
    })
}

impl Shown {
    fn tables(&self) -> String {
        let Prompted { prompt, files, .. } = &self.prompted;
        let audience = Audience::of(self.key.as_str());
        let mode = Mode::of(audience).word();
        let mut text = table(
            "<<",
            &[
                ["session".into(), format!("{} ({}, {mode})", self.key.as_str(), audience.word())],
                ["model".into(), self.model.clone()],
                ["key".into(), prompt.stable.key.to_string()],
            ],
        );
        if self.model == SCRIPTED {
            text.push_str("The offline script reads no prompt; a model would get this one.\n");
        }
        let _ = write!(text, "\n{}", layers(prompt));
        if files.files.is_empty() {
            text.push_str("\nNo files of the workspace are shown.\n");
            return text;
        }
        let mut lines = vec![["FILE", "SHOWN", "OF", "STATE"].map(str::to_owned)];
        lines.extend(files.files.iter().map(file_line));
        let _ = write!(text, "\n{}", table("<>><", &lines));
        let _ = writeln!(text, "{} of at most {} characters together", files.used, files.limit);
        for note in &files.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    /// What is different from the last request, for people.
    fn changes(&self) -> Result<String, Failed> {
        let Some((run, old)) = &self.last else {
            let text = format!("no request of {} is on record", self.key.as_str());
            return Err(Failed::new(FAILED, text));
        };
        let new = &self.prompted.outline;
        let mut text = format!("since run {} ({}):\n", run.run_id, moment(run.accepted_at));
        let changes = diff(old, new);
        if changes.is_empty() {
            text.push_str("  nothing has changed\n");
        }
        for change in &changes {
            let _ = match change {
                Change::Added(name, now) => writeln!(text, "  + {name} ({now} characters)"),
                Change::Removed(name, was) => writeln!(text, "  - {name} ({was} characters)"),
                Change::Changed(name, was, now) => {
                    writeln!(text, "  ~ {name} ({was} to {now} characters)")
                }
            };
        }
        let held = old.key == new.key;
        text.push_str(match held {
            true => "The stable prefix is the same: what a provider cached of it holds.\n",
            false => "The stable prefix is another one: a provider reads it anew.\n",
        });
        Ok(text)
    }

    fn object(&self, with_diff: bool) -> Value {
        let Prompted { prompt, files, .. } = &self.prompted;
        let audience = Audience::of(self.key.as_str());
        let layer = |(layer, text, stable): (&crate::context::prompt::Layer, &str, bool)| {
            let part = if stable { "stable" } else { "volatile" };
            json!({"name": layer.name, "part": part, "chars": text.chars().count()})
        };
        let mut value = json!({
            "sessionKey": self.key.as_str(),
            "audience": audience.word(),
            "mode": Mode::of(audience).word(),
            "model": self.model,
            "stablePrefixCacheKey": &*prompt.stable.key,
            "boundary": BOUNDARY,
            "stable": &*prompt.stable.text,
            "volatile": &*prompt.volatile,
            "layers": prompt.each().map(layer).collect::<Vec<Value>>(),
            "bootstrap": of_files(files),
        });
        if with_diff {
            value["diff"] = self.last.as_ref().map_or(Value::Null, |(run, old)| {
                let new = &self.prompted.outline;
                let changes: Vec<Value> = diff(old, new).iter().map(of_change).collect();
                json!({"runId": run.run_id, "at": run.accepted_at, "key": old.key,
                    "keyChanged": old.key != new.key, "changes": changes})
            });
        }
        value
    }
}

fn layers(prompt: &Prompt) -> String {
    let line = |name: &str, count: usize| [name.to_owned(), count.to_string()];
    let mut lines = vec![["LAYER", "CHARACTERS"].map(str::to_owned)];
    let of = |wanted: bool| {
        prompt
            .each()
            .filter(move |(.., stable)| *stable == wanted)
            .map(move |(layer, text, _)| line(&layer.name, text.chars().count()))
    };
    lines.extend(of(true));
    lines.push(line("= stable", prompt.stable.text.chars().count()));
    lines.push([BOUNDARY.to_owned(), String::new()]);
    lines.extend(of(false));
    lines.push(line("= volatile", prompt.volatile.chars().count()));
    table("<>", &lines)
}

fn file_line(file: &Kept) -> [String; 4] {
    let mut state = file.fate.word().to_owned();
    if let Fate::Refused(why) = &file.fate {
        let _ = write!(state, ": {why}");
    } else if file.near() {
        let _ = write!(state, ", near its limit of {}", file.limit);
    }
    let counted = !matches!(file.fate, Fate::Missing | Fate::Absent | Fate::Refused(_));
    let count = |n: usize| if counted { n.to_string() } else { "-".to_owned() };
    [file.path.clone(), count(file.kept), count(file.total), state]
}

fn of_files(files: &Bootstrap) -> Value {
    let file = |file: &Kept| {
        json!({
            "name": file.name,
            "path": file.path,
            "state": file.fate.word(),
            "reason": match &file.fate { Fate::Refused(why) => Some(why), _ => None },
            "kept": file.kept,
            "total": file.total,
            "limit": file.limit,
            "nearLimit": file.near(),
        })
    };
    json!({
        "used": files.used,
        "limit": files.limit,
        "truncated": files.truncated,
        "nearLimit": files.near(),
        "notes": files.notes,
        "files": files.files.iter().map(file).collect::<Vec<Value>>(),
    })
}

fn of_change(change: &Change) -> Value {
    match change {
        Change::Added(name, now) => json!({"layer": name, "change": "added", "now": now}),
        Change::Removed(name, was) => json!({"layer": name, "change": "removed", "before": was}),
        Change::Changed(name, was, now) => {
            json!({"layer": name, "change": "changed", "before": was, "now": now})
        }
    }
}
