//! The simulator in the ordinary tests: seeds, planted faults, replay files, crashes everywhere.

use super::moves::{Move, Reply};
use super::replay::{Replay, TownReplay};
use super::swarm::{Outcome, play_moves};
use super::world::{Knobs, World};
use super::{Sabotage, run_bytes, run_seed, shrink};
use crate::base::FailKind;
use crate::engine::{Hooks, Setup};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Seeds within which each planted fault must show.
const SEEDS_MAX: u64 = 3_000;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Worlds that fail by design do so without a word on the screen.
pub(super) fn quiet<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let done = work();
    QUIET.set(false);
    done
}

pub(super) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {}", folder.display());
    files
}

fn replays() -> Vec<(String, Replay)> {
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let replay = || Replay::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (!TownReplay::is(&text)).then(|| (name, replay()))
    };
    files(&folder("replay")).into_iter().filter_map(read).collect()
}

#[test]
fn seeds_pass() {
    let (mut steps, mut crashes, mut refused) = (0, 0, 0);
    for seed in 0..1_000 {
        let outcome = quiet(|| run_seed(seed, true, None));
        assert_eq!(outcome.failed, None, "seed {seed}");
        steps += outcome.stats.steps;
        crashes += outcome.stats.crashes;
        refused += outcome.stats.refused;
    }
    assert!(steps > 8_000 && crashes > 100 && refused > 100, "{steps} {crashes} {refused}: tame");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..100 {
        let (one, two) = (run_seed(seed, true, None), run_seed(seed, true, None));
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(one.moves, two.moves, "seed {seed}");
        let knobs = Knobs { checks: true, sabotage: None, setup: one.setup };
        assert_eq!(play_moves(&one.moves, knobs).trace, one.trace, "seed {seed}: its moves alone");
    }
}

/// The first seed at which a planted fault shows.
fn caught(sabotage: Sabotage) -> (u64, Outcome) {
    let seeds = (0..SEEDS_MAX).map(|seed| (seed, run_seed(seed, true, Some(sabotage))));
    let mut failing = seeds.into_iter().filter(|(_, outcome)| outcome.failed.is_some());
    failing.next().unwrap_or_else(|| panic!("{}: not caught", sabotage.name()))
}

/// The faults of the world with one session.
fn single() -> impl Iterator<Item = Sabotage> {
    Sabotage::all().iter().copied().filter(|sabotage| !sabotage.is_town())
}

/// The invariant that a fault is planted against, as its comment has it.
fn invariant(sabotage: Sabotage) -> &'static [&'static str] {
    match sabotage {
        // A result that is missing is missed by the log before the pairing is asked for it.
        Sabotage::SkipResult => &["1", "11"],
        Sabotage::ReorderResults | Sabotage::CutPair => &["1"],
        Sabotage::IgnoreFence => &["2"],
        Sabotage::ActAfterEnd => &["3"],
        Sabotage::EndTwice | Sabotage::EndNever => &["4"],
        Sabotage::LoseQueue | Sabotage::DoubleMessage => &["5"],
        Sabotage::ActBeforeCommit | Sabotage::RunAgain => &["6"],
        Sabotage::SkipStarted => &["7"],
        Sabotage::Unblock => &["10"],
        Sabotage::Dice | Sabotage::LoseRecord => &["11"],
        Sabotage::HalfRecovery => &["12"],
        Sabotage::RewritePrefix => &["13"],
        Sabotage::Overfill => &["14"],
        Sabotage::ForgetOutcome => &["15"],
        _ => &[],
    }
}

/// A check that no planted fault trips is not a check. `UPDATE=1` writes the replay files anew.
#[test]
fn every_sabotage_is_caught_and_shrunk() {
    let mut loose = Vec::new();
    for sabotage in single() {
        let found = quiet(|| std::panic::catch_unwind(|| caught(sabotage)));
        let Ok((seed, outcome)) = found else {
            loose.push(format!("{}: not caught", sabotage.name()));
            continue;
        };
        let why = outcome.failed.clone().unwrap_or_default();
        let knobs = Knobs { checks: true, sabotage: Some(sabotage), setup: outcome.setup };
        let moves = quiet(|| shrink(&outcome.moves, knobs, &why));
        let small = Replay { sabotage: Some(sabotage), setup: outcome.setup, moves };
        let (with, without) = quiet(|| (small.play(true).failed, small.play(false).failed));
        if with.is_none() || without.is_some() {
            loose.push(format!("{}: {with:?}, without: {without:?}", sabotage.name()));
        }
        let number = why.split(':').next().unwrap_or_default();
        if !invariant(sabotage).contains(&number) {
            loose.push(format!("{}: caught by another check: {why}", sabotage.name()));
        }
        if small.moves.len() > 30 {
            loose.push(format!("{}: {} moves after shrinking", sabotage.name(), small.moves.len()));
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(folder("replay")).expect("a folder");
            let path = folder("replay").join(format!("{}.txt", sabotage.name()));
            std::fs::write(path, small.write(seed, &why)).expect("a replay file");
        }
    }
    assert!(loose.is_empty(), "\n{}", loose.join("\n"));
}

/// Each file fails with its planted fault and passes without.
#[test]
fn replay_files_still_tell() {
    let replays = replays();
    for sabotage in single() {
        let there = replays.iter().any(|(_, r)| r.sabotage == Some(sabotage));
        assert!(there, "no replay file for {}", sabotage.name());
    }
    for (name, replay) in replays {
        let (with, without) = quiet(|| (replay.play(true), replay.play(false)));
        assert_eq!(replay.sabotage.is_some(), with.failed.is_some(), "{name}: with its fault");
        assert_eq!(without.failed, None, "{name}: without");
        let text = replay.write(0, "again");
        assert_eq!(Replay::read(&text).expect("its own words").moves, replay.moves, "{name}");
    }
}

fn tools(count: u8, sequential: u8, rejected: u8) -> Move {
    Move::Answer(0, Reply::Calls { count, sequential, rejected, args: 0 })
}

fn good(n: u8) -> Move {
    Move::Answer(n, Reply::Good)
}

/// A run that waits for its model, then these moves.
fn begun(moves: &[Move]) -> Vec<Move> {
    let mut all = vec![Move::Submit(1), good(0), good(0), good(0)];
    all.extend_from_slice(moves);
    all
}

fn scripts() -> Vec<(String, Replay)> {
    let off = Setup::default();
    let on = Hooks { before_call: true, after_call: true, after_outcome: true, ..off.hooks };
    let hooked = Setup { hooks: on, ..off };
    let fail = |kind| Move::Answer(0, Reply::Fail(kind));
    let scripts: Vec<(&str, Setup, Vec<Move>)> = vec![
        ("text", off, begun(&[good(0)])),
        (
            "parallel",
            off,
            begun(&[tools(3, 0, 2), good(0), good(1), good(1), good(0), good(0), good(0)]),
        ),
        (
            "serial, steered",
            off,
            begun(&[tools(3, 7, 0), good(0), Move::Steer, good(0), good(0), good(0)]),
        ),
        (
            "retried",
            off,
            begun(&[fail(FailKind::ServerError), Move::Due, good(0), good(0), Move::FollowUp]),
        ),
        (
            "aborted among tools",
            off,
            begun(&[tools(2, 0, 0), good(0), Move::Abort(0), good(0), good(0), Move::Due]),
        ),
        (
            "superseded",
            off,
            begun(&[tools(2, 0, 0), good(0), Move::Supersede, good(0), Move::LateCommit, good(0)]),
        ),
        (
            "hooks",
            hooked,
            begun(&[tools(2, 0, 0), good(0), good(0), good(0), good(1), good(0), good(1), good(0)]),
        ),
        (
            "messages",
            off,
            begun(&[Move::Steer, Move::FollowUp, Move::Cancel(1), good(0), good(0), good(0)]),
        ),
    ];
    let made = |(name, setup, moves): (&str, Setup, Vec<Move>)| {
        (name.to_owned(), Replay { sabotage: None, setup, moves })
    };
    scripts.into_iter().map(made).collect()
}

/// How many boundaries each move passes.
fn boundaries(replay: &Replay) -> Vec<u64> {
    let mut world = World::new(Knobs { checks: true, sabotage: None, setup: replay.setup });
    let mut before = 0;
    let mut each = Vec::new();
    for m in &replay.moves {
        world.play(m);
        let now = world.stats().boundaries;
        each.push(now - before);
        before = now;
    }
    each
}

/// A crash at every boundary of every file and script: what is left is made whole and goes on.
#[test]
fn a_crash_at_every_boundary_is_survived() {
    let mut crashes = 0;
    for (name, replay) in replays().into_iter().chain(scripts()) {
        let knobs = Knobs { checks: true, sabotage: None, setup: replay.setup };
        for (at, passed) in boundaries(&replay).into_iter().enumerate() {
            for k in 0..=passed.min(200) {
                let mut moves = replay.moves.clone();
                moves.insert(at, Move::Crash(u8::try_from(k).expect("few acts a step")));
                let outcome = quiet(|| play_moves(&moves, knobs));
                assert_eq!(outcome.failed, None, "{name}: move {at}, boundary {k}");
                // Behind a commit that fails there is no boundary to crash at.
                let must = passed > 0 && k == 0;
                assert!(!must || outcome.stats.crashes > 0, "{name}: {at}, {k}: no crash");
                crashes += outcome.stats.crashes;
            }
        }
    }
    assert!(crashes > 500, "only {crashes} crashes");
}

/// Scripts get as far as they mean to: each ends its run by itself.
#[test]
fn scripts_pass_without_a_crash() {
    for (name, replay) in scripts() {
        let outcome = replay.play(false);
        assert_eq!(outcome.failed, None, "{name}");
        assert!(outcome.stats.runs >= 1 && outcome.stats.crashes == 0, "{name}");
    }
}

type Entry = fn(&[u8]);

/// What fuzzers have found or should begin with, through the same entries.
#[test]
fn corpora_pass() {
    let targets: [(&str, Entry); 11] = [
        ("engine", |data| assert_eq!(run_bytes(data).failed, None)),
        ("stream", crate::model::fuzz::fuzz_stream),
        ("args", crate::tools::fuzz::fuzz_args),
        ("patch", crate::tools::fuzz::fuzz_patch),
        ("edit", crate::tools::fuzz::fuzz_edit),
        ("config", crate::config::fuzz::fuzz_config),
        ("repair", crate::transcript::fuzz::fuzz_repair),
        ("hall", super::hall::fuzz_hall),
        ("connect", crate::gateway::auth::fuzz::fuzz_connect),
        ("http", crate::gateway::wire::fuzz::fuzz_http),
        ("socket", crate::gateway::wire::fuzz::fuzz_socket),
    ];
    for (name, entry) in targets {
        for path in files(&folder("corpus").join(name)) {
            entry(&std::fs::read(&path).expect("a readable file"));
        }
    }
}
