//! `stepclaw gateway`: the process that owns an agent's conversations, and who talks to it.

mod access;
mod facts;
mod files;
mod house;
mod log;
mod pipe;
mod reload;
mod sockets;

use super::agent::{Places, explain, outfit, owner, safe, workspace};
use super::args::{GatewayArgs, GatewayCommand};
use super::control;
use super::{Done, FAILED, Failed, OK};
use crate::base::limits::DRAIN_MS;
use crate::config::{Config, Paths};
use crate::engine::sessions::Input;
use crate::gateway::auth::{Change, Devices, Entropy, Gate, Issuer, Mode};
use crate::model::catalog;
use crate::reactor::{Plan, Reactor, ReactorError, Wish, can_keep_secrets, entropy};
use crate::store::state::State;
use crate::store::{StateLock, Synchronous, agent_db};
use house::House;
use log::Log;
use reload::Settled;
use serde_json::json;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) use access::token_file;

pub(super) fn run(args: &GatewayArgs) -> Done {
    match &args.command {
        None | Some(GatewayCommand::Run) => serve_here(args),
        Some(GatewayCommand::Status { json }) => control::gateway_status(*json),
        Some(GatewayCommand::Stop) => control::stop(),
        Some(GatewayCommand::Call { method, params, timeout }) => {
            control::call(method, params, *timeout)
        }
        Some(GatewayCommand::Install) => control::install(),
    }
}

fn serve_here(args: &GatewayArgs) -> Done {
    if !can_keep_secrets() {
        let words = "the system gives no random bytes: tokens could be guessed";
        return Err(Failed::new(FAILED, words));
    }
    let (paths, config) = super::config::loaded()?;
    let model = reload::model(args, &config)?;
    let workspace = workspace(&config, &paths)?;
    let lock = StateLock::take(&paths.state, &owner("gateway"))?;
    super::first::begin(&config, &workspace);
    let (setup, options) = reload::treated(args, &config, &model);
    let database = agent_db(&paths.state, &args.agent);
    let outfit = outfit(&config, Places::one(workspace), database, None);
    let safe = safe(&outfit);
    let facts = facts::collect(&args.agent, &config, &paths, &outfit, &model);
    let models = catalog::all(&config);
    let settled = Settled::new(args, &paths, outfit.cwd.clone());
    let synchronous = outfit.synchronous;
    let plan = Plan { options, setup, only: None, models, forced: false };
    let mut house = House::new(facts, safe, Log::open(&paths.state, config.log));
    house.settles(settled);
    let mut reactor = Reactor::open(outfit, model, plan, &mut house).map_err(explain)?;
    if args.stdio {
        house.open_pipe(reactor.now());
        let pid = std::process::id();
        house.say(&json!({"type": "event", "event": "ready", "payload": {"pid": pid}}));
        pipe::read_frames(reactor.line_taker());
    } else {
        let site = Site { args, config: &config, paths: &paths, lock: &lock, synchronous };
        site.open(&mut reactor, &mut house)?;
    }
    house.note("gateway", &format!("is ready, process {}", std::process::id()), reactor.now());
    let done = serve(&mut reactor, &mut house, !args.stdio).map_err(explain);
    house.note("gateway", "has stopped", reactor.now());
    drop(house);
    drop(reactor);
    drop(lock);
    done
}

/// What a gateway with sockets is made of.
struct Site<'a> {
    args: &'a GatewayArgs,
    config: &'a Config,
    paths: &'a Paths,
    lock: &'a StateLock,
    synchronous: Synchronous,
}

impl Site<'_> {
    /// Opens the gateway's own database, listens, and says so.
    fn open(&self, reactor: &mut Reactor, house: &mut House) -> Result<(), Failed> {
        let access = access::access(self.args, self.config, self.paths)?;
        let (bind, at) = access::address(self.args, self.config, &access.auth)?;
        let (sender, answers) = crossbeam_channel::unbounded();
        let wake = reactor.waking();
        let answer = move |answer| {
            if sender.send(answer).is_ok() {
                wake();
            }
        };
        let (state, booted) =
            State::open(&self.paths.state, self.lock, self.synchronous, reactor.now(), answer)?;
        for damage in &booted.damaged {
            eprintln!("stepclaw: left out, damaged: {damage}");
        }
        let entropy = Entropy { token: entropy(), id: entropy() };
        let (issuer, new) = Issuer::current(booted.issuer.as_ref(), &access.auth, &entropy);
        if new {
            state.write(0, vec![Change::Issuer(issuer.clone())])?;
        }
        house.keeps(state, answers);
        house.serves(files::files(self.config, self.paths));
        let got = listen(reactor, at)?;
        let policy = access::policy(self.config, &bind, got.port());
        let mode = access.auth.mode();
        let gate = Gate::new(access.auth, issuer, policy, Devices::restore(booted.devices));
        house.gateway.guard(gate, mode.word(), reactor.now());
        self.lock.describe(&format!("{} at {got}", owner("gateway")))?;
        let words = format!("listens at {got}, clients show: {}", mode.word());
        house.note("gateway", &words, reactor.now());
        self.say_ready(got, mode, access.made);
        Ok(())
    }

    fn say_ready(&self, got: SocketAddr, mode: Mode, made: bool) {
        let pid = std::process::id();
        if self.args.json {
            let ready = json!({"event": "ready", "pid": pid, "host": got.ip().to_string(),
                "port": got.port(), "url": format!("ws://{got}"), "auth": mode.word()});
            println!("{ready}");
            return;
        }
        println!("The gateway is ready at ws://{got} (process {pid}).");
        if made {
            let file = access::token_file(self.paths);
            println!("A token was made for its clients: {}", file.display());
        }
        if mode == Mode::Token {
            println!(
                "To connect OpenClaw's clients: OPENCLAW_GATEWAY_TOKEN=$(cat {}) openclaw tui",
                access::token_file(self.paths).display()
            );
        }
    }
}

/// How often a port that is in use is tried again, and how long is waited between.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(500);

fn listen(reactor: &mut Reactor, at: SocketAddr) -> Result<SocketAddr, Failed> {
    let mut tries = 1;
    loop {
        match reactor.listen(at) {
            Ok(got) => return Ok(got),
            Err(ReactorError::System { source, .. })
                if source.kind() == ErrorKind::AddrInUse && tries < BIND_TRIES =>
            {
                if tries == 1 {
                    eprintln!("stepclaw: {at} is in use by another program; trying again for 10 s");
                }
                tries += 1;
                std::thread::sleep(BIND_PAUSE);
            }
            Err(ReactorError::System { source, .. }) => {
                return Err(Failed::new(FAILED, format!("cannot listen at {at}: {source}")));
            }
            Err(error) => return Err(explain(error)),
        }
    }
}

/// Takes frames until there are no more, or until a signal; what was accepted is brought to its
/// end first, or left for the next start.
fn serve(reactor: &mut Reactor, house: &mut House, network: bool) -> Result<u8, ReactorError> {
    let (mut open, mut signals) = (true, 0u32);
    loop {
        house.flush();
        // What a former process left torn is made whole first.
        let sessions = reactor.sessions();
        let idle = sessions.unfinished() == 0 && sessions.is_settled();
        let idle = idle && house.gateway.waiting() == 0;
        if (house.drained && !network) || (!open && idle) {
            house.gateway.tell_changes();
            house.settle(reactor)?;
            house.flush();
            return Ok(OK);
        }
        if house.drained && network {
            house.goodbye(reactor)?;
            return Ok(OK);
        }
        reactor.turn(house)?;
        house.net(reactor)?;
        house.settle(reactor)?;
        // Before the frames: what came with or after the signal is refused.
        for _wish @ (Wish::Terminate | Wish::Interrupt) in reactor.take_signals() {
            signals += 1;
            reactor.stop_listening();
            house.note("gateway", &format!("was told to stop ({signals})"), reactor.now());
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
