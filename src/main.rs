//! The entry: arguments and wiring, nothing else.

use std::process::ExitCode;
use stepclaw::tools::run::{child, child_main};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // Before anything else: this process is about to become a command.
    if args.next().is_some_and(|word| word == child::WORD) {
        return child_main(args.collect());
    }
    ExitCode::SUCCESS
}
