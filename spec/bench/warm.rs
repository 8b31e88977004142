//! Warm turns of one process in a conversation of 10 messages and in one of 10,000: engine and
//! store, with the offline model, so that no request is copied.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use stepclaw::base::{Millis, RunId, SessionId};
use stepclaw::config::Config;
use stepclaw::context::bootstrap::Limits;
use stepclaw::engine::lanes::Caps;
use stepclaw::engine::reset::ResetPolicy;
use stepclaw::engine::sessions::{self, Arrival, Input, Key, Options};
use stepclaw::engine::turns::Partial;
use stepclaw::engine::watch::Thresholds;
use stepclaw::engine::{Event, Setup};
use stepclaw::model::catalog::{SCRIPTED, resolve};
use stepclaw::reactor::prompter::{Ground, Prompter};
use stepclaw::reactor::{At, Observer, Outfit, Plan, Reactor, View, plain, request};
use stepclaw::store::{Commit, Synchronous, agent_db, commit_all, open};
use stepclaw::transcript::message::Content;
use stepclaw::transcript::{Assistant, Block, Door, Message, ModelName, StopReason, User, Write};

/// Counts ends and hears nothing else.
#[derive(Default)]
struct Ends(usize);

impl Observer for Ends {
    fn told(&mut self, _: &At<'_>, _: &Event, _: View<'_>) {}
    fn of_sessions(&mut self, event: &sessions::Event) {
        self.0 += usize::from(matches!(event, sessions::Event::Ended { .. }));
    }
    fn notice(&mut self, _: Option<&Key>, _: &str) {}
}

fn message(n: usize) -> Message {
    let text = format!("message {n} of a long conversation, with some words in it");
    if n.is_multiple_of(2) {
        let content = Content::Text(text);
        return Message::User(User { content, timestamp: Millis(1), idempotency_key: None });
    }
    Message::Assistant(Assistant {
        content: vec![Block::text(text)],
        api: "scripted".into(),
        provider: "offline".into(),
        model: "scripted".into(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason: StopReason::Stop,
        error_message: None,
        error_code: None,
        timestamp: Millis(1),
    })
}

/// Writes a conversation straight into the store.
fn fill(database: &Path, count: usize) {
    let mut db = open(database, Synchronous::Normal).expect("a database");
    let mut door = Door::new(ModelName::default(), 1);
    let run = RunId::new("fill");
    let mut writes = vec![
        Write::Accept { run: run.clone(), entry: stepclaw::engine::Entry::Prompt, at: Millis(1) },
        Write::Claim,
    ];
    for n in 0..count {
        writes.extend(door.append(message(n), Millis(1)));
    }
    let termination = stepclaw::engine::Termination::Completed { cut: false };
    writes.push(Write::End { termination, at: Millis(1) });
    let part = Commit {
        session: SessionId::new("s"),
        key: "agent:main:main".into(),
        cwd: String::new(),
        revision: 0,
        writer: Some(run),
        seen: None,
        writes,
        at: Millis(1),
    };
    let done = commit_all(&mut db, database, &[part]);
    assert!(done[0].is_ok(), "{:?}", done[0]);
}

/// The offline model reads no prompt: it is never asked for one.
fn prompter(workspace: &Path) -> Prompter {
    Prompter::new(Ground {
        workspace: workspace.to_owned(),
        cwd: workspace.to_owned(),
        limits: Limits::default(),
        inject: false,
        shell: None,
        zone: || panic!("no prompt is made"),
    })
}

/// Median microseconds of a warm turn.
fn turns(count: usize) -> f64 {
    let state = tempfile::tempdir().expect("a directory");
    let database = agent_db(state.path(), "main");
    fill(&database, count);
    let outfit = Outfit {
        compaction: None,
        database,
        synchronous: Synchronous::Normal,
        cwd: state.path().to_owned(),
        helper: None,
        shell: None,
        env: Arc::new(vec![]),
        exec_timeout_s: 10,
        workspace_only_patch: true,
        specs: Arc::new(stepclaw::tools::core()),
        prompter: Arc::new(prompter(state.path())),
        journal: None,
    };
    let model = resolve(&Config::default(), SCRIPTED).expect("the offline model");
    let options = Options {
        caps: Caps::for_cpus(1),
        queue: Partial::default(),
        reset: ResetPolicy::default(),
        watch: Thresholds::default(),
        lane_wait_ms: 0,
        keep_ms: 60_000,
    };
    let key: Key = "agent:main:main".into();
    let plan = Plan {
        options,
        setup: Setup::default(),
        only: Some(Arc::clone(&key)),
        models: vec![],
        forced: true,
    };
    let mut ends = Ends::default();
    let mut reactor = Reactor::open(outfit, model, plan, &mut ends).expect("a session");
    let mut times: Vec<f64> = (0..60)
        .map(|n| {
            let text = "say 2 words";
            let start = Instant::now();
            let content = Content::Text(text.to_owned());
            let body = User { content, timestamp: reactor.now(), idempotency_key: None };
            let arrival = Arrival {
                key: Arc::clone(&key),
                run: RunId::new(format!("turn {n}")),
                request: request(&key, text),
                body: Arc::new(body),
                wait: plain(text),
                interaction: true,
                boundary: None,
            };
            reactor.give(Input::Arrive(Box::new(arrival)), &mut ends).expect("a turn");
            while ends.0 <= n {
                reactor.turn(&mut ends).expect("a turn");
            }
            start.elapsed().as_secs_f64() * 1e6
        })
        .skip(10)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub fn main() {
    let (short, long) = (turns(10), turns(10_000));
    println!("warm offline turn, 10 messages, NORMAL (the baseline)   {short:8.0} us");
    let times = long / short;
    let what = "warm offline turn, 10,000 messages, NORMAL";
    println!("{what:55} {long:8.0} us: {times:.2} times   bar: 1.5");
}
