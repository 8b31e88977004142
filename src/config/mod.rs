//! The config file: shapes and errors (pure), loading (edge) (spec/config.md).

mod change;
mod conduct;
mod end;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod fuzz;
mod keys;
pub mod load;
mod network;
mod read;
mod schema;
mod secret;
mod show;
mod table;
mod tree;

#[cfg(test)]
mod tests;

pub use change::{Change, ChangeError, REDACTED, Seen, Wanted, change, changed, seen, setting};
pub use load::{LoadError, Paths, load, paths, process_env, text, workspace};
pub use network::{Bind, Network, PORT};
pub use schema::{lookup, schema};
pub use secret::{Deferred, MissingVar, Secret};
pub use show::show;
pub use table::{Changed, Reload};

use crate::base::Level;
use crate::base::key::Scopes;
use crate::engine::reset::ResetPolicy;
use crate::engine::turns::Partial;
use crate::engine::watch::Thresholds;
use crate::model::wire::request::{Compat, MaxTokensField};
use std::collections::BTreeMap;
use std::fmt;

/// The effective configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Providers, by id.
    pub providers: Vec<Provider>,
    /// `agents.defaults`.
    pub agent: AgentDefaults,
    /// `tools`.
    pub tools: Tools,
    /// `messages.queue`.
    pub queue: Queue,
    /// `session`.
    pub session: Session,
    /// How many runs the lanes take, where the config says.
    pub lanes: Lanes,
    /// `diagnostics.stuckSessionWarnMs` and `stuckSessionAbortMs`.
    pub watch: Thresholds,
    /// `store`.
    pub store: Store,
    /// `gateway`.
    pub network: Network,
    /// `logging.level`.
    pub log: Level,
}

/// `models.providers.<id>`: where models are served.
#[derive(Clone, PartialEq, Debug)]
pub struct Provider {
    /// The key under `models.providers`.
    pub id: String,
    /// `baseUrl`: the address without `/chat/completions`.
    pub base_url: Deferred,
    /// `apiKey`, where one is needed.
    pub api_key: Option<Deferred>,
    /// `headers`, sent with every request.
    pub headers: Vec<(String, Deferred)>,
    /// `models`.
    pub models: Vec<Model>,
}

/// `models.providers.<id>.models[]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// `id`: the model's name at the provider.
    pub id: String,
    /// `name`: the name for people; the id where none is given.
    pub name: String,
    /// `contextWindow`, tokens. Default 200,000.
    pub context_window: u64,
    /// `maxTokens`: most tokens of a reply. Default 8,192.
    pub max_tokens: u64,
    /// `reasoning`: the model can show reasoning. Default false.
    pub reasoning: bool,
    /// `compat`, with `input` for images.
    pub compat: ModelCompat,
}

/// What a model's backend wants otherwise than OpenAI does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModelCompat {
    /// How messages are encoded.
    pub encoding: Compat,
    /// `maxTokensField`. Default `max_tokens`.
    pub max_tokens_field: MaxTokensField,
    /// `supportsUsageInStreaming`: token counts may be asked for. Default true.
    pub usage: bool,
    /// `supportsDeveloperRole`. Default false.
    pub developer_role: bool,
    /// `supportsStore`: requests say that they are not to be stored. Default false.
    pub store: bool,
    /// `supportsTools`. Default true.
    pub tools: bool,
}

/// `agents.defaults`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentDefaults {
    /// `model`, or `model.primary`: `provider/model`.
    pub model: Option<String>,
    /// `workspace`: where the agent works.
    pub workspace: Option<String>,
    /// `timeoutSeconds`: how long a run may take.
    pub timeout_seconds: Option<u64>,
    /// `compaction`.
    pub compaction: Compaction,
    /// `skipBootstrap`: a new workspace stays empty.
    pub skip_bootstrap: bool,
    /// `contextInjection`.
    pub injection: Injection,
    /// `bootstrapMaxChars`: most of one of the workspace's files in a prompt, UTF-16 units.
    pub bootstrap_max_chars: Option<u64>,
    /// `bootstrapTotalMaxChars`: most of all of them together.
    pub bootstrap_total_max_chars: Option<u64>,
}

/// `agents.defaults.compaction`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// `enabled`: long histories are compacted by themselves.
    pub enabled: bool,
    /// `reserveTokens`: kept free for an answer.
    pub reserve_tokens: u64,
    /// `keepRecentTokens`: kept of the newest messages.
    pub keep_recent_tokens: u64,
    /// `midTurnPrecheck.enabled`: histories are weighed between the rounds of a turn too.
    pub mid_turn: bool,
}

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction {
            enabled: true,
            reserve_tokens: 16_384,
            keep_recent_tokens: 20_000,
            mid_turn: false,
        }
    }
}

/// Whether the workspace's files stand in prompts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Injection {
    /// `"always"`. The default.
    #[default]
    Always,
    /// `"never"`.
    Never,
}

/// `tools`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tools {
    /// `exec.timeoutSeconds`: how long a command may run.
    pub exec_timeout_seconds: Option<u64>,
    /// `exec.applyPatch.enabled`. Default true.
    pub apply_patch: bool,
    /// `exec.applyPatch.workspaceOnly`. Default true.
    pub apply_patch_workspace_only: bool,
    /// `loopDetection.enabled`. Default true.
    pub loop_detection: bool,
}

/// `messages.queue`: what happens to a message that comes while a run is active.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// `mode`, `debounceMs`, `cap`, `drop`.
    pub all: Partial,
    /// `byChannel` and `debounceMsByChannel`, by the channel's name in lower case.
    pub by_channel: BTreeMap<String, Partial>,
}

/// `session`: which conversation a message belongs to, and when one begins anew.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Session {
    /// `dmScope`, `groupScope`, `identityLinks`.
    pub scopes: Scopes,
    /// `identityLinks` as they were written: a name, and the peers it stands for.
    pub links: Vec<(String, Vec<String>)>,
    /// `mainKey`, where it is not `main`.
    pub main_key: Option<String>,
    /// `reset`.
    pub reset: ResetPolicy,
}

/// Capacities of lanes that the config gives; each at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lanes {
    /// `agents.defaults.maxConcurrent`.
    pub main: Option<u16>,
    /// `agents.defaults.subagents.maxConcurrent`, for each owner.
    pub subagent: Option<u16>,
    /// `cron.maxConcurrentRuns`: jobs, and apart from them the work inside jobs.
    pub cron: Option<u16>,
}

/// `store`, which OpenClaw does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Store {
    /// `synchronous`.
    pub synchronous: Synchronous,
}

/// How far a commit goes before it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Synchronous {
    /// `"full"`: a committed record survives a power cut. The default.
    #[default]
    Full,
    /// `"normal"`: the last commits may be lost with the power; much quicker on slow disks.
    Normal,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            providers: Vec::new(),
            agent: AgentDefaults::default(),
            tools: Tools {
                exec_timeout_seconds: None,
                apply_patch: true,
                apply_patch_workspace_only: true,
                loop_detection: true,
            },
            queue: Queue::default(),
            session: Session::default(),
            lanes: Lanes::default(),
            watch: Thresholds::default(),
            store: Store::default(),
            network: Network::default(),
            log: Level::default(),
        }
    }
}

/// A config that cannot be used, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ConfigError {
    /// The file, where the text came from one.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The path of what is wrong, where it is a value's or a key's.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().unwrap_or("config");
        write!(f, "{file}:{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Reads a config. `env` gives the value of an environment variable.
///
/// # Errors
/// [`ConfigError`] for the first thing that is wrong, with its place in the text.
pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
    let error = |((line, column), message): (tree::Place, String)| ConfigError {
        file: None,
        line,
        column,
        path: String::new(),
        message,
    };
    let root = tree::parse(text).map_err(error)?;
    read::config(&root, env).map_err(|fault| {
        let place = tree::place(text, &fault.path, fault.key);
        ConfigError { path: read::shown(&fault.path), ..error((place, fault.message)) }
    })
}
