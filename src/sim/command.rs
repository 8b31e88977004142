//! `stepclaw sim`: many seeds, with progress, and a verdict.

use super::replay::{Replay, TownReplay};
use super::sabotage::Sabotage;
use super::town::{self, TownKnobs, TownStats};
use super::world::Knobs;
use super::{run_seed, shrink};
use clap::Args;
use std::io::{IsTerminal, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// Which seeds, as FROM..TO
    #[arg(long, value_name = "FROM..TO", default_value = "0..1000", value_parser = range)]
    pub seeds: Range<u64>,
    /// Only the worlds of several sessions
    #[arg(long)]
    pub town: bool,
    /// Plant this fault: the run must fail
    #[arg(long, value_name = "NAME", value_enum)]
    pub sabotage: Option<Sabotage>,
    /// List the faults that can be planted, one a line
    #[arg(long)]
    pub list_sabotages: bool,
    /// Do not check invariants: only for measuring
    #[arg(long)]
    pub no_checks: bool,
    /// Play a replay file instead of seeds
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected FROM..TO, as 0..1000")?;
    let number = |t: &str| t.parse::<u64>().map_err(|e| format!("{t:?}: {e}"));
    let range = number(from)?..number(to)?;
    if range.is_empty() { Err("the range is empty".into()) } else { Ok(range) }
}

/// Runs the command; gives its exit status.
#[must_use]
pub fn run(args: &SimArgs) -> u8 {
    if args.list_sabotages {
        for sabotage in Sabotage::all() {
            println!("{}", sabotage.name());
        }
        return 0;
    }
    // A failing world panics by design; its words are shown once, with the replay.
    std::panic::set_hook(Box::new(|_| {}));
    match &args.replay {
        Some(path) => replay(path),
        None => seeds(args),
    }
}

fn replay(path: &std::path::Path) -> u8 {
    let read = std::fs::read_to_string(path).map_err(|e| e.to_string());
    let played = read.and_then(|text| {
        if TownReplay::is(&text) {
            TownReplay::read(&text).map(|replay| replay.play(true).failed)
        } else {
            Replay::read(&text).map(|replay| replay.play(true).failed)
        }
    });
    match played {
        Err(why) => {
            eprintln!("stepclaw: {}: {why}", path.display());
            2
        }
        Ok(Some(why)) => {
            println!("{why}\n0 passed, 1 failed");
            1
        }
        Ok(None) => {
            println!("1 passed, 0 failed");
            0
        }
    }
}

/// What the seeds have seen together.
#[derive(Default)]
struct Sum {
    steps: u64,
    crashes: u64,
    runs: u64,
    sessions: u64,
    told: [u64; 12],
}

/// One session's seeds, then the town's; a planted fault has its own kind of world.
fn seeds(args: &SimArgs) -> u8 {
    let one = !args.town && !args.sabotage.is_some_and(Sabotage::is_town);
    let town = args.town || args.sabotage.is_none_or(Sabotage::is_town);
    let mut passed = 0u64;
    type World = fn(u64, &SimArgs, &mut Sum) -> Option<String>;
    let worlds: [(bool, &str, World); 2] =
        [(one, "one session", one_seed), (town, "several sessions", town_seed)];
    for (_, name, world) in worlds.into_iter().filter(|(wanted, _, _)| *wanted) {
        let start = Instant::now();
        let mut sum = Sum::default();
        for seed in args.seeds.clone() {
            if let Some(report) = world(seed, args, &mut sum) {
                progress_end();
                println!("{report}\n{passed} passed, 1 failed");
                return 1;
            }
            passed += 1;
            progress(seed - args.seeds.start + 1, args, &sum);
        }
        progress_end();
        let seconds = start.elapsed().as_secs_f64();
        let Sum { steps, crashes, runs, sessions, told } = sum;
        let speed = sessions as f64 / seconds.max(1e-9);
        println!(
            "{name}: {sessions} sessions, {steps} steps, {runs} runs, {crashes} crashes in \
             {seconds:.2} s: {speed:.0} sessions a second"
        );
        if told.iter().any(|n| *n > 0) {
            let told = TownStats::KINDS.iter().zip(told).map(|(kind, n)| format!("{n} {kind}"));
            println!("told: {}", told.collect::<Vec<_>>().join(", "));
        }
    }
    println!("{passed} passed, 0 failed");
    0
}

/// Plays a seed in a world of one session; what to print if it fails.
fn one_seed(seed: u64, args: &SimArgs, sum: &mut Sum) -> Option<String> {
    let outcome = run_seed(seed, !args.no_checks, args.sabotage);
    sum.steps += outcome.stats.steps;
    sum.crashes += outcome.stats.crashes;
    sum.runs += outcome.stats.runs;
    sum.sessions += 1;
    let why = outcome.failed?;
    let setup = outcome.setup;
    let knobs = Knobs { checks: true, sabotage: args.sabotage, setup };
    let moves = shrink(&outcome.moves, knobs, &why);
    let (all, left) = (outcome.moves.len(), moves.len());
    let file = Replay { sabotage: args.sabotage, setup, moves }.write(seed, &why);
    Some(format!("seed {seed} failed: {why}\n{all} moves, shrunk to {left}:\n\n{file}"))
}

/// Plays a seed in a world of several sessions; what to print if it fails.
fn town_seed(seed: u64, args: &SimArgs, sum: &mut Sum) -> Option<String> {
    let outcome = town::run_seed(seed, !args.no_checks, args.sabotage);
    sum.steps += outcome.stats.steps;
    sum.crashes += outcome.stats.crashes;
    sum.runs += outcome.stats.runs;
    sum.sessions += outcome.stats.sessions;
    sum.told.iter_mut().zip(outcome.stats.told).for_each(|(all, n)| *all += n);
    let why = outcome.failed?;
    let setup = outcome.setup;
    let knobs = TownKnobs { setup, sabotage: args.sabotage, checks: true };
    let moves = town::shrink(&outcome.moves, knobs, &why);
    let (all, left) = (outcome.moves.len(), moves.len());
    let file = TownReplay { sabotage: args.sabotage, setup, moves }.write(seed, &why);
    Some(format!("seed {seed} failed: {why}\n{all} moves, shrunk to {left}:\n\n{file}"))
}

fn progress(done: u64, args: &SimArgs, sum: &Sum) {
    if done.is_multiple_of(500) && std::io::stderr().is_terminal() {
        let total = args.seeds.end - args.seeds.start;
        eprint!("\r{done} of {total} seeds, {} steps, {} crashes", sum.steps, sum.crashes);
        let _ = std::io::stderr().flush();
    }
}

fn progress_end() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::{SimArgs, run};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SimArgs,
    }

    /// The command for a script that has the tests built already: its arguments are in `SIM_ARGS`.
    #[test]
    #[ignore = "for scripts"]
    fn as_a_script_asks() {
        let words = std::env::var("SIM_ARGS").unwrap_or_default();
        let line = Line::try_parse_from(["sim"].into_iter().chain(words.split_whitespace()));
        let line = line.unwrap_or_else(|error| panic!("SIM_ARGS: {error}"));
        assert_eq!(run(&line.args), 0, "the verdict");
    }
}
