//! What a model sees beside and before the conversation: the system prompt, the workspace's files
//! in it, and old tool results made short (`spec/prompt.md`).

pub mod bootstrap;
pub mod compact;
pub mod estimate;
pub mod prompt;
pub mod prune;
mod units;

pub use bootstrap::{Audience, Bootstrap};
pub use prompt::{Mode, Prefix, Prompt, Stable, Volatile};
