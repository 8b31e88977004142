//! The config of a gateway that runs: shown, changed, and taken up again.

use super::super::agent::{Places, options, outfit, setup_of};
use super::super::args::GatewayArgs;
use super::super::settings::{Keeper, Made, Refusal};
use super::super::{Failed, USAGE, logs};
use super::{access, facts};
use crate::config::{self, Config, Paths};
use crate::gateway::{Chore, ChoreGot, ConfigChanged, ConfigSeen, Facts};
use crate::model::catalog::{self, Resolved, SCRIPTED};
use crate::reactor::Renewal;
use crate::store::agent_db;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// What a gateway was started with, and its config's file.
pub(super) struct Settled {
    args: GatewayArgs,
    paths: Paths,
    cwd: PathBuf,
    keeper: Arc<Keeper>,
}

/// A chore that is done.
pub(super) struct Done {
    pub got: ChoreGot,
    /// The config that was made, to be taken up.
    pub config: Option<Box<Config>>,
    /// What the log is told.
    pub note: Option<String>,
}

impl From<ChoreGot> for Done {
    fn from(got: ChoreGot) -> Done {
        Done { got, config: None, note: None }
    }
}

/// The model of a config, with what else a start needs of it.
pub(super) fn model(args: &GatewayArgs, config: &Config) -> Result<Resolved, Failed> {
    let wanted = args.model.clone().or_else(|| config.agent.model.clone());
    let wanted = wanted.unwrap_or_else(|| SCRIPTED.to_owned());
    catalog::resolve(config, &wanted).map_err(|e| Failed::new(USAGE, e.to_string()))
}

/// How runs and sessions are treated, by arguments and config.
pub(super) fn treated(
    args: &GatewayArgs,
    config: &Config,
    model: &Resolved,
) -> (crate::engine::Setup, crate::engine::sessions::Options) {
    let mut setup = setup_of(config, model);
    if let Some(seconds) = args.timeout {
        setup.limits.budget_ms = seconds.saturating_mul(1_000);
    }
    let mut options = options(config, &setup);
    if let Some(runs) = args.max_concurrent {
        options.caps.main = runs.max(1);
    }
    (setup, options)
}

impl Settled {
    pub fn new(args: &GatewayArgs, paths: &Paths, cwd: PathBuf) -> Settled {
        let of = args.clone();
        // What a start would refuse is not written.
        let fits = move |config: &Config| {
            model(&of, config)?;
            if of.stdio { Ok(()) } else { access::fits(&of, config) }
        };
        let keeper = Arc::new(Keeper::new(paths.config.clone(), fits));
        Settled { args: args.clone(), paths: paths.clone(), cwd, keeper }
    }

    /// The work for a chore; `then` is told what has come of it.
    pub fn work(
        &self,
        chore: Chore,
        then: impl FnOnce(Done) + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let (keeper, log) = (Arc::clone(&self.keeper), logs::file(&self.paths.state));
        move || match chore {
            Chore::Config => then(seen(&keeper).into()),
            Chore::Change(wanted, base) => {
                keeper.change(&wanted, base.as_deref(), |made| then(changed(made)));
            }
            Chore::Tail { cursor, limit, bytes } => {
                then(match logs::tail(&log, cursor, limit, bytes) {
                    Ok(tail) => ChoreGot::Tail(tail).into(),
                    Err(error) => {
                        ChoreGot::Failed(format!("the log cannot be read: {error}")).into()
                    }
                });
            }
        }
    }

    /// What the gateway and the loop are to know of another config.
    pub fn taken(&self, config: &Config) -> Result<(Facts, Renewal), String> {
        let model = model(&self.args, config).map_err(|failed| failed.text)?;
        let (setup, options) = treated(&self.args, config, &model);
        let database = agent_db(&self.paths.state, &self.args.agent);
        let outfit = outfit(config, Places::one(self.cwd.clone()), database, None);
        let facts = facts::collect(&self.args.agent, config, &self.paths, &outfit, &model);
        let models = catalog::all(config);
        Ok((facts, Renewal { options, setup, model, models, outfit }))
    }
}

fn seen(keeper: &Keeper) -> ChoreGot {
    let stored = match keeper.stored() {
        Ok(stored) => stored,
        Err(why) => return ChoreGot::Failed(why),
    };
    let applied = keeper.applied(&stored).filter(|_| stored.exists);
    let mut seen = ConfigSeen {
        exists: stored.exists,
        hash: stored.hash.clone(),
        applied,
        source: json!({}),
        ..ConfigSeen::default()
    };
    if let Err(error) = config::parse(
        stored.text.strip_prefix('\u{feff}').unwrap_or(&stored.text),
        &config::process_env,
    ) {
        seen.issues = vec![json!({"path": error.path, "message": error.message,
            "line": error.line, "column": error.column})];
    } else if let Some(shown) = config::seen(&stored.text) {
        seen.raw = stored.exists.then_some(shown.text);
        seen.source = shown.source;
    }
    ChoreGot::Config(Box::new(seen))
}

fn changed(made: Result<Made, Refusal>) -> Done {
    let made = match made {
        Ok(made) => made,
        Err(Refusal::File(why)) => return ChoreGot::Failed(why).into(),
        Err(refusal) => {
            let note = Some("a change was refused; nothing was written".to_owned());
            let issues: Vec<Value> = refusal.issue().into_iter().collect();
            let got = ChoreGot::Refused { message: refusal.words(), issues };
            return Done { got, config: None, note };
        }
    };
    let note =
        format!("is taken up: now {:?}, with the next start {:?}", made.applied, made.restart);
    let changed = ConfigChanged {
        source: config::seen(&made.stored.text).map_or(json!({}), |seen| seen.source),
        hash: made.stored.hash,
        written: made.written,
        applied: made.applied,
        restart: made.restart,
    };
    let got = ChoreGot::Changed(Box::new(changed));
    Done { got, config: Some(Box::new(made.config)), note: Some(note) }
}
