//! Samples for the tables: states reached by real transitions, and inputs of every kind.

pub mod batch;
pub mod reply;
pub mod run;
