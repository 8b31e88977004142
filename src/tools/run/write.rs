//! `write`: a whole file (tools#5, tools#8).

use super::{Ctx, Outcome, file, order::Access, text};
use crate::transcript::ToolOutput;
use serde_json::{Map, Value, json};
use std::{fs, io};

/// Old content beyond this is not read for a diff.
const OLD_BYTES_MAX: u64 = 1 << 20;

pub(super) fn run(args: &Map<String, Value>, ctx: &Ctx) -> Outcome {
    let (shown, content) = (text(args, "path")?, text(args, "content")?);
    let path = ctx.resolve(shown)?;
    ctx.acquire(std::slice::from_ref(&path), Access::Write)?;
    let (created, old) = match fs::metadata(&path) {
        Ok(meta) => {
            file::regular(shown, &meta, u64::MAX)?;
            let comparable = meta.len() <= OLD_BYTES_MAX || meta.len() == content.len() as u64;
            let old = if comparable { file::read(shown, &path, u64::MAX - 1).ok() } else { None };
            (false, old)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (true, Some(Vec::new())),
        Err(error) => return Err(file::failed("write", shown, &error)),
    };
    if !created && old.as_deref() == Some(content.as_bytes()) {
        let message = format!("{shown} already has this content.");
        return Ok(ToolOutput::text(message).with(json!({"changed": false})));
    }
    file::replace(shown, &path, content.as_bytes())?;
    let old = old.and_then(|old| String::from_utf8(old).ok());
    let mut details = file::change(shown, old.as_deref(), content);
    details.insert("created".into(), json!(created));
    let verb = if created { "Created" } else { "Wrote" };
    let message = format!("{verb} {shown} ({} bytes).", content.len());
    Ok(ToolOutput::text(message).with(Value::Object(details)))
}
