//! `stepclaw gateway`: the process that owns an agent's conversations, and who talks to it.

mod facts;
mod house;
mod pipe;

use super::agent::{explain, options, outfit, owner, safe, setup_of, workspace};
use super::args::GatewayArgs;
use super::{Done, FAILED, Failed, OK, USAGE};
use crate::base::limits::DRAIN_MS;
use crate::engine::sessions::Input;
use crate::model::catalog::{self, SCRIPTED};
use crate::reactor::{Plan, Reactor, ReactorError, Wish};
use crate::store::{StateLock, agent_db};
use house::House;
use serde_json::json;

pub(super) fn run(args: &GatewayArgs) -> Done {
    if !args.stdio {
        let text = "the gateway has no network yet: `stepclaw gateway --stdio` speaks its frames \
                    over standard input and output";
        return Err(Failed::new(USAGE, text));
    }
    let (paths, config) = super::config::loaded()?;
    let wanted = args.model.clone().or_else(|| config.agent.model.clone());
    let wanted = wanted.unwrap_or_else(|| SCRIPTED.to_owned());
    let model =
        catalog::resolve(&config, &wanted).map_err(|e| Failed::new(USAGE, e.to_string()))?;
    let cwd = workspace(&config, &paths)?;
    let lock = StateLock::take(&paths.state, &owner("gateway"))?;
    let mut setup = setup_of(&config, &model);
    if let Some(seconds) = args.timeout {
        setup.limits.budget_ms = seconds.saturating_mul(1_000);
    }
    let outfit = outfit(&config, &model, cwd, agent_db(&paths.state, &args.agent), None);
    let safe = safe(&outfit);
    let mut options = options(&config, &setup);
    if let Some(runs) = args.max_concurrent {
        options.caps.main = runs.max(1);
    }
    let facts = facts::collect(&args.agent, &config, &paths, &outfit, &model);
    let models = catalog::all(&config);
    let plan = Plan { options, setup, only: None, models, forced: false };
    let mut house = House::new(facts, safe);
    let mut reactor = Reactor::open(outfit, model, plan, &mut house).map_err(explain)?;
    house.open_pipe(reactor.now());
    house.say(&json!({"type": "event", "event": "ready", "payload": {"pid": std::process::id()}}));
    pipe::read_frames(reactor.line_taker());
    let done = serve(&mut reactor, &mut house).map_err(explain);
    drop(reactor);
    drop(lock);
    done
}

/// Takes frames until there are no more, or until a signal; what was accepted is brought to its
/// end first, or left for the next start.
fn serve(reactor: &mut Reactor, house: &mut House) -> Result<u8, ReactorError> {
    let (mut open, mut signals) = (true, 0u32);
    loop {
        house.flush();
        let idle = reactor.sessions().unfinished() == 0 && house.gateway.waiting() == 0;
        if house.drained || (!open && idle) {
            return Ok(OK);
        }
        reactor.turn(house)?;
        house.settle(reactor)?;
        // Before the frames: what came with or after the signal is refused.
        for _wish @ (Wish::Terminate | Wish::Interrupt) in reactor.take_signals() {
            signals += 1;
            if signals > 2 {
                reactor.kill_all();
                return Ok(FAILED);
            }
            // The first one lets runs end by themselves, the second one stops them.
            let grace = if signals == 1 { DRAIN_MS } else { 0 };
            reactor.give(Input::Drain(reactor.now().plus(grace)), house)?;
        }
        while let Some(line) = reactor.next_line() {
            match line {
                Some(line) => house.line(reactor, &line)?,
                None => open = false,
            }
        }
        house.settle(reactor)?;
    }
}
