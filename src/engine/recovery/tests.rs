use super::*;
use crate::base::Rng;

fn candidate(name: &str, kind: CandidateKind, attempts: u8) -> Candidate {
    let run = RunId::new(format!("run-{name}"));
    Candidate { session: name.into(), run, kind, attempts, narrowed: attempts > 1 }
}

fn main_ones(names: &[&str]) -> Vec<Candidate> {
    names.iter().map(|name| candidate(name, CandidateKind::Main, 0)).collect()
}

/// A machine and what it did, in words.
struct Bench(Recovery);

impl Bench {
    fn boot(candidates: Vec<Candidate>) -> (Bench, String) {
        let mut bench = Bench(Recovery::default());
        let said = bench.at(0, Input::Boot(candidates));
        (bench, said)
    }

    fn at(&mut self, ms: u64, input: Input) -> String {
        let before = self.0.clone();
        let (state, acts, refused) = step(before.clone(), input, Millis(ms));
        if let Some(refusal) = refused {
            assert_eq!((state, acts.len()), (before, 0), "a refusal changes nothing");
            return refusal.to_string();
        }
        self.0 = state;
        let words = acts.iter().map(|act| match act {
            Act::Resume { session, attempt, narrowed, .. } => {
                format!("resume {session} {attempt}{}", if *narrowed { " narrowed" } else { "" })
            }
            Act::Tombstone { session, attempts, .. } => format!("tombstone {session} {attempts}"),
            Act::Fail { session, .. } => format!("fail {session}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn due(&self) -> Option<u64> {
        self.0.due().map(|at| at.0)
    }
}

fn ended(session: &str, completed: bool) -> Input {
    Input::Ended { session: session.into(), completed }
}

/// V1, V2: five seconds after boot, one after the other, each watched for a while.
#[test]
fn one_at_a_time() {
    let (mut bench, said) = Bench::boot(main_ones(&["a", "b", "c"]));
    assert_eq!((said.as_str(), bench.due()), ("", Some(5_000)));
    assert_eq!(bench.at(4_999, Input::Tick), "");
    assert_eq!(bench.at(5_000, Input::Tick), "resume a 1");
    assert_eq!(bench.due(), None);
    assert_eq!(bench.at(60_000, Input::Tick), "");
    assert_eq!(bench.at(61_000, Input::Started("a".into())), "");
    assert_eq!((bench.at(70_999, Input::Tick).as_str(), bench.due()), ("", Some(71_000)));
    assert_eq!(bench.at(71_000, Input::Tick), "resume b 1");
    assert!(!bench.0.holds("a") && bench.0.holds("c"));
    assert_eq!(bench.at(71_001, Input::Started("b".into())), "");
    assert_eq!(bench.at(71_002, Input::Started("b".into())), "");
    assert_eq!(bench.at(71_003, ended("b", true)), "resume c 1");
    assert_eq!(bench.at(71_004, ended("c", true)), "");
    assert!(bench.0.is_empty());
}

/// V3, V5: failed attempts wait longer each time, then comes the tombstone. Others go on meanwhile.
#[test]
fn attempts_are_bounded() {
    let (mut bench, _) = Bench::boot(main_ones(&["a", "b"]));
    assert_eq!(bench.at(5_000, Input::Tick), "resume a 1");
    assert_eq!(bench.at(5_001, Input::Refused("a".into())), "resume b 1");
    assert_eq!(bench.at(5_002, ended("b", true)), "");
    assert_eq!(bench.due(), Some(10_001));
    assert_eq!(bench.at(10_001, Input::Tick), "resume a 2");
    assert_eq!(bench.at(10_002, ended("a", false)), "");
    assert_eq!(bench.due(), Some(20_002));
    assert_eq!(bench.at(20_002, Input::Tick), "resume a 3");
    assert_eq!(bench.at(20_003, Input::Refused("a".into())), "tombstone a 3");
    assert!(bench.0.is_empty());
    let waits: Vec<u64> = (0..=9).map(backoff).collect();
    assert_eq!(waits[..6], [5_000, 5_000, 10_000, 20_000, 40_000, 60_000]);
    assert_eq!((waits[9], backoff(255)), (60_000, 60_000));
}

/// V4: a run that has begun a turn has an outcome of its own.
#[test]
fn begun_turns_are_done() {
    let (mut bench, _) = Bench::boot(main_ones(&["a"]));
    assert_eq!(bench.at(5_000, Input::Tick), "resume a 1");
    assert_eq!(bench.at(5_001, Input::Started("a".into())), "");
    assert_eq!(bench.at(5_002, ended("a", false)), "");
    assert!(bench.0.is_empty());
}

/// V5: what was tried often enough before is given up at once; what was tried less goes on from
/// there.
#[test]
fn attempts_are_counted_over_boots() {
    let list = [("a", 3), ("b", 2), ("c", 200)];
    let list = list.map(|(name, n)| candidate(name, CandidateKind::Main, n));
    let (mut bench, said) = Bench::boot(list.to_vec());
    assert_eq!(said, "tombstone a 3, tombstone c 200");
    assert_eq!(bench.at(5_000, Input::Tick), "resume b 3 narrowed");
    assert_eq!(bench.at(5_001, ended("b", false)), "tombstone b 3");
}

/// V6: children get one more chance, jobs and outside harnesses none.
#[test]
fn other_kinds() {
    use CandidateKind::{Acp, Cron, Subagent};
    let list = [("s", Subagent, 0), ("t", Subagent, 1), ("u", Subagent, 0), ("c", Cron, 0)];
    let mut list: Vec<Candidate> = list.map(|(name, k, n)| candidate(name, k, n)).to_vec();
    list.push(candidate("acp", Acp, 0));
    let (mut bench, said) = Bench::boot(list);
    assert_eq!(said, "fail t, fail c, fail acp");
    assert_eq!(bench.at(5_000, Input::Tick), "resume s 1");
    assert_eq!(bench.at(5_001, ended("s", false)), "fail s, resume u 1");
    // What could not be submitted was not interrupted.
    assert_eq!(bench.at(5_002, Input::Refused("u".into())), "");
    assert_eq!(bench.at(10_002, Input::Tick), "resume u 2");
    assert_eq!(bench.at(10_003, Input::Refused("u".into())), "");
    assert_eq!(bench.at(20_003, Input::Tick), "resume u 3");
    assert_eq!(bench.at(20_004, Input::Refused("u".into())), "fail u");
}

/// V7: who takes a conversation over has it, whether it waited or was resumed.
#[test]
fn conversations_are_taken_over() {
    let (mut bench, _) = Bench::boot(main_ones(&["a", "b", "c"]));
    assert_eq!(bench.at(1, Input::Settled("b".into())), "");
    assert_eq!(bench.at(5_000, Input::Tick), "resume a 1");
    assert_eq!(bench.at(5_001, Input::Settled("a".into())), "resume c 1");
    assert!(!bench.0.holds("a") && !bench.0.holds("b"));
    assert_eq!(bench.at(5_002, Input::Started("a".into())), Refusal::NotOurs.to_string());
}

/// V8: nothing begins in a process that stops; what waits is a candidate of the next one.
#[test]
fn a_stopping_process_begins_nothing() {
    let (mut bench, _) = Bench::boot(main_ones(&["a", "b"]));
    assert_eq!(bench.at(5_000, Input::Tick), "resume a 1");
    assert_eq!(bench.at(5_001, Input::Drain), "");
    assert_eq!(bench.at(5_002, ended("a", false)), "");
    assert_eq!((bench.at(99_999, Input::Tick).as_str(), bench.due()), ("", None));
    assert_eq!(bench.0.len(), 2);
}

/// V9: what does not fit is refused by name; two runs of one conversation are one too many.
#[test]
fn refusals_have_names() {
    let (mut bench, said) = Bench::boot(main_ones(&["a", "a"]));
    assert_eq!(said, "fail a");
    assert_eq!(bench.at(1, Input::Boot(vec![])), Refusal::Booted.to_string());
    for input in [Input::Started("a".into()), ended("a", true), Input::Refused("a".into())] {
        assert_eq!(bench.at(1, input), Refusal::NotSubmitted.to_string());
    }
    let unknown = [
        Input::Started("x".into()),
        ended("x", true),
        Input::Refused("x".into()),
        Input::Settled("x".into()),
    ];
    for input in unknown {
        assert_eq!(bench.at(1, input), Refusal::NotOurs.to_string());
    }
    assert_eq!(bench.at(5_000, Input::Tick), "resume a 1");
    assert_eq!(bench.at(5_001, Input::Started("a".into())), "");
    assert_eq!(bench.at(5_002, Input::Refused("a".into())), Refusal::NotOurs.to_string());
    let many: Vec<Candidate> = (0..=RECOVERY_CANDIDATES_MAX)
        .map(|n| candidate(&n.to_string(), CandidateKind::Main, 0))
        .collect();
    let (bench, said) = Bench::boot(many);
    assert_eq!((said.as_str(), bench.0.len()), ("tombstone 10000 0", RECOVERY_CANDIDATES_MAX));
}

/// The world around recovery: what is stored, and what became of everybody.
struct World {
    rng: Rng,
    seed: u64,
    now: u64,
    state: Recovery,
    stored: BTreeMap<Arc<str>, Candidate>,
    ends: BTreeMap<Arc<str>, &'static str>,
    /// The run that was submitted and has neither begun nor ended.
    flying: Option<Arc<str>>,
    resumes: BTreeMap<Arc<str>, u8>,
}

impl World {
    fn feed(&mut self, input: Input) -> Option<Refusal> {
        let (state, acts, refused) = step(self.state.clone(), input, Millis(self.now));
        self.state = state;
        for act in acts {
            match act {
                Act::Resume { session, attempt, .. } => {
                    assert_eq!(self.flying, None, "seed {}: two at once", self.seed);
                    let stored = self.stored.get_mut(&session).unwrap();
                    assert_eq!(attempt, stored.attempts + 1, "seed {}", self.seed);
                    stored.attempts = attempt;
                    *self.resumes.entry(session.clone()).or_default() += 1;
                    self.flying = Some(session);
                }
                Act::Tombstone { session, attempts, .. } => {
                    assert_eq!(attempts, RECOVERY_ATTEMPTS_MAX, "seed {}", self.seed);
                    self.end(&session, "tombstone");
                }
                Act::Fail { session, .. } => self.end(&session, "failed"),
            }
        }
        refused
    }

    fn end(&mut self, session: &Arc<str>, how: &'static str) {
        assert!(self.stored.remove(session).is_some(), "seed {}: {session} {how}", self.seed);
        assert_eq!(self.ends.insert(session.clone(), how), None, "seed {}", self.seed);
    }

    fn reboot(&mut self) {
        self.flying = None;
        self.state = Recovery::default();
        self.feed(Input::Boot(self.stored.values().cloned().collect()));
    }

    /// What happens to the run that was resumed.
    fn answer(&mut self, crashes: u64) {
        let Some(session) = self.flying.clone() else { return };
        if self.rng.below(100) < crashes {
            return self.reboot();
        }
        match self.rng.below(4) {
            0 => {
                self.flying = None;
                assert_eq!(self.feed(Input::Refused(session)), None);
            }
            1 => {
                self.flying = None;
                assert_eq!(self.feed(Input::Started(session.clone())), None);
                // A turn that takes the process with it leaves the run open.
                if self.rng.below(100) < crashes {
                    return self.reboot();
                }
                let watched = self.rng.below(2) == 0;
                self.end(&session, "done");
                self.now += if watched { RECOVERY_OBSERVE_MS } else { 1 };
                let ended = Input::Ended { session, completed: self.rng.below(2) == 0 };
                assert_eq!(self.feed(if watched { Input::Tick } else { ended }), None);
            }
            2 => {
                let completed = self.rng.below(2) == 0;
                if completed {
                    self.end(&session, "done");
                }
                self.flying = None;
                assert_eq!(self.feed(Input::Ended { session, completed }), None);
            }
            3 => {
                self.end(&session, "settled");
                self.flying = None;
                assert_eq!(self.feed(Input::Settled(session)), None);
            }
            _ => unreachable!(),
        }
    }
}

/// V1, V5, V6, V10: whatever happens, with crashes at any moment, nothing runs twice at once,
/// attempts are bounded, and every candidate comes to one end.
#[test]
fn every_candidate_comes_to_one_end() {
    use CandidateKind::{Acp, Cron, Main, Subagent};
    let mut seen: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..10_000 {
        let mut rng = Rng(seed);
        let count = rng.below(8);
        let list = (0..count).map(|n| {
            let kind = [Main, Main, Subagent, Cron, Acp][rng.below(5) as usize];
            candidate(&format!("c{n}"), kind, 0)
        });
        let stored: BTreeMap<_, _> = list.map(|c| (c.session.clone(), c)).collect();
        let all = stored.clone();
        let crashes = [0, 20, 100][rng.below(3) as usize];
        let (now, state, ends, resumes) =
            (0, Recovery::default(), BTreeMap::new(), BTreeMap::new());
        let mut world = World { rng, seed, now, state, stored, ends, flying: None, resumes };
        world.reboot();
        let mut moves = 0;
        while !world.stored.is_empty() || world.flying.is_some() {
            moves += 1;
            assert!(moves < 500, "seed {seed}: it does not end: {:?}", world.state);
            if world.flying.is_some() {
                world.answer(crashes);
            } else if world.rng.below(20) == 0
                && let Some(session) = world.stored.keys().next().cloned()
            {
                world.end(&session, "settled");
                assert_eq!(world.feed(Input::Settled(session)), None);
            } else {
                // Only the time that is asked for passes: `due` must suffice.
                let due = world.state.due().expect("somebody waits, so something is due");
                world.now = world.now.max(due.0);
                assert_eq!(world.feed(Input::Tick), None);
            }
        }
        assert_eq!(world.ends.len(), all.len(), "seed {seed}");
        for (session, candidate) in &all {
            let resumes = world.resumes.get(session).copied().unwrap_or_default();
            assert!(resumes <= RECOVERY_ATTEMPTS_MAX, "seed {seed}");
            let how = world.ends[session];
            *seen.entry(how).or_default() += 1;
            let fits = match candidate.kind {
                Main => how != "failed",
                Subagent => how != "tombstone" && (crashes < 100 || resumes <= 1),
                Cron | Acp => how == "failed" && resumes == 0,
            };
            assert!(fits, "seed {seed}: {candidate:?} {how} {resumes}");
            if crashes == 100 && candidate.kind == Main {
                assert!(how == "tombstone" || how == "settled", "seed {seed}: a crash loop");
            }
        }
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.values().all(|n| *n > 1_000), "{seen:?}");
}
