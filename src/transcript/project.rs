//! How messages that are not conversation reach a model: as a person's words (semantics 1.5).

use super::message::{Content, Message};
use std::borrow::Cow;

/// What a model is given of a message that is neither the model's nor a tool's: the content of a
/// user message. `None` for those two, and for commands that are kept out of the context.
#[must_use]
pub fn as_user(message: &Message) -> Option<Cow<'_, Content>> {
    match message {
        Message::User(user) => Some(Cow::Borrowed(&user.content)),
        Message::Custom(custom) => Some(Cow::Borrowed(&custom.content)),
        Message::BashExecution(bash) if bash.exclude_from_context => None,
        Message::BashExecution(bash) => {
            let mut text = format!("Ran `{}`\n```\n{}\n```", bash.command, bash.output);
            if let Some(code) = bash.exit_code.filter(|code| *code != 0) {
                text.push_str(&format!("\n\nThe command ended with exit code {code}."));
            }
            if bash.cancelled {
                text.push_str("\n\nThe command was cancelled.");
            }
            if bash.truncated {
                text.push_str("\n\nThe output was cut.");
            }
            Some(Cow::Owned(Content::Text(text)))
        }
        Message::BranchSummary(branch) => Some(Cow::Owned(Content::Text(format!(
            "This is a summary of a branch of this conversation that was left:\n\n<summary>\n{}\n\
             </summary>",
            branch.summary
        )))),
        Message::CompactionSummary(compaction) => Some(Cow::Owned(Content::Text(format!(
            "The history before this point was compacted into this summary:\n\n<summary>\n{}\n\
             </summary>",
            compaction.summary
        )))),
        Message::Assistant(_) | Message::ToolResult(_) => None,
    }
}
