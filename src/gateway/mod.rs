//! The control plane: frames in, frames out (`spec/gateway.md`). Pure: it parses requests, says
//! what is to happen, and words the answers; sockets and pipes are elsewhere.

pub mod audit;
pub mod auth;
mod frame;
mod methods;
mod server;
#[cfg(test)]
mod tests;

pub use frame::{Fault, FrameError, Request};
pub use server::{Do, Server};
