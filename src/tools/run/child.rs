//! The few steps between a fork and a command that a safe program can only take in a process of
//! its own: a new session, without a controlling terminal. The program starts itself for them.

use std::{ffi::OsString, os::unix::process::CommandExt, process::Command, process::ExitCode};

/// The argument that makes the program this child.
pub const WORD: &str = "__exec-child";

/// Becomes the command after `--`, in a session of its own. Returns only where that fails, with
/// the status a shell has for it.
#[must_use]
pub fn child_main(args: Vec<OsString>) -> ExitCode {
    let mut words = args.into_iter().skip_while(|word| word != "--").skip(1);
    let Some(program) = words.next() else {
        eprintln!("{WORD}: no command");
        return ExitCode::from(2);
    };
    // Refused only where this process leads a group already; a terminal could then be opened.
    if let Err(error) = rustix::process::setsid() {
        eprintln!("{WORD}: no session of its own: {error}");
        return ExitCode::from(126);
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("{WORD}: {}: {error}", program.display());
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}
