//! The town in the ordinary tests: seeds, planted faults, replay files.

use super::{TownKnobs, TownOutcome, TownStats, play_moves, run_seed, shrink};
use crate::sim::Sabotage;
use crate::sim::replay::TownReplay;
use crate::sim::tests::{files, folder, quiet};

/// Seeds within which each planted fault must show.
const SEEDS_MAX: u64 = 6_000;

fn replays() -> Vec<(String, TownReplay)> {
    let texts = files(&folder("replay")).into_iter().map(|path| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a readable file"))
    });
    let town = texts.filter(|(_, text)| TownReplay::is(text));
    town.map(|(name, text)| (name, TownReplay::read(&text).expect("a replay file"))).collect()
}

/// W9, W10: seeds pass, and something of every kind happens in them.
#[test]
fn town_seeds_pass() {
    let mut told = [0; TownStats::KINDS.len()];
    let (mut sessions, mut crashes) = (0, 0);
    for seed in 0..1_500 {
        let outcome = quiet(|| run_seed(seed, true, None));
        assert_eq!(outcome.failed, None, "seed {seed}");
        sessions += outcome.stats.sessions;
        crashes += outcome.stats.crashes;
        told.iter_mut().zip(outcome.stats.told).for_each(|(all, n)| *all += n);
    }
    assert!(sessions > 3_000 && crashes > 300, "{sessions} {crashes}: tame");
    for (kind, n) in TownStats::KINDS.iter().zip(told) {
        assert!(n >= 3, "{kind}: {n}: tame");
    }
}

fn caught(sabotage: Sabotage) -> (u64, TownOutcome) {
    let seeds = (0..SEEDS_MAX).map(|seed| (seed, run_seed(seed, true, Some(sabotage))));
    let mut failing = seeds.into_iter().filter(|(_, outcome)| outcome.failed.is_some());
    failing.next().unwrap_or_else(|| panic!("{}: not caught", sabotage.name()))
}

fn invariants(sabotage: Sabotage) -> &'static [&'static str] {
    match sabotage {
        Sabotage::TownDropTurn => &["4", "5", "12"],
        // What is accepted twice is started or told twice, whichever comes first.
        Sabotage::TownDoubleAdmit => &["4", "5", "15"],
        Sabotage::TownEndTwice | Sabotage::TownEndNever => &["4"],
        Sabotage::TownLeakLane => &["8"],
        Sabotage::TownTwoRuns => &["3"],
        Sabotage::TownIgnoreIdentity => &["15"],
        // It begins, or is over while it is active, whichever shows first.
        Sabotage::TownRunDropped => &["3", "4", "5"],
        Sabotage::TownKeepDropped => &["5"],
        Sabotage::TownLoseQueue => &["5", "12"],
        Sabotage::TownResumeForever => &["12"],
        Sabotage::TownKeepRevision | Sabotage::TownIgnoreFence => &["2"],
        Sabotage::TownSteerAcross => &["4", "5"],
        Sabotage::TownDice => &["11"],
        _ => &[],
    }
}

/// W5: `UPDATE=1` writes the replay files anew.
#[test]
fn every_sabotage_of_the_town_is_caught_and_shrunk() {
    let mut loose = Vec::new();
    for sabotage in Sabotage::all().iter().copied().filter(|s| s.is_town()) {
        let found = quiet(|| std::panic::catch_unwind(|| caught(sabotage)));
        let Ok((seed, outcome)) = found else {
            loose.push(format!("{}: not caught", sabotage.name()));
            continue;
        };
        let why = outcome.failed.clone().unwrap_or_default();
        let knobs = TownKnobs { setup: outcome.setup, sabotage: Some(sabotage), checks: true };
        let moves = quiet(|| shrink(&outcome.moves, knobs, &why));
        let small = TownReplay { sabotage: Some(sabotage), setup: outcome.setup, moves };
        let (with, without) = quiet(|| (small.play(true).failed, small.play(false).failed));
        if with.is_none() || without.is_some() {
            loose.push(format!("{}: {with:?}, without: {without:?}", sabotage.name()));
        }
        let number = why.split(':').next().unwrap_or_default();
        if !invariants(sabotage).contains(&number) {
            loose.push(format!("{}: caught by another check: {why}", sabotage.name()));
        }
        if small.moves.len() > 40 {
            loose.push(format!("{}: {} moves after shrinking", sabotage.name(), small.moves.len()));
        }
        if std::env::var_os("UPDATE").is_some() {
            let path = folder("replay").join(format!("{}.txt", sabotage.name()));
            std::fs::write(path, small.write(seed, &why)).expect("a replay file");
        }
    }
    assert!(loose.is_empty(), "\n{}", loose.join("\n"));
}

/// W6: each file fails with its planted fault and passes without.
#[test]
fn town_replay_files_still_tell() {
    let replays = replays();
    for sabotage in Sabotage::all().iter().copied().filter(|s| s.is_town()) {
        let there = replays.iter().any(|(_, r)| r.sabotage == Some(sabotage));
        assert!(there, "no replay file for {}", sabotage.name());
    }
    for (name, replay) in replays {
        assert_eq!(quiet(|| replay.play(false)).failed, None, "{name}");
        let with = quiet(|| replay.play(true)).failed;
        assert_eq!(with.is_some(), replay.sabotage.is_some(), "{name}: {with:?}");
    }
}

/// W1: moves alone give the same life again.
#[test]
fn a_town_lives_the_same_life_again() {
    for seed in 0..50 {
        let one = quiet(|| run_seed(seed, true, None));
        let knobs = TownKnobs { setup: one.setup, sabotage: None, checks: true };
        assert_eq!(play_moves(&one.moves, knobs).trace, one.trace, "seed {seed}");
    }
}
