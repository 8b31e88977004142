//! One seed of the town: options, a swarm of moves, then everything to its end.

use super::moves::{TownMove, TownSetup};
use super::world::{Town, TownKnobs, TownStats, policy};
use crate::base::Rng;
use crate::engine::reset::ResetPolicy;
use crate::engine::turns::{Mode, Partial};
use crate::sim::Sabotage;
use crate::sim::swarm::text_of;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a town's life came out.
#[derive(Clone, Debug)]
pub struct TownOutcome {
    /// The options it had.
    pub setup: TownSetup,
    /// The moves it made.
    pub moves: Vec<TownMove>,
    /// What failed, if something did.
    pub failed: Option<String>,
    /// What it has seen.
    pub stats: TownStats,
    /// A hash of everything that happened.
    pub trace: u64,
}

/// Moves before the faults are switched off.
const MOVES: usize = 160;

const KINDS: usize = 27;
/// How often each kind is drawn where nothing is switched off.
const USUAL: [u64; KINDS] =
    [26, 3, 2, 3, 2, 2, 2, 3, 1, 40, 40, 18, 60, 8, 12, 1, 6, 8, 2, 2, 2, 2, 1, 1, 1, 2, 2];
/// Arriving, the store, its answers, opening, going on, replies: never off.
const FIXED: [usize; 6] = [0, 9, 10, 11, 12, 14];

fn draw(rng: &mut Rng) -> ([u64; KINDS], u64) {
    let mut weights = USUAL;
    for (kind, weight) in weights.iter_mut().enumerate() {
        if !FIXED.contains(&kind) && rng.below(3) == 0 {
            *weight = 0;
        }
    }
    if rng.below(8) == 0 {
        // Deaths one after the other: what is resumed is cut off again.
        (weights[0], weights[17], weights[24], weights[25]) = (3, 40, 30, 120);
        (weights[4], weights[5], weights[6], weights[21], weights[22]) = (0, 0, 0, 0, 0);
    }
    (weights, weights.iter().sum())
}

fn byte(rng: &mut Rng, n: u64) -> u8 {
    u8::try_from(rng.below(n)).unwrap_or(0)
}

fn next(rng: &mut Rng, weights: &[u64; KINDS], total: u64) -> TownMove {
    let mut at = rng.below(total);
    let mut kind = 0;
    for (n, weight) in weights.iter().enumerate() {
        kind = n;
        if at < *weight {
            break;
        }
        at -= weight;
    }
    match kind {
        0 => TownMove::Arrive(byte(rng, 8), byte(rng, 8), byte(rng, 9)),
        1 => TownMove::Again(byte(rng, 8), rng.below(3) == 0),
        2 => TownMove::Settings(byte(rng, 8), byte(rng, 8)),
        3 => TownMove::AbortRun(byte(rng, 8)),
        4 => TownMove::AbortSession(byte(rng, 8)),
        5 => TownMove::Reset(byte(rng, 8)),
        6 => TownMove::Delete(byte(rng, 8)),
        7 => TownMove::Wait(byte(rng, 8), u16::try_from(rng.below(90)).unwrap_or(0)),
        8 => TownMove::Unwait,
        9 => TownMove::Disk,
        10 => TownMove::Answer,
        11 => TownMove::Open(byte(rng, 4), rng.below(12) != 0),
        12 => TownMove::Go(byte(rng, 4), byte(rng, 10)),
        13 => TownMove::Hear(byte(rng, 4), rng.below(4) != 0),
        14 => TownMove::Reply,
        15 => TownMove::Stale(byte(rng, 8)),
        16 => TownMove::Pass(pass(rng)),
        17 => TownMove::Due,
        18 => TownMove::Tick,
        19 => TownMove::Full(byte(rng, 4)),
        20 => TownMove::Look(byte(rng, 8)),
        21 => TownMove::TakeOver,
        22 => TownMove::Drain(byte(rng, 120)),
        23 => TownMove::Crash(byte(rng, 3)),
        24 => TownMove::Kill,
        26 => TownMove::Reload(byte(rng, 8)),
        _ => TownMove::Round,
    }
}

fn pass(rng: &mut Rng) -> u32 {
    let most = match rng.below(12) {
        0..=6 => 4,
        7..=9 => 90,
        10 => 1_200,
        _ => 40 * 3_600,
    };
    u32::try_from(rng.below(most)).unwrap_or(0)
}

fn setup(rng: &mut Rng) -> TownSetup {
    let mode = match rng.below(6) {
        0 => Some(Mode::FollowUp),
        1 => Some(Mode::Collect),
        2 => Some(Mode::Interrupt),
        _ => None,
    };
    let queue = Partial {
        mode,
        debounce_ms: None,
        cap: (rng.below(2) == 0).then(|| 1 + u16::from(byte(rng, 3))),
        drop: (rng.below(2) == 0).then(|| policy(rng.below(3))),
    };
    let reset = ResetPolicy {
        daily_hour: (rng.below(4) == 0).then_some(4),
        idle_minutes: (rng.below(4) == 0).then_some(10),
    };
    let lane_wait_s = if rng.below(4) == 0 { 60 } else { 0 };
    let (sessions, cap) = (3 + byte(rng, 4), 1 + byte(rng, 2));
    TownSetup { sessions, cap, queue, reset, lane_wait_s }
}

fn live(
    knobs: TownKnobs,
    dice: u64,
    mut moves: impl FnMut(usize) -> Option<TownMove>,
) -> TownOutcome {
    let mut made = Vec::with_capacity(MOVES);
    let mut town = Town::new(knobs);
    town.throw(dice);
    let played = catch_unwind(AssertUnwindSafe(|| {
        while let Some(m) = moves(made.len()) {
            made.push(m);
            town.play(m);
        }
        town.settle();
    }));
    let failed = played.err().map(|panic| text_of(panic.as_ref()));
    let (stats, trace) = (town.stats(), town.trace);
    TownOutcome { setup: knobs.setup, moves: made, failed, stats, trace }
}

/// One seed.
#[must_use]
pub fn run_seed(seed: u64, checks: bool, sabotage: Option<Sabotage>) -> TownOutcome {
    let once = |dice| {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x7023);
        let knobs = TownKnobs { setup: setup(&mut rng), sabotage, checks };
        let (weights, total) = draw(&mut rng);
        live(knobs, dice, |n| (n < MOVES).then(|| next(&mut rng, &weights, total)))
    };
    let outcome = once(0);
    let twice = seed.is_multiple_of(16) || sabotage == Some(Sabotage::TownDice);
    if outcome.failed.is_some() || !checks || !twice {
        return outcome;
    }
    // 11: the same seed gives the same life.
    let same = once(1).trace == outcome.trace;
    let failed = (!same).then(|| "11: the same seed gave another life".to_owned());
    TownOutcome { failed, ..outcome }
}

/// Plays a list of moves, twice: they must give the same life.
#[must_use]
pub fn play_moves(moves: &[TownMove], knobs: TownKnobs) -> TownOutcome {
    let first = live(knobs, 0, |n| moves.get(n).copied());
    if first.failed.is_some() {
        return first;
    }
    let same = live(knobs, 1, |n| moves.get(n).copied()).trace == first.trace;
    let failed = (!same).then(|| "11: the same moves gave another life".to_owned());
    TownOutcome { failed, ..first }
}

/// A shorter list of moves that still fails in the same way.
#[must_use]
pub fn shrink(moves: &[TownMove], knobs: TownKnobs, failed: &str) -> Vec<TownMove> {
    let number = |text: &str| text.split(':').next().unwrap_or(text).to_owned();
    let wanted = number(failed);
    let fails = |moves: &[TownMove]| {
        play_moves(moves, knobs).failed.is_some_and(|now| number(&now) == wanted)
    };
    let mut best = moves.to_vec();
    if !fails(&best) {
        return best;
    }
    loop {
        let before = best.clone();
        crate::sim::shrink::drop_parts(&mut best, &fails);
        for at in 0..best.len() {
            for simpler in simpler(best[at]) {
                let old = std::mem::replace(&mut best[at], simpler);
                if fails(&best) {
                    break;
                }
                best[at] = old;
            }
        }
        if best == before {
            return best;
        }
    }
}

fn simpler(m: TownMove) -> Vec<TownMove> {
    use TownMove::{Arrive, Go, Open, Pass};
    let all = match m {
        Arrive(a, b, c) => vec![Arrive(0, 0, 0), Arrive(a, 0, 0), Arrive(0, b, 0), Arrive(a, b, 0)]
            .into_iter()
            .chain([Arrive(a, 0, c), Arrive(0, b, c), Arrive(0, 0, c)])
            .collect(),
        Go(n, how) => vec![Go(0, 0), Go(n, 0), Go(0, how)],
        Open(_, good) => vec![Open(0, true), Open(0, good)],
        Pass(s) => vec![Pass(0), Pass(s / 2)],
        TownMove::Full(n) => (1..n).map(TownMove::Full).collect(),
        TownMove::Crash(n) => (0..n).map(TownMove::Crash).collect(),
        _ => vec![],
    };
    all.into_iter().filter(|simpler| *simpler != m).collect()
}
