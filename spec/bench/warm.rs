//! Warm turns of one process in a conversation of 10 messages and in one of 10,000: engine and
//! store, with the offline model, so that no request is copied.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use stepclaw::base::{Millis, RunId, SessionId};
use stepclaw::config::Config;
use stepclaw::engine::{Event, Setup};
use stepclaw::model::catalog::{SCRIPTED, resolve};
use stepclaw::reactor::{Observer, Outfit, Reactor, Submission, View};
use stepclaw::store::{Commit, Synchronous, agent_db, commit_all, open};
use stepclaw::transcript::message::Content;
use stepclaw::transcript::{Assistant, Block, Door, Message, ModelName, StopReason, User, Write};

struct Nobody;

impl Observer for Nobody {
    fn told(&mut self, _event: &Event, _view: View<'_>) {}
    fn notice(&mut self, _text: &str) {}
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
        writes,
        at: Millis(1),
    };
    let done = commit_all(&mut db, database, &[part]);
    assert!(done[0].is_ok(), "{:?}", done[0]);
}

/// Median microseconds of a warm turn.
fn turns(count: usize) -> f64 {
    let state = tempfile::tempdir().expect("a directory");
    let database = agent_db(state.path(), "main");
    fill(&database, count);
    let outfit = Outfit {
        database,
        synchronous: Synchronous::Normal,
        cwd: state.path().to_owned(),
        helper: None,
        shell: None,
        env: Arc::new(vec![]),
        exec_timeout_s: 10,
        workspace_only_patch: true,
        specs: Arc::new(stepclaw::tools::core()),
        system: String::new(),
        journal: None,
    };
    let model = resolve(&Config::default(), SCRIPTED).expect("the offline model");
    let mut reactor = Reactor::open(outfit, model, "agent:main:main").expect("a session");
    let mut times: Vec<f64> = (0..60)
        .map(|_| {
            let text = "say 2 words".to_owned();
            let start = Instant::now();
            let submission = Submission { text, run: None, setup: Setup::default() };
            reactor.run(submission, &mut Nobody).expect("a turn");
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
