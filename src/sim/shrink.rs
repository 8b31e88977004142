//! Delta debugging over moves: halves, quarters, single drops, then smaller numbers, until nothing
//! can go. The same kind of failure must remain.

use super::moves::{Move, Reply};
use super::swarm::play_moves;
use super::world::Knobs;

/// The number of the invariant at the head of a failure.
fn kind(failed: &str) -> &str {
    failed.split(':').next().unwrap_or(failed)
}

/// A shorter list of moves that still fails in the same way.
#[must_use]
pub fn shrink(moves: &[Move], knobs: Knobs, failed: &str) -> Vec<Move> {
    let wanted = kind(failed).to_owned();
    let fails =
        |moves: &[Move]| play_moves(moves, knobs).failed.is_some_and(|now| kind(&now) == wanted);
    let mut best = moves.to_vec();
    if !fails(&best) {
        return best;
    }
    loop {
        let before = best.clone();
        drop_parts(&mut best, &fails);
        simplify(&mut best, &fails);
        if best == before {
            return best;
        }
    }
}

pub(super) fn drop_parts<M: Clone>(best: &mut Vec<M>, fails: &impl Fn(&[M]) -> bool) {
    let mut size = (best.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..(at + size).min(best.len()));
            if fails(&shorter) {
                *best = shorter;
            } else {
                at += size;
            }
        }
        if size == 1 {
            return;
        }
        size = (size / 2).max(1);
    }
}

fn simplify(best: &mut [Move], fails: &impl Fn(&[Move]) -> bool) {
    for at in 0..best.len() {
        for simpler in simpler(&best[at]) {
            let old = std::mem::replace(&mut best[at], simpler);
            if fails(best) {
                break;
            }
            best[at] = old;
        }
    }
}

fn simpler(m: &Move) -> Vec<Move> {
    match m {
        Move::Answer(n, reply) => {
            let mut all = vec![Move::Answer(0, Reply::Good), Move::Answer(*n, Reply::Good)];
            if let Reply::Calls { count, .. } = reply {
                let plain = |count| Reply::Calls { count, sequential: 0, rejected: 0, args: 0 };
                all.extend((1..*count).map(|c| Move::Answer(0, plain(c))));
                all.push(Move::Answer(0, plain(*count)));
            }
            all.push(Move::Answer(0, reply.clone()));
            all.retain(|s| s != m);
            all
        }
        Move::Submit(n) if *n > 1 => vec![Move::Submit(1)],
        Move::Wait(ms) if *ms > 0 => vec![Move::Wait(0), Move::Wait(ms / 2)],
        Move::Crash(k) if *k > 0 => (0..*k).map(Move::Crash).collect(),
        Move::Cancel(n) if *n > 0 => vec![Move::Cancel(0)],
        Move::Abort(n) if *n > 0 => vec![Move::Abort(0)],
        _ => vec![],
    }
}
