//! What was said: messages, entries, the one door through which an entry is appended, repair of
//! foreign histories, projection to what a model may see.

pub mod door;
pub mod entry;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod fuzz;
pub mod message;
pub mod outcome;
pub mod project;
pub mod repair;
pub mod stream;

#[cfg(test)]
mod tests;

pub use door::{Door, DoorError, ModelName, OpenCall, Write};
pub use entry::{Compaction, Entry, EntryKind, visible};
pub use message::{
    Assistant, Block, Content, Custom, Message, StopReason, ToolOutput, ToolResult, Usage, User,
};
pub use repair::{paired, repair};
pub use stream::{CallFacts, Check, Delta, Finished, RejectKind, ReplyBody, Substance};
