//! `stepclaw agent`: one message in, the answer out, in this process.

use super::args::AgentArgs;
use super::screen::{Screen, Style};
use super::talk::Talk;
use super::{ABORTED, Done, FAILED, Failed, OK, POLICY, SUPERSEDED, TIMEOUT, USAGE};
use crate::base::limits::{KEEP_MS, LANE_GRACE_MS};
use crate::base::{RunId, SessionKey};
use crate::config::{self, Config};
use crate::engine::lanes::Caps;
use crate::engine::sessions::{Key, Options};
use crate::engine::{Cause, Setup, Termination};
use crate::model::catalog::{self, Resolved, SCRIPTED};
use crate::reactor::prompter::Prompter;
use crate::reactor::{Compaction, Outfit, Plan, Reactor, ReactorError, journal::Journal};
use crate::store::{StateLock, Synchronous, agent_db, create_private};
use crate::tools;
use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn run(args: AgentArgs) -> Done {
    let usage = |text: String| Failed::new(USAGE, text);
    let key = SessionKey::parse(&args.session_key).map_err(|e| usage(e.to_string()))?;
    let (paths, config) = super::config::loaded()?;
    if !args.local && super::client::running(&paths).is_some() {
        let message = first_message(&args)?;
        let run = args.run_id.clone().unwrap_or_else(|| {
            let clock = crate::reactor::Clock::start();
            crate::base::id::uuid_v7(clock.now(), crate::reactor::entropy())
        });
        return super::client::through(&args, &message, &run, &config, &paths);
    }
    let wanted = args.model.clone().or_else(|| config.agent.model.clone());
    let wanted = wanted.unwrap_or_else(|| SCRIPTED.to_owned());
    let model = catalog::resolve(&config, &wanted).map_err(|e| usage(e.to_string()))?;
    let places = places(&args, &config, &paths)?;
    let message = first_message(&args)?;
    let lock = StateLock::take(&paths.state, &owner("agent"))?;
    super::first::begin(&config, &places.workspace);
    let journal = args.journal.as_deref().map(open_journal).transpose()?;
    let setup = setup(&args, &config, &model);
    let database = agent_db(&paths.state, key.agent());
    let outfit = outfit(&config, places, database, journal);
    let style = if args.json { Style::Json } else { Style::detect() };
    let mut screen = Screen::new(style, safe(&outfit));
    let conversation: Key = key.as_str().into();
    let plan = Plan {
        options: options(&config, &setup),
        setup,
        only: Some(Arc::clone(&conversation)),
        models: catalog::all(&config),
        forced: args.model.is_some(),
    };
    let mut reactor = Reactor::open(outfit, model.clone(), plan, &mut screen).map_err(explain)?;
    if args.interactive {
        steer_from_stdin(reactor.line_taker());
    }
    let run = args.run_id.clone().unwrap_or_else(|| super::talk::fresh_id(&reactor));
    let run = RunId::new(run);
    let mut talk = Talk { reactor: &mut reactor, screen: &mut screen, key: conversation };
    if args.detached {
        talk.aside(run.clone(), message).map_err(explain)?;
    } else {
        talk.say(run.clone(), message).map_err(explain)?;
    }
    let termination = talk.until_over(&run).map_err(explain)?;
    screen.finish(&termination, &run, key.as_str(), &model);
    drop(reactor);
    drop(lock);
    Ok(status(&termination))
}

/// How sessions are treated in this process.
pub(super) fn options(config: &Config, setup: &Setup) -> Options {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut caps = Caps::for_cpus(cpus);
    let lanes = &config.lanes;
    caps.main = lanes.main.unwrap_or(caps.main);
    caps.subagent = lanes.subagent.unwrap_or(caps.subagent);
    caps.cron = lanes.cron.unwrap_or(caps.cron);
    caps.cron_nested = lanes.cron.unwrap_or(caps.cron_nested);
    Options {
        caps,
        queue: config.queue.all,
        reset: config.session.reset,
        watch: config.watch,
        lane_wait_ms: match setup.limits.budget_ms {
            0 => 0,
            budget => budget.saturating_add(LANE_GRACE_MS),
        },
        keep_ms: KEEP_MS,
    }
}

/// The exit status that a termination stands for (decisions 31).
fn status(termination: &Termination) -> u8 {
    match termination {
        Termination::Completed { .. } => OK,
        Termination::Aborted { cause: Cause::Timeout } => TIMEOUT,
        Termination::Aborted { .. } => ABORTED,
        Termination::ProviderError { .. } | Termination::Failed { .. } => FAILED,
        Termination::ToolLoop | Termination::PolicyStop { .. } => POLICY,
        Termination::Superseded { .. } => SUPERSEDED,
    }
}

pub(super) fn explain(error: ReactorError) -> Failed {
    match error {
        ReactorError::Store(error) => error.into(),
        error => Failed::new(FAILED, error.to_string()),
    }
}

pub(super) fn owner(command: &str) -> String {
    format!("stepclaw {command} (process {})", std::process::id())
}

/// Where the agent's own files are, and where tools work.
pub(super) struct Places {
    pub workspace: PathBuf,
    pub cwd: PathBuf,
}

impl Places {
    /// Tools work among the agent's own files.
    pub fn one(workspace: PathBuf) -> Places {
        Places { cwd: workspace.clone(), workspace }
    }
}

/// Tools work where the flag says, else in the configured workspace, made if it is missing.
fn places(args: &AgentArgs, config: &Config, paths: &config::Paths) -> Result<Places, Failed> {
    let Some(dir) = &args.cwd else { return Ok(Places::one(workspace(config, paths)?)) };
    let cwd = folder(dir)?;
    // A run elsewhere does without a workspace that cannot be made: its prompt says what is
    // missing.
    let workspace = workspace(config, paths).unwrap_or_else(|failed| {
        eprintln!("stepclaw: {}", failed.text);
        config::workspace(config, paths, &config::process_env)
    });
    Ok(Places { workspace, cwd })
}

/// A directory that was asked for by `--cwd`.
pub(super) fn folder(dir: &Path) -> Result<PathBuf, Failed> {
    std::fs::canonicalize(dir)
        .ok()
        .filter(|dir| dir.is_dir())
        .ok_or_else(|| Failed::new(USAGE, format!("--cwd {}: no such directory", dir.display())))
}

/// The configured workspace, made if it is missing.
pub(super) fn workspace(config: &Config, paths: &config::Paths) -> Result<PathBuf, Failed> {
    let dir = config::workspace(config, paths, &config::process_env);
    // The workspace may be anybody's; the state around it is its owner's alone.
    create_private(&paths.state)?;
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::canonicalize(&dir))
        .map_err(|e| Failed::new(FAILED, format!("workspace {}: {e}", dir.display())))
}

/// The message: the flag, else the first line (interactive) or all of standard input.
fn first_message(args: &AgentArgs) -> Result<String, Failed> {
    let text = match &args.message {
        Some(text) => text.clone(),
        None => read_stdin(args.interactive)
            .map_err(|e| Failed::new(FAILED, format!("cannot read standard input: {e}")))?,
    };
    if text.trim().is_empty() {
        let text = "there is no message: give one with -m TEXT or on standard input";
        return Err(Failed::new(USAGE, text));
    }
    Ok(text)
}

/// Longest message on standard input, bytes.
const MESSAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;

fn read_stdin(one_line: bool) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock().take(MESSAGE_BYTES_MAX + 1);
    if one_line {
        stdin.read_until(b'\n', &mut bytes)?;
    } else {
        stdin.read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MESSAGE_BYTES_MAX {
        let text = format!("the message is longer than {MESSAGE_BYTES_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
}

/// Lines on standard input become steering messages. The thread ends with its input, or with the
/// process.
fn steer_from_stdin(take: impl Fn(Option<String>) -> bool + Send + 'static) {
    let read = move || {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::new();
        while stdin.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            line.clear();
            if !take(Some(text)) {
                return;
            }
        }
        take(None);
    };
    let _ = std::thread::Builder::new().name("stdin".into()).stack_size(256 * 1024).spawn(read);
}

fn open_journal(path: &Path) -> Result<Journal, Failed> {
    let journal = Journal::create(path)
        .map_err(|e| Failed::new(USAGE, format!("--journal {}: {e}", path.display())))?;
    eprintln!(
        "stepclaw: the journal {} will hold everything that is said and returned, but no \
         credentials",
        path.display()
    );
    Ok(journal)
}

/// How long a model on one's own machine may be silent: it reads a long prompt slowly.
const SELF_HOSTED_MS: u64 = 300_000;

fn setup(args: &AgentArgs, config: &Config, model: &Resolved) -> Setup {
    let mut setup = setup_of(config, model);
    if let Some(seconds) = args.timeout {
        setup.limits.budget_ms = seconds.saturating_mul(1_000);
    }
    setup
}

/// Options of every run, by config and model.
pub(super) fn setup_of(config: &Config, model: &Resolved) -> Setup {
    let mut setup = Setup { loops_off: !config.tools.loop_detection, ..Setup::default() };
    setup.hooks.compaction = config.agent.compaction.enabled;
    if model.self_hosted() {
        setup.limits.first_event_ms = SELF_HOSTED_MS;
        setup.limits.idle_ms = SELF_HOSTED_MS;
    }
    if let Some(seconds) = config.agent.timeout_seconds {
        setup.limits.budget_ms = seconds.saturating_mul(1_000);
    }
    setup
}

/// The tools that the config leaves.
pub(super) fn specs(config: &Config) -> Vec<tools::ToolSpec> {
    let mut specs = tools::core();
    if !config.tools.apply_patch {
        specs.retain(|s| s.name != "apply_patch");
    }
    specs
}

pub(super) fn outfit(
    config: &Config,
    places: Places,
    database: PathBuf,
    journal: Option<Journal>,
) -> Outfit {
    let specs = specs(config);
    // What a command can read, the model can: the providers' credentials are not passed on.
    let secrets = credentials(config);
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .filter(|(_, value)| !secrets.iter().any(|secret| value.contains(secret)))
        .collect();
    let shell = env.iter().find(|(k, _)| k == "SHELL").map(|(_, v)| v.clone());
    let Places { workspace, cwd } = places;
    let ground = super::prompt::ground(config, workspace, cwd.clone(), shell.clone());
    Outfit {
        database,
        synchronous: match config.store.synchronous {
            config::Synchronous::Full => Synchronous::Full,
            config::Synchronous::Normal => Synchronous::Normal,
        },
        cwd,
        helper: std::env::current_exe().ok(),
        shell,
        env: Arc::new(env),
        exec_timeout_s: config.tools.exec_timeout_seconds.unwrap_or(1_800),
        workspace_only_patch: config.tools.apply_patch_workspace_only,
        specs: Arc::new(specs),
        prompter: Arc::new(Prompter::new(ground)),
        compaction: config.agent.compaction.enabled.then_some(Compaction {
            reserve: config.agent.compaction.reserve_tokens,
            keep: config.agent.compaction.keep_recent_tokens,
            mid_turn: config.agent.compaction.mid_turn,
        }),
        journal,
    }
}

/// Names of the tools that change nothing.
pub(super) fn safe(outfit: &Outfit) -> BTreeSet<String> {
    outfit.specs.iter().filter(|s| s.replay_safe).map(|s| s.name.clone()).collect()
}

/// Shorter values are no secrets: hiding every variable that holds one would hide too much.
const SECRET_BYTES_MIN: usize = 6;

/// Every credential that the config holds or refers to.
fn credentials(config: &Config) -> Vec<String> {
    let of = |p: &config::Provider| {
        let keys = p.api_key.iter().chain(p.headers.iter().map(|(_, value)| value));
        keys.filter_map(|key| key.get().ok().map(|s| s.expose().to_owned())).collect::<Vec<_>>()
    };
    let all = config.providers.iter().flat_map(of);
    all.filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect()
}

/// Whether a stream is a terminal that wants colour.
pub(super) fn coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
