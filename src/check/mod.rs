//! Tests about the whole: traces, tables, the exhaustive walk, layers, style.

mod bench;
mod cases;
mod ends;
mod layers;
mod patience;
mod samples;
mod tables;
mod tidy;
mod traces;
mod walk;
