//! What was said: messages, entries, the one door through which an entry is appended, repair of
//! foreign histories, projection to what a model may see.

pub mod message;

pub use message::{
    Assistant, Block, Content, Custom, Message, StopReason, ToolOutput, ToolResult, Usage, User,
};
