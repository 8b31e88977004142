//! `ls`: one page of a directory.

use super::{Ctx, Outcome, count, file};
use crate::transcript::ToolOutput;
use serde_json::{Map, Value, json};
use std::fs;

const LIMIT: usize = 500;
const BYTES_MAX: usize = 51_200;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 200_000;

pub(super) fn run(args: &Map<String, Value>, ctx: &Ctx) -> Outcome {
    let shown = args.get("path").and_then(Value::as_str).filter(|path| !path.is_empty());
    let shown = shown.unwrap_or(".");
    let limit = count(args, "limit")?.unwrap_or(LIMIT).max(1);
    let after = args.get("after").and_then(Value::as_str).filter(|name| !name.is_empty());
    // A listed directory ends in a slash; its name does not.
    let after = after.map(|name| name.trim_end_matches('/'));
    let path = ctx.resolve(shown)?;
    let say = |error| file::failed("list", shown, &error);
    if !fs::metadata(&path).map_err(say)?.is_dir() {
        return Err(format!("{shown} is not a directory."));
    }
    let mut names = Vec::new();
    let mut more = false;
    for entry in fs::read_dir(&path).map_err(say)? {
        ctx.unless_cancelled()?;
        if names.len() == ENTRIES_MAX {
            more = true;
            break;
        }
        let name = entry.map_err(say)?.file_name();
        names.push((name.to_string_lossy().into_owned(), name));
    }
    names.sort_unstable();
    let total = names.len();
    let rest = names.iter().skip_while(|(name, _)| after.is_some_and(|a| name.as_str() <= a));
    let (mut text, mut last, mut listed, mut left) = (String::new(), None, 0usize, 0usize);
    for (name, os_name) in rest {
        let slash = if path.join(os_name).is_dir() { "/" } else { "" };
        let line = json!(format!("{name}{slash}")).to_string();
        if listed == limit || (listed > 0 && text.len() + line.len() >= BYTES_MAX) || left > 0 {
            left += 1;
            continue;
        }
        text.push_str(&line);
        text.push('\n');
        listed += 1;
        last = Some(name);
    }
    text.push_str(&match (last, left) {
        (Some(last), 1..) => {
            let after = json!(last);
            format!("[{listed} of {total} entries. Continue with after={after}.]")
        }
        (None, _) if total > 0 => "[No entries after that name.]".to_owned(),
        (None, _) => "[The directory is empty.]".to_owned(),
        (Some(_), 0) => format!("[{listed} of {total} entries.]"),
    });
    if more {
        text.push_str(&format!("\n[Only {ENTRIES_MAX} entries were looked at.]"));
    }
    let details = json!({"entries": listed, "total": total, "truncated": left > 0});
    Ok(ToolOutput::text(text).with(details))
}
