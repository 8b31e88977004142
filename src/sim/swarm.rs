//! One seed: a swarm of moves, then faults off and everything to its end.

use super::moves::{Move, Reply};
use super::world::{Knobs, Stats, World};
use super::{Bytes, Choice, Sabotage};
use crate::base::{FailKind, Rng};
use crate::engine::{Drain, Hooks, Setup};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a seed's run came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The options it ran with.
    pub setup: Setup,
    /// The moves it made.
    pub moves: Vec<Move>,
    /// What failed, if something did.
    pub failed: Option<String>,
    /// What it has seen.
    pub stats: Stats,
    /// A hash of everything that happened.
    pub trace: u64,
}

/// Moves a run makes before the faults are switched off.
const MOVES: usize = 80;

/// Which kinds of moves a run makes, and how often. A run without some kinds goes deeper into the
/// others.
struct Swarm {
    weights: [u64; KINDS],
    total: u64,
}

const KINDS: usize = 18;
/// How often each kind is drawn where nothing is switched off.
const USUAL: [u64; KINDS] = [6, 1, 6, 3, 2, 1, 1, 2, 3, 6, 1, 60, 2, 1, 2, 3, 2, 1];

impl Swarm {
    fn draw(choice: &mut dyn Choice) -> Option<Swarm> {
        let mut weights = USUAL;
        for (kind, weight) in weights.iter_mut().enumerate() {
            // Submitting and answering are never off: without them nothing happens.
            let fixed = kind == 0 || kind == 11;
            if !fixed && choice.pick(4)? == 0 {
                *weight = 0;
            }
        }
        Some(Swarm { weights, total: weights.iter().sum() })
    }

    fn kind(&self, choice: &mut dyn Choice) -> Option<usize> {
        let mut at = choice.pick(self.total)?;
        for (kind, weight) in self.weights.iter().enumerate() {
            if at < *weight {
                return Some(kind);
            }
            at -= weight;
        }
        Some(0)
    }

    fn next(&self, choice: &mut dyn Choice) -> Option<Move> {
        let byte = |choice: &mut dyn Choice, n| Some(u8::try_from(choice.pick(n)?).unwrap_or(0));
        Some(match self.kind(choice)? {
            0 => Move::Submit(byte(choice, 3)?),
            1 => Move::Continue,
            2 => Move::Steer,
            3 => Move::FollowUp,
            4 => Move::Cancel(byte(choice, 8)?),
            5 => Move::Abort(byte(choice, 5)?),
            6 => Move::Supersede,
            7 => Move::LateCommit,
            8 => Move::Wait(u16::try_from(choice.pick(20_000)?).unwrap_or(0)),
            9 => Move::Due,
            10 => Move::Tick,
            11 => Move::Answer(byte(choice, 6)?, reply(choice)?),
            12 => Move::Stale(byte(choice, 4)?, reply(choice)?),
            13 => Move::FailCommit,
            14 => Move::Announce,
            15 => Move::Crash(byte(choice, 5)?),
            16 => Move::Compact,
            _ => Move::Kill,
        })
    }
}

fn reply(choice: &mut dyn Choice) -> Option<Reply> {
    let byte = |choice: &mut dyn Choice, n| Some(u8::try_from(choice.pick(n)?).unwrap_or(0));
    Some(match choice.pick(20)? {
        0..=6 => Reply::Good,
        7 => Reply::Bad,
        8 => Reply::Piece,
        9..=14 => Reply::Calls {
            count: byte(choice, 4)? + 1,
            sequential: if choice.pick(4)? == 0 { byte(choice, 16)? } else { 0 },
            rejected: if choice.pick(4)? == 0 { byte(choice, 16)? } else { 0 },
            args: byte(choice, 2)?,
        },
        15 => Reply::Fail(fail(choice.pick(6)?)),
        16 => Reply::Odd(byte(choice, 7)?),
        17 => Reply::Terminate,
        18 => Reply::Special,
        _ => Reply::Good,
    })
}

fn fail(n: u64) -> FailKind {
    match n {
        0 => FailKind::ServerError,
        1 => FailKind::RateLimit,
        2 => FailKind::Auth,
        3 => FailKind::Incomplete,
        4 => FailKind::MalformedCalls,
        _ => FailKind::ContextOverflow,
    }
}

fn setup(choice: &mut dyn Choice) -> Option<Setup> {
    let mut setup = Setup::default();
    if choice.pick(3)? == 0 {
        let bits = choice.pick(256)?;
        let bit = |n: u64| bits & (1 << n) != 0;
        setup.hooks = Hooks {
            prepare_continuation: bit(0),
            transform_context: bit(1),
            prepare_next_turn: bit(2),
            should_stop: bit(3),
            before_batch: bit(4),
            before_call: bit(5),
            after_call: bit(6),
            after_outcome: bit(7),
            compaction: false,
        };
    }
    setup.hooks.compaction = choice.pick(3)? == 0;
    setup.steer_mode = if choice.pick(3)? == 0 { Drain::All } else { Drain::OneAtATime };
    setup.follow_mode = if choice.pick(3)? == 0 { Drain::All } else { Drain::OneAtATime };
    setup.sequential = choice.pick(5)? == 0;
    setup.loops_off = choice.pick(5)? == 0;
    if choice.pick(6)? == 0 {
        setup.limits.budget_ms = 30_000;
    }
    Some(setup)
}

/// Plays moves from a source of choices.
fn play(choice: &mut dyn Choice, knobs: Knobs, dice: u64) -> Outcome {
    let setup = setup(choice).unwrap_or_default();
    let knobs = Knobs { setup, ..knobs };
    let mut moves = Vec::with_capacity(MOVES);
    let mut world = World::new(knobs);
    world.throw(dice);
    let played = catch_unwind(AssertUnwindSafe(|| {
        if let Some(swarm) = Swarm::draw(choice) {
            while moves.len() < MOVES {
                let Some(m) = swarm.next(choice) else { break };
                moves.push(m);
                if let Some(m) = moves.last() {
                    world.play(m);
                }
            }
        }
        world.settle();
    }));
    let failed = played.err().map(|panic| text_of(panic.as_ref()));
    Outcome { setup, moves, failed, stats: world.stats(), trace: world.trace }
}

/// Plays a list of moves, as a replay file holds it; twice, since the same moves must give the
/// same run.
#[must_use]
pub fn play_moves(moves: &[Move], knobs: Knobs) -> Outcome {
    let first = play_once(moves, knobs, 0);
    if first.failed.is_some() {
        return first;
    }
    let same = play_once(moves, knobs, 1).trace == first.trace;
    let failed = (!same).then(|| "11: the same moves gave another run".to_owned());
    Outcome { failed, ..first }
}

fn play_once(moves: &[Move], knobs: Knobs, dice: u64) -> Outcome {
    let mut world = World::new(knobs);
    world.throw(dice);
    let played = catch_unwind(AssertUnwindSafe(|| {
        for m in moves {
            world.play(m);
        }
        world.settle();
    }));
    let failed = played.err().map(|panic| text_of(panic.as_ref()));
    let setup = knobs.setup;
    let (stats, trace) = (world.stats(), world.trace);
    Outcome { setup, moves: moves.to_vec(), failed, stats, trace }
}

/// One seed.
#[must_use]
pub fn run_seed(seed: u64, checks: bool, sabotage: Option<Sabotage>) -> Outcome {
    let knobs = Knobs { checks, sabotage, ..Knobs::default() };
    let rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
    let outcome = play(&mut rng.clone(), knobs, 0);
    if outcome.failed.is_some() || !checks {
        return outcome;
    }
    // 11: the same seed gives the same run. One in sixteen is enough to see it.
    if seed.is_multiple_of(16) || sabotage == Some(Sabotage::Dice) {
        let again = play(&mut rng.clone(), knobs, 1);
        if again.trace != outcome.trace {
            let failed = Some("11: the same seed gave another run".to_owned());
            return Outcome { failed, ..outcome };
        }
    }
    outcome
}

/// A fuzzer's bytes.
#[must_use]
pub fn run_bytes(bytes: &[u8]) -> Outcome {
    play(&mut Bytes(bytes), Knobs { checks: true, ..Knobs::default() }, 0)
}

/// The words of a panic.
pub(super) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "a panic without words".to_owned());
    // Comparing assertions put words of their own before the number of the invariant.
    text.strip_prefix("assertion `left == right` failed: ").unwrap_or(&text).to_owned()
}
