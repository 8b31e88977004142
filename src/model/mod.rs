//! Models: codecs (`wire`, pure), the HTTP worker (`http`), the offline model (`scripted`).

pub mod call;
pub mod catalog;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod fuzz;
pub mod http;
pub mod scripted;
pub mod wire;

pub use call::{CallHandle, ModelEvent};
pub use wire::{Delta, End, Finished};
