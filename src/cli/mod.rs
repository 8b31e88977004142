//! The command line: arguments, what a person or a program sees, exit statuses (decisions 31).

mod agent;
mod args;
mod change;
mod client;
mod config;
mod control;
mod course;
mod export;
mod first;
mod fork;
mod gateway;
mod logs;
mod prompt;
mod replay;
mod runs;
mod screen;
mod sessions;
mod settings;
mod talk;
mod words;
mod zone;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use std::io::Write as _;
use std::process::ExitCode;

/// Exit status: the run was completed, or the command did its work.
pub const OK: u8 = 0;
/// Exit status: the provider failed, or we did.
pub const FAILED: u8 = 1;
/// Exit status: the command line or the config is wrong.
pub const USAGE: u8 = 2;
/// Exit status: a rule ended the run, or the loop detector.
pub const POLICY: u8 = 3;
/// Exit status: a newer writer has the session.
pub const SUPERSEDED: u8 = 4;
/// Exit status: another process has the state directory.
pub const LOCKED: u8 = 75;
/// Exit status: a time limit.
pub const TIMEOUT: u8 = 124;
/// Exit status: the run was stopped.
pub const ABORTED: u8 = 130;

/// A command that did not do its work.
struct Failed {
    status: u8,
    text: String,
}

impl Failed {
    fn new(status: u8, text: impl Into<String>) -> Failed {
        Failed { status, text: text.into() }
    }
}

impl From<crate::store::StoreError> for Failed {
    fn from(error: crate::store::StoreError) -> Failed {
        let locked = matches!(error, crate::store::StoreError::Locked { .. });
        Failed::new(if locked { LOCKED } else { FAILED }, error.to_string())
    }
}

type Done = Result<u8, Failed>;

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { OK });
        }
    };
    let done = match cli.command {
        Command::Agent(args) => agent::run(args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Health { json } => control::health(json),
        Command::Status { json } => control::status(json),
        Command::Devices(args) => control::devices(&args),
        Command::Audit(args) => control::audit(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Runs(args) => runs::run(&args),
        Command::Prompt(args) => prompt::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Completions { shell } => completions(shell),
        #[cfg(feature = "sim")]
        Command::Sim(args) => Ok(crate::sim::command::run(&args)),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(failed) => {
            let line = format!("stepclaw: {}\n", visible(&failed.text));
            let _ = std::io::stderr().write_all(line.as_bytes());
            ExitCode::from(failed.status)
        }
    }
}

/// Names from files may hold anything: control characters are shown, not obeyed.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn completions(shell: clap_complete::Shell) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "stepclaw", &mut text);
    print_all(&text)
}

/// Prints to standard output. A reader that has gone is no failure of ours.
fn print_all(bytes: &[u8]) -> Done {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(OK),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(OK),
        Err(e) => Err(Failed::new(FAILED, format!("cannot write to standard output: {e}"))),
    }
}
