//! `edit`: replacements in a file (tools#9).

use super::{Ctx, Outcome, file, order::Access, text};
use crate::{
    tools::splice::{self, Edit, SpliceError},
    transcript::ToolOutput,
};
use serde_json::{Map, Value, json};

pub(super) fn run(args: &Map<String, Value>, ctx: &Ctx) -> Outcome {
    let shown = text(args, "path")?;
    let edits = edits(args)?;
    let path = ctx.resolve(shown)?;
    ctx.acquire(std::slice::from_ref(&path), Access::Write)?;
    let original = file::read_text(shown, &path)?;
    let spliced = match splice::splice(&original, &edits) {
        Ok(spliced) => spliced,
        Err(error) => {
            let mut output = ToolOutput::error(format!("{shown} was not changed. {error}"));
            if error == SpliceError::NoChange {
                output.details = Some(json!({"changed": false}));
            }
            return Ok(output);
        }
    };
    ctx.unless_cancelled()?;
    file::replace(shown, &path, spliced.text.as_bytes())?;
    let mut message = format!("Replaced {} place(s) in {shown}.", spliced.ranges.len());
    if spliced.tolerant > 0 {
        message.push_str(&format!(
            " {} of them matched only when quotes, dashes and blanks were taken loosely.",
            spliced.tolerant
        ));
    }
    let details = file::change(shown, Some(&original), &spliced.text);
    Ok(ToolOutput::text(message).with(Value::Object(details)))
}

fn edits(args: &Map<String, Value>) -> Result<Vec<Edit>, String> {
    let list = args.get("edits").and_then(Value::as_array).ok_or("edits must be a list.")?;
    let one = |edit: &Value| {
        let text = |key: &str| edit.get(key)?.as_str().map(str::to_owned);
        Some(Edit { old: text("oldText")?, new: text("newText")? })
    };
    list.iter()
        .map(|edit| one(edit).ok_or_else(|| "each edit needs oldText and newText.".to_owned()))
        .collect()
}
