//! What a model is told about each tool. Every word here is paid for in each request.

use serde_json::{Value, json};

/// One tool as a model sees it, and how the loop treats it.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolSpec {
    /// Exact name.
    pub name: String,
    /// One or two sentences.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
    /// One such call makes its whole batch sequential (semantics 3.7).
    pub sequential: bool,
    /// Made to be called again and again: the loop detector is more patient with it.
    pub poll: bool,
    /// It changes nothing: a run that takes up an interrupted one may use it (semantics 7.7).
    pub replay_safe: bool,
}

/// The tools that change nothing.
#[must_use]
pub fn replayable(specs: &[ToolSpec]) -> Vec<ToolSpec> {
    specs.iter().filter(|spec| spec.replay_safe).cloned().collect()
}

/// The coding tools, sorted by name.
#[must_use]
pub fn core() -> Vec<ToolSpec> {
    vec![apply_patch(), edit(), exec(), safe(ls()), safe(read()), write()]
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
        sequential: false,
        poll: false,
        replay_safe: false,
    }
}

fn safe(spec: ToolSpec) -> ToolSpec {
    ToolSpec { replay_safe: true, ..spec }
}

fn apply_patch() -> ToolSpec {
    tool(
        "apply_patch",
        "Change files by a patch: '*** Begin Patch', then sections '*** Add File: p' (lines with \
         +), '*** Delete File: p', '*** Update File: p' (optional '*** Move to: q'; chunks after \
         '@@ context' with lines marked by space, - or +), then '*** End Patch'.",
        json!({"input": {"type": "string", "description": "The whole patch."}}),
        &["input"],
    )
}

fn edit() -> ToolSpec {
    let edits = json!({
        "type": "array",
        "description": "Replacements, all located in the original file; each oldText occurs once.",
        "items": {
            "type": "object",
            "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}},
            "required": ["oldText", "newText"],
        },
    });
    tool(
        "edit",
        "Replace exact text in a file.",
        json!({"path": {"type": "string"}, "edits": edits}),
        &["path", "edits"],
    )
}

fn exec() -> ToolSpec {
    tool(
        "exec",
        "Run a shell command and return its output. Not interactive: no terminal, no input.",
        json!({
            "command": {"type": "string"},
            "title": {"type": "string", "description": "A few words for people."},
            "workdir": {"type": "string", "description": "Default: the workspace."},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "timeoutSeconds": {"type": "number", "minimum": 0, "description": "0: no limit."},
        }),
        &["command"],
    )
}

fn ls() -> ToolSpec {
    tool(
        "ls",
        "List a directory.",
        json!({
            "path": {"type": "string", "description": "Default: the workspace."},
            "limit": {"type": "integer", "minimum": 1, "description": "Default 500."},
            "after": {"type": "string", "description": "Continue after this name."},
        }),
        &[],
    )
}

fn read() -> ToolSpec {
    tool(
        "read",
        "Read a text file or a picture. At most 2000 lines or 50 KiB a call.",
        json!({
            "path": {"type": "string"},
            "offset": {"type": "integer", "minimum": 1, "description": "First line, from 1."},
            "limit": {"type": "integer", "minimum": 1, "description": "Most lines."},
            "cursor": {
                "type": "integer", "minimum": 0,
                "description": "Characters to skip in the first line.",
            },
            "optional": {"type": "boolean", "description": "A missing file is no error."},
        }),
        &["path"],
    )
}

fn write() -> ToolSpec {
    tool(
        "write",
        "Write a whole file; creates it and its directories, replaces what was there.",
        json!({"path": {"type": "string"}, "content": {"type": "string"}}),
        &["path", "content"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tools#1.
    #[test]
    fn core_tools_are_sorted_and_short() {
        let names: Vec<String> = core().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["apply_patch", "edit", "exec", "ls", "read", "write"]);
        let cost: usize =
            core().iter().map(|t| t.description.len() + t.parameters.to_string().len()).sum();
        assert!(cost < 3_500, "{cost} bytes of prompt");
        for tool in core() {
            assert!(jsonschema::validator_for(&tool.parameters).is_ok(), "{}", tool.name);
        }
        let exec = &core()[2].parameters["properties"];
        assert!(exec.get("yieldMs").is_none() && exec.get("background").is_none());
    }
}
