//! What was said: messages, entries, the one door through which an entry is appended, repair of
//! foreign histories, projection to what a model may see.

pub mod door;
pub mod entry;
pub mod message;
pub mod outcome;
pub mod project;
pub mod repair;
pub mod stream;

pub use door::{Door, DoorError, ModelName, OpenCall, Write};
pub use entry::{Entry, EntryKind, visible};
pub use message::{
    Assistant, Block, Content, Custom, Message, StopReason, ToolOutput, ToolResult, Usage, User,
};
pub use repair::{paired, repair};
pub use stream::{CallFacts, Check, Delta, Finished, RejectKind, ReplyBody, Substance};
