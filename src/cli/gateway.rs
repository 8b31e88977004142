//! `stepclaw gateway --stdio`: the gateway's frames over standard input and output, one a line,
//! for a parent process that needs no network.

use super::agent::{explain, options, outfit, owner, safe, setup_of, workspace};
use super::args::GatewayArgs;
use super::{Done, FAILED, Failed, OK, USAGE};
use crate::base::RunId;
use crate::base::limits::{DRAIN_MS, FRAME_BYTES_MAX};
use crate::engine::Event;
use crate::engine::sessions::{self, Input, Key};
use crate::gateway::{Do, Server};
use crate::model::catalog::{self, SCRIPTED};
use crate::reactor::{At, Observer, Plan, Reactor, ReactorError, View, Wish};
use crate::reactor::{plain, request};
use crate::store::{StateLock, agent_db};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, Read, Write};

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
    let plan = Plan { options, setup, only: None, models: catalog::all(&config), forced: false };
    let mut pipe = Pipe::new(safe);
    let mut reactor = Reactor::open(outfit, model, plan, &mut pipe).map_err(explain)?;
    pipe.send(&json!({"type": "event", "event": "ready", "payload": {"pid": std::process::id()}}));
    read_frames(reactor.line_taker());
    let done = serve(&mut reactor, &mut pipe, &args.agent).map_err(explain);
    pipe.flush();
    drop(reactor);
    drop(lock);
    done
}

/// Takes frames until there are no more, or until a signal; what was accepted is brought to its
/// end first, or left for the next start.
fn serve(reactor: &mut Reactor, pipe: &mut Pipe, agent: &str) -> Result<u8, ReactorError> {
    let (mut open, mut signals) = (true, 0u32);
    loop {
        pipe.flush();
        let idle = reactor.sessions().unfinished() == 0 && pipe.server.waiting() == 0;
        if pipe.drained || (!open && idle) {
            return Ok(OK);
        }
        pipe.now = reactor.now();
        reactor.turn(pipe)?;
        // Before the frames: what came with or after the signal is refused.
        for _wish @ (Wish::Terminate | Wish::Interrupt) in reactor.take_signals() {
            signals += 1;
            if signals > 2 {
                reactor.kill_all();
                return Ok(FAILED);
            }
            // The first one lets runs end by themselves, the second one stops them.
            let grace = if signals == 1 { DRAIN_MS } else { 0 };
            reactor.give(Input::Drain(reactor.now().plus(grace)), pipe)?;
        }
        while let Some(line) = reactor.next_line() {
            match line {
                Some(line) => frame(reactor, pipe, agent, &line)?,
                None => open = false,
            }
        }
    }
}

fn frame(
    reactor: &mut Reactor,
    pipe: &mut Pipe,
    agent: &str,
    line: &str,
) -> Result<(), ReactorError> {
    if line.trim().is_empty() {
        return Ok(());
    }
    pipe.now = reactor.now();
    for what in pipe.server.frame(line, pipe.now, reactor.boundary()) {
        if let Some(frame) = pipe.server.look(&what, reactor.sessions()) {
            pipe.send(&frame);
        }
        match what {
            Do::Send(frame) => pipe.send(&frame),
            Do::Give(Input::Arrive(arrival)) if !served(&arrival.key, agent) => {
                let why = format!("this process serves the agent {agent}");
                let event =
                    sessions::Event::Refused(arrival.run.clone(), sessions::Why::Store(why.into()));
                pipe.of_sessions(&event);
            }
            Do::Give(input) => reactor.give(input, pipe)?,
            Do::Health(_) | Do::ShowQueue(..) | Do::Abort(..) => {}
        }
    }
    Ok(())
}

fn served(key: &Key, agent: &str) -> bool {
    crate::base::SessionKey::parse(key).is_ok_and(|key| key.agent() == agent)
}

/// The thread that reads frames; the loop's full channel holds it back.
fn read_frames(take: impl Fn(Option<String>) -> bool + Send + 'static) {
    let read = move || {
        let mut input = std::io::stdin().lock();
        let most = u64::try_from(FRAME_BYTES_MAX).unwrap_or(u64::MAX);
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(most).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(n) if n == FRAME_BYTES_MAX && line.last() != Some(&b'\n') => {
                    // Where a frame ends is not known any more: nothing after it can be read.
                    eprintln!("stepclaw: a frame has more than {FRAME_BYTES_MAX} bytes");
                    break;
                }
                Ok(_) => {}
            }
            if !take(Some(String::from_utf8_lossy(&line).into_owned())) {
                return;
            }
        }
        take(None);
    };
    let _ = std::thread::Builder::new().name("stdin".into()).stack_size(256 * 1024).spawn(read);
}

/// The other end of standard output.
struct Pipe {
    server: Server,
    now: crate::base::Millis,
    out: std::io::BufWriter<std::io::Stdout>,
    safe: BTreeSet<String>,
    drained: bool,
}

impl Pipe {
    fn new(safe: BTreeSet<String>) -> Pipe {
        Pipe {
            server: Server::new(request, plain),
            now: crate::base::Millis(0),
            out: std::io::BufWriter::new(std::io::stdout()),
            safe,
            drained: false,
        }
    }

    fn send(&mut self, frame: &Value) {
        // A parent that has gone does not stop what was accepted.
        let _ = serde_json::to_writer(&mut self.out, frame);
        let _ = self.out.write_all(b"\n");
    }

    fn flush(&mut self) {
        let _ = self.out.flush();
    }
}

impl Observer for Pipe {
    fn told(&mut self, at: &At<'_>, event: &Event, view: View<'_>) {
        let safe = &self.safe;
        let run: &RunId = at.run;
        let frames = self.server.told(at.key, run, event, view.calls, |name| safe.contains(name));
        for frame in frames {
            self.send(&frame);
        }
    }

    fn of_sessions(&mut self, event: &sessions::Event) {
        self.drained |= matches!(event, sessions::Event::Drained);
        for frame in self.server.of_sessions(event, self.now) {
            self.send(&frame);
        }
    }

    fn notice(&mut self, key: Option<&Key>, text: &str) {
        let of = key.map_or(String::new(), |key| format!("{key}: "));
        eprintln!("stepclaw: {of}{text}");
    }
}
