//! The entry: arguments and wiring, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A command of the `exec` tool starts itself in a session of its own through this program.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "__exec-child") {
        return stepclaw::tools::run::child_main(args.collect());
    }
    stepclaw::cli::main()
}
