//! The invariants of the architecture, checked after every step. Each panics with its number.

use super::world::{Live, World};
use crate::base::MsgId;
use crate::engine::{Ledger, Phase, QueueKind, Termination};
use crate::transcript::{Content, Message};
use std::collections::BTreeMap;

/// What became of an accepted message, as its sender knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Accepted,
    Dropped,
}

/// After every step: the parts that cost little.
pub(super) fn after_step(world: &World) {
    if let Some(live) = &world.live {
        live.run.check();
        recovers(live);
        assert_eq!(live.door.guarded(), 0, "1: the live guard had to step in");
    }
    assert!(world.store.unpaired.is_none(), "1: {:?}", world.store.unpaired);
    for (run, told) in &world.told {
        assert!(*told <= 1, "4: run {run} was ended {told} times");
    }
    let waiting = world.store.queue.len();
    assert!(waiting <= world.waiting_max(), "14: {waiting} messages wait");
}

/// 11: what the log tells is what the run is, up to work in flight.
fn recovers(live: &Live) {
    let displaced = matches!(
        live.run.ended(),
        Some(Termination::Superseded { .. } | Termination::Failed { .. })
    );
    if displaced {
        return;
    }
    let now = Ledger::of(&live.run);
    assert!(live.ledger.agrees(&now), "11: the log says {:?}, the run is {now:?}", live.ledger);
}

/// At a crash and at the end: what costs more.
pub(super) fn messages(world: &World) {
    let mut places: BTreeMap<MsgId, (u32, u32)> = BTreeMap::new();
    for message in &world.store.messages {
        if let Message::User(user) = message
            && let Content::Text(text) = &user.content
            && let Some(id) = text.strip_prefix('m').and_then(|n| n.parse().ok())
        {
            places.entry(MsgId(id)).or_default().0 += 1;
        }
    }
    for (id, _, _) in &world.store.queue {
        places.entry(*id).or_default().1 += 1;
    }
    for (id, fate) in &world.fates {
        let (stored, waiting) = places.get(id).copied().unwrap_or_default();
        match fate {
            Fate::Accepted => {
                assert_eq!(
                    stored + waiting,
                    1,
                    "5: message {}: {stored} stored, {waiting} waiting",
                    id.0
                );
            }
            Fate::Dropped => assert_eq!(stored + waiting, 0, "5: message {} came back", id.0),
        }
    }
}

/// When everything has settled: every accepted run has ended, and everybody was told once.
pub(super) fn settled(world: &World) {
    messages(world);
    for (run, end) in &world.store.runs {
        assert!(end.is_some(), "12: run {run} hangs for ever");
        let told = world.told.get(run).copied().unwrap_or(0);
        let crashed = world.crashed_runs.contains(run);
        assert!(told == 1 || crashed, "4: nobody was told of the end of run {run}");
    }
    assert!(world.store.owed.is_empty(), "1: results are owed at the end");
    assert!(world.store.writer.is_none(), "3: a writer survives its run");
}

/// Waiting messages as a new run is given them.
pub(super) fn waiting_for(world: &World) -> Vec<(MsgId, QueueKind)> {
    world.store.queue.iter().map(|(id, kind, _)| (*id, *kind)).collect()
}

/// Whether nothing is going on.
pub(super) fn idle(live: &Live) -> bool {
    matches!(live.run.phase, Phase::Ended(_))
}
