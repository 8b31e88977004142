//! One table of commands and flags: parsing, help and completions come from it.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// An agent gateway as one synchronous, deterministic state machine.
#[derive(Parser, Debug)]
#[command(
    name = "stepclaw",
    version,
    about,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Try it without a key and without a network:\n  \
        stepclaw agent -m \"list\"\n  \
        stepclaw agent -m \"together: run: date; run: uname -a\"\n\n\
        Files: ~/.stepclaw (STEPCLAW_STATE_DIR), its stepclaw.json (STEPCLAW_CONFIG_PATH)"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Send one message to the agent and wait for its answer
    Agent(AgentArgs),
    /// Serve many conversations at once
    Gateway(GatewayArgs),
    /// How the running gateway does
    Health {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What the running gateway serves
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Devices that may connect to the gateway
    Devices(DevicesArgs),
    /// What ran, from the gateway's ledger: no words, only what happened
    Audit(AuditArgs),
    /// What the gateway has noted: who came and went, what ran, what failed
    Logs(LogsArgs),
    /// Look at conversations, begin them anew, delete them
    Sessions(SessionsArgs),
    /// Look at runs: how each ended, and what it waited for
    Runs(RunsArgs),
    /// Look at what the model sees before the conversation
    Prompt(PromptArgs),
    /// Look at the configuration, or change it
    Config(ConfigArgs),
    /// Replay a journal through the engine and compare the transcript byte by byte
    Replay(ReplayArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run simulated worlds from seeds, with faults, and check every invariant after every step
    #[cfg(feature = "sim")]
    Sim(crate::sim::command::SimArgs),
}

/// Arguments of `agent`.
#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0 completed; 1 provider or internal error; 2 usage or \
    config; 3 policy stop or tool loop;\n4 superseded; 75 the state directory is in use; 124 \
    timeout; 130 aborted.\n\nWithout a configured model the built-in offline model answers: it is \
    a script, not a language model.\nIt understands, one request a line:\n  \
    list [DIR]   read FILE   write FILE: TEXT   edit FILE: OLD => NEW   run: COMMAND\n  \
    together: A; B; C   then: A; B   say N words   fail   wait SECONDS")]
pub struct AgentArgs {
    /// The message; read from standard input where it is absent
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// The conversation
    #[arg(long, value_name = "KEY", default_value = "agent:main:main")]
    pub session_key: String,
    /// The model, as PROVIDER/MODEL; else the configured one, else offline/scripted
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    /// Run the engine in this process, without a gateway (what happens anyway while none runs)
    #[arg(long)]
    pub local: bool,
    /// Print one JSON object at the end instead of text
    #[arg(long)]
    pub json: bool,
    /// Stop the run after so many seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Where tools work; else the configured workspace
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Each line on standard input steers the run while it goes on
    #[arg(long)]
    pub interactive: bool,
    /// Keep nothing: the run is in memory alone, sees no conversation and leaves none
    #[arg(long, conflicts_with_all = ["interactive", "session_key", "run_id"])]
    pub detached: bool,
    /// Write every input to a new file, for `stepclaw replay`. It holds all that was said and
    /// all that tools returned; the credentials of providers are not among the inputs
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// The run's id (an idempotency key): the same id is not run twice
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
}

/// Arguments of `gateway`.
#[derive(Args, Clone, Debug)]
pub struct GatewayArgs {
    /// What to do; without it the gateway runs until it is stopped
    #[command(subcommand)]
    pub command: Option<GatewayCommand>,
    /// The port; else gateway.port, else 18789
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Where to listen: loopback, lan, or an IPv4 address; else gateway.bind, else loopback
    #[arg(long, value_name = "WHERE")]
    pub bind: Option<String>,
    /// The token that clients show; else STEPCLAW_GATEWAY_TOKEN, gateway.auth.token, or a new one
    #[arg(long, value_name = "TOKEN", conflicts_with = "password")]
    pub token: Option<String>,
    /// The password that clients show, instead of a token
    #[arg(long, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Print one JSON line when the gateway is ready, instead of words
    #[arg(long)]
    pub json: bool,
    /// Speak the gateway's frames over standard input and output, one JSON object a line
    #[arg(long, conflicts_with_all = ["port", "bind"])]
    pub stdio: bool,
    /// The agent whose conversations are served
    #[arg(long, value_name = "ID", default_value = "main")]
    pub agent: String,
    /// The model, as PROVIDER/MODEL; else the configured one, else offline/scripted
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    /// Stop a run after so many seconds, where its request does not say; 0 for no limit
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Most runs at once in the lane main; else as agents.defaults.maxConcurrent says
    #[arg(long, value_name = "N")]
    pub max_concurrent: Option<u16>,
}

/// The commands of `gateway`.
#[derive(Subcommand, Clone, Debug)]
pub enum GatewayCommand {
    /// Run it, as without a command
    Run,
    /// Say whether a gateway runs here, and how it does
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop the gateway of this state directory in good order
    Stop,
    /// Call one of the running gateway's methods and print its answer
    Call {
        /// The method, as health
        method: String,
        /// Its params, as a JSON object
        #[arg(long, value_name = "JSON", default_value = "{}")]
        params: String,
        /// How long to wait for the answer, ms
        #[arg(long, value_name = "MS", default_value_t = 10_000)]
        timeout: u64,
    },
    /// Write a systemd user unit that runs the gateway
    Install,
}

/// Arguments of `devices`.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// What to do
    #[command(subcommand)]
    pub command: DevicesCommand,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands of `devices`.
#[derive(Subcommand, Debug)]
pub enum DevicesCommand {
    /// Paired devices, and those that ask to be
    List,
    /// Let a device in that asks for it
    Approve {
        /// The request
        request: String,
    },
    /// Turn a device away that asks to be let in
    Reject {
        /// The request
        request: String,
    },
    /// Forget a device: it must ask again
    Remove {
        /// The device
        device: String,
    },
    /// Name a device
    Rename {
        /// The device
        device: String,
        /// Its name
        label: String,
    },
    /// Give a device another token
    Rotate {
        /// The device
        device: String,
    },
    /// Take a device's token back
    Revoke {
        /// The device
        device: String,
    },
}

/// Arguments of `audit`.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// Of this agent
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Of this conversation
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Of this run
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// agent_run or tool_action
    #[arg(long)]
    pub kind: Option<String>,
    /// started, succeeded, failed, cancelled, timed_out, blocked or unknown
    #[arg(long)]
    pub status: Option<String>,
    /// Since then, ms since 1970
    #[arg(long, value_name = "MS")]
    pub after: Option<u64>,
    /// Until then, ms since 1970
    #[arg(long, value_name = "MS")]
    pub before: Option<u64>,
    /// Most rows, 500 at most
    #[arg(long, default_value_t = 100)]
    pub limit: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `logs`.
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// Go on with what is written from now on
    #[arg(short, long)]
    pub follow: bool,
    /// Most lines to begin with
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..=5_000))]
    pub limit: u64,
    /// Print the lines as they are stored, one JSON object each
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sessions`.
#[derive(Args, Debug)]
pub struct SessionsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SessionsCommand,
}

/// The commands of `sessions`.
#[derive(Subcommand, Debug)]
pub enum SessionsCommand {
    /// List conversations, the latest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Only this agent's
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
    },
    /// Show one conversation and its runs
    Show {
        /// Its key
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a conversation out
    Export {
        /// Its key
        key: String,
        /// How
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        /// Where to; else standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Go on from a conversation in another one; the first stays as it is
    Fork {
        /// Its key
        key: String,
        /// The key of the new one; else one is made
        #[arg(long = "as", value_name = "KEY")]
        new: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Begin a conversation anew: what was said stays stored and leaves the context
    Reset {
        /// Its key
        key: String,
        /// The reason that is noted
        #[arg(long, value_enum, default_value_t = Reason::Reset)]
        reason: Reason,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a conversation with all that was said; that its runs ran stays known
    Delete {
        /// Its key
        key: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Why a conversation begins anew.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// As `/new`
    New,
    /// As `/reset`
    Reset,
}

/// Arguments of `runs`.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RunsCommand,
}

/// The commands of `runs`.
#[derive(Subcommand, Debug)]
pub enum RunsCommand {
    /// List runs, the latest first
    List {
        /// Only this agent's
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// Only this conversation's
        #[arg(long, value_name = "KEY")]
        session_key: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20,
              value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one run: how it waited, when it did what, and how it ended
    Show {
        /// Its id, or the beginning of it: six characters at least
        #[arg(value_name = "RUNID")]
        run: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// How a conversation is written out.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For reading
    Text,
    /// One entry a line, the header first
    Jsonl,
    /// For documents
    Markdown,
}

/// Arguments of `prompt`.
#[derive(Args, Debug)]
pub struct PromptArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PromptCommand,
}

/// The commands of `prompt`.
#[derive(Subcommand, Debug)]
pub enum PromptCommand {
    /// Show its layers with their sizes, the workspace's files, and the key of what can be cached
    Show(PromptShowArgs),
}

/// Arguments of `prompt show`.
#[derive(Args, Debug)]
pub struct PromptShowArgs {
    /// The conversation
    #[arg(long, value_name = "KEY", default_value = "agent:main:main")]
    pub session_key: String,
    /// The model, as PROVIDER/MODEL; else the one that is set
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    /// Where tools would work; else the configured workspace
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Print the prompt itself, with the boundary in it
    #[arg(long, conflicts_with_all = ["json", "diff"])]
    pub text: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// What has changed since the conversation's last request
    #[arg(long)]
    pub diff: bool,
}

/// Arguments of `config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands of `config`.
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Print where the config is read from
    Path,
    /// Print the effective config, secrets left out
    Show,
    /// Print the value of one key, as gateway.port; secrets left out
    Get {
        /// The key
        key: String,
    },
    /// Set one key; a gateway that runs takes it up at once where it can
    Set {
        /// The key
        key: String,
        /// Its value: a text, a number, true, false, or JSON5
        value: String,
    },
    /// Take one key away: its default holds
    Unset {
        /// The key
        key: String,
    },
    /// Let a gateway that runs take up what was written into the file
    Reload,
    /// Say whether the config is right, and if not, what and where
    Validate {
        /// Another file than the usual one
        file: Option<PathBuf>,
    },
}

/// Arguments of `replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The journal
    pub journal: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }
}
