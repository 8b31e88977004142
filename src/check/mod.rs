//! Tests about the whole: traces, tables, the exhaustive walk, layers, style.

mod bench;
mod traces;
mod walk;
