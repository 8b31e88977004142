//! `apply_patch`: files one after the other; what was done stays done (tools#10).

use super::{
    Ctx, Outcome, file,
    order::{Access, real_path},
    text,
};
use crate::{
    tools::patch::{self, Section},
    transcript::ToolOutput,
};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What was done, in order: the letter and the path.
type Done = Vec<(char, String)>;

pub(super) fn run(args: &Map<String, Value>, ctx: &Ctx) -> Outcome {
    let sections = patch::parse(text(args, "input")?).map_err(|error| error.to_string())?;
    let mut paths = Vec::new();
    for shown in sections.iter().flat_map(names) {
        let path = ctx.resolve(shown)?;
        inside(ctx, shown, &path)?;
        paths.push(path);
    }
    ctx.acquire(&paths, Access::Write)?;
    let mut done = Done::new();
    for section in &sections {
        let step = ctx.unless_cancelled().and_then(|()| one(ctx, section));
        match step {
            Ok(change) => done.push(change),
            Err(why) => return Ok(stopped(&done, &why)),
        }
    }
    Ok(ToolOutput::text(format!("Done:\n{}", list(&done))).with(summary(&done)))
}

fn names(section: &Section) -> Vec<&str> {
    match section {
        Section::Add { path, .. } | Section::Delete { path } => vec![path],
        Section::Update { path, to, .. } => {
            std::iter::once(path.as_str()).chain(to.as_deref()).collect()
        }
    }
}

/// Links are followed first: a link that leads out of the workspace is outside.
fn inside(ctx: &Ctx, shown: &str, path: &Path) -> Result<(), String> {
    if ctx.workspace_only_patch && !real_path(path).starts_with(real_path(&ctx.cwd)) {
        return Err(format!("{shown} is outside the workspace; nothing was changed."));
    }
    Ok(())
}

fn one(ctx: &Ctx, section: &Section) -> Result<(char, String), String> {
    match section {
        Section::Add { path: shown, text } => {
            let path = ctx.resolve(shown)?;
            absent(shown, &path)?;
            file::replace(shown, &path, text.as_bytes())?;
            Ok(('A', shown.clone()))
        }
        Section::Delete { path: shown } => {
            let path = ctx.resolve(shown)?;
            let say = |error| file::failed("delete", shown, &error);
            if fs::symlink_metadata(&path).map_err(say)?.is_dir() {
                return Err(format!("{shown} is a directory; only files are deleted."));
            }
            fs::remove_file(&path).map_err(say)?;
            Ok(('D', shown.clone()))
        }
        Section::Update { path: shown, to, chunks } => {
            let path = ctx.resolve(shown)?;
            let original = file::read_text(shown, &path)?;
            let changed =
                patch::apply(&original, chunks).map_err(|error| format!("{shown}: {error}"))?;
            let Some(to) = to else {
                file::replace(shown, &path, changed.as_bytes())?;
                return Ok(('M', shown.clone()));
            };
            move_to(shown, &path, to, &ctx.resolve(to)?, &changed)?;
            Ok(('M', to.clone()))
        }
    }
}

fn move_to(
    shown: &str,
    from: &Path,
    shown_to: &str,
    to: &PathBuf,
    text: &str,
) -> Result<(), String> {
    absent(shown_to, to)?;
    let say = |error| file::failed("move", shown, &error);
    let mode = fs::metadata(from).map_err(say)?.permissions();
    file::replace(shown_to, to, text.as_bytes())?;
    fs::set_permissions(to, mode).map_err(say)?;
    fs::remove_file(from).map_err(say)
}

fn absent(shown: &str, path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(format!("{shown} exists already.")),
        Err(_) => Ok(()),
    }
}

fn list(done: &Done) -> String {
    let lines: Vec<String> = done.iter().map(|(sign, path)| format!("{sign} {path}")).collect();
    lines.join("\n")
}

fn summary(done: &Done) -> Value {
    let of = |sign: char| -> Vec<&str> {
        done.iter().filter(|(s, _)| *s == sign).map(|(_, path)| path.as_str()).collect()
    };
    json!({"summary": {"added": of('A'), "modified": of('M'), "deleted": of('D')}})
}

fn stopped(done: &Done, why: &str) -> ToolOutput {
    let before = if done.is_empty() {
        "Nothing was changed.".to_owned()
    } else {
        format!("What came before it is done and stays done:\n{}", list(done))
    };
    ToolOutput::error(format!("The patch stopped: {why}\n{before}")).with(summary(done))
}
