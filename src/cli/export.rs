//! Conversations written out: text for reading, JSON lines for programs, Markdown for documents.

use super::args::Format;
use super::sessions::local;
use crate::records::SessionRow;
use crate::transcript::{Block, Content, Entry, EntryKind, Message, entry::PROJECTION_VERSION};
use serde_json::json;
use std::fmt::Write as _;

/// A conversation in a format.
pub(super) fn export(row: &SessionRow, branch: &[Entry], format: Format) -> String {
    match format {
        Format::Jsonl => jsonl(row, branch),
        Format::Text => readable(row, branch, false),
        Format::Markdown => readable(row, branch, true),
    }
}

/// The header first, then one entry a line, as OpenClaw's transcripts have it.
fn jsonl(row: &SessionRow, branch: &[Entry]) -> String {
    let header = json!({
        "type": "session", "id": row.session_id, "cwd": row.cwd,
        "timestamp": row.created_at, "version": PROJECTION_VERSION,
    });
    let mut text = format!("{header}\n");
    for entry in branch {
        text.push_str(&serde_json::to_string(entry).unwrap_or_default());
        text.push('\n');
    }
    text
}

fn readable(row: &SessionRow, branch: &[Entry], markdown: bool) -> String {
    let mut text = String::new();
    if markdown {
        let _ = writeln!(text, "# {}\n", row.key);
    }
    for entry in branch {
        if let Some((who, words)) = spoken(&entry.kind) {
            let when = local(entry.timestamp, "%Y-%m-%d %H:%M:%S");
            let _ = if markdown {
                writeln!(text, "## {who}\n\n*{when}*\n\n{}\n", words.markdown())
            } else {
                writeln!(text, "[{when}] {who}\n{}\n", words.plain())
            };
        }
    }
    text
}

/// What an entry says, in parts that are words or output.
struct Words(Vec<(bool, String)>);

impl Words {
    fn plain(&self) -> String {
        let parts: Vec<&str> = self.0.iter().map(|(_, text)| text.trim_end()).collect();
        parts.join("\n")
    }

    /// Output is fenced, with a fence that it does not contain.
    fn markdown(&self) -> String {
        let part = |(code, text): &(bool, String)| {
            if !code {
                return text.trim_end().to_owned();
            }
            let mut fence = String::from("```");
            while text.contains(&fence) {
                fence.push('`');
            }
            format!("{fence}\n{}\n{fence}", text.trim_end())
        };
        self.0.iter().map(part).collect::<Vec<_>>().join("\n\n")
    }
}

fn blocks(blocks: &[Block], output: bool) -> Words {
    let part = |block: &Block| match block {
        Block::Text { text } => (output, text.clone()),
        Block::Thinking { thinking } => (false, format!("(thinking) {thinking}")),
        Block::Image { mime_type, .. } => (false, format!("(image, {mime_type})")),
        Block::ToolCall { name, arguments, .. } => {
            let args = serde_json::to_string(arguments).unwrap_or_default();
            (true, format!("{name} {args}"))
        }
    };
    Words(blocks.iter().map(part).collect())
}

fn content(content: &Content) -> Words {
    match content {
        Content::Text(text) => Words(vec![(false, text.clone())]),
        Content::Blocks(list) => blocks(list, false),
    }
}

fn spoken(kind: &EntryKind) -> Option<(String, Words)> {
    let EntryKind::Message { message } = kind else {
        return match kind {
            EntryKind::CustomMessage { custom_type, content: c, display: true, .. } => {
                Some((custom_type.clone(), content(c)))
            }
            EntryKind::Compaction { summary, .. } => {
                Some(("summary".into(), Words(vec![(false, summary.clone())])))
            }
            _ => None,
        };
    };
    Some(match message {
        Message::User(user) => ("user".into(), content(&user.content)),
        Message::Assistant(reply) => {
            let mut words = blocks(&reply.content, false);
            if let Some(error) = &reply.error_message {
                words.0.push((false, format!("({error})")));
            }
            (format!("assistant ({}/{})", reply.provider, reply.model), words)
        }
        Message::ToolResult(result) => {
            let failed = if result.is_error { ", failed" } else { "" };
            (format!("tool {}{failed}", result.tool_name), blocks(&result.content, true))
        }
        Message::Custom(custom) if custom.display => {
            (custom.custom_type.clone(), content(&custom.content))
        }
        Message::Custom(_) => return None,
        Message::BashExecution(bash) => {
            let text = format!("$ {}\n{}", bash.command, bash.output);
            ("command".into(), Words(vec![(true, text)]))
        }
        Message::BranchSummary(branch) => {
            ("branch summary".into(), Words(vec![(false, branch.summary.clone())]))
        }
        Message::CompactionSummary(compaction) => {
            ("summary".into(), Words(vec![(false, compaction.summary.clone())]))
        }
    })
}
