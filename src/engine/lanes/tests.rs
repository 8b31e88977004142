use super::*;
use crate::base::Rng;
use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// One step of work, for the test that bounds them.
pub(super) fn count() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

const NORMAL: Priority = Priority::Normal;

fn ask(lanes: &mut Lanes, n: u64, session: &str, lane: Lane) {
    lanes.ask(Ticket(n), session, lane, None, NORMAL, Millis(n)).unwrap();
}

fn granted(lanes: &mut Lanes) -> Vec<u64> {
    lanes.grants().into_iter().map(|t| t.0).collect()
}

fn small() -> Caps {
    Caps {
        main: 2,
        subagent: 2,
        active_memory: 1,
        cron: 1,
        cron_nested: 3,
        nested: 1,
        background: 2,
        hooks_reserved: true,
    }
}

/// N1: first the conversation, then the lane; what waits for the lane holds its conversation only.
#[test]
fn a_conversation_runs_one_at_a_time() {
    let mut lanes = Lanes::new(small());
    for (n, session) in [(1, "a"), (2, "session:a"), (3, "b"), (4, "c"), (5, "")] {
        ask(&mut lanes, n, session, Lane::Main);
    }
    assert_eq!(granted(&mut lanes), [1, 3]);
    assert!(lanes.grants().is_empty());
    assert_eq!(lanes.place(Ticket(2)), Some(Place::Session { ahead: 0 }));
    assert_eq!(lanes.place(Ticket(4)), Some(Place::Lane { ahead: 0 }));
    assert_eq!(lanes.place(Ticket(5)), Some(Place::Lane { ahead: 1 }));
    assert_eq!(lanes.place(Ticket(1)), Some(Place::Holds));
    assert_eq!(lanes.place(Ticket(9)), None);
    assert_eq!(lanes.holder("a"), Some(Ticket(1)));
    assert_eq!(lanes.holder("main"), Some(Ticket(5)));
    assert!(lanes.release(Ticket(1)) && !lanes.release(Ticket(1)) && !lanes.release(Ticket(2)));
    // The conversation's next is behind those that came to the lane before.
    assert_eq!(granted(&mut lanes), [4]);
    assert!(lanes.cancel(Ticket(5)) && !lanes.cancel(Ticket(4)) && !lanes.cancel(Ticket(5)));
    assert!(lanes.release(Ticket(3)));
    assert_eq!(granted(&mut lanes), [2]);
    assert_eq!((lanes.len(), lanes.holder("b")), (2, None));
}

/// N1: a cancelled holder of a conversation gives it to the next.
#[test]
fn cancelling_gives_way() {
    let mut lanes = Lanes::new(small());
    ask(&mut lanes, 1, "x", Lane::Cron);
    ask(&mut lanes, 2, "y", Lane::Cron);
    ask(&mut lanes, 3, "y", Lane::Main);
    assert_eq!(granted(&mut lanes), [1]);
    assert!(lanes.cancel(Ticket(2)));
    assert_eq!(granted(&mut lanes), [3]);
    assert!(lanes.release(Ticket(1)) && lanes.release(Ticket(3)));
    assert!(lanes.is_empty() && lanes.seats.is_empty() && lanes.lines.is_empty());
    assert!(lanes.notices.is_empty());
}

/// N2, N3: names and capacities.
#[test]
fn lanes_are_named() {
    for lane in Lane::KNOWN {
        assert_eq!(Lane::parse(lane.name()), Ok(lane.clone()));
    }
    assert_eq!(Lane::parse(" "), Ok(Lane::Main));
    assert_eq!(Lane::parse("cron-nested"), Ok(Lane::CronNested));
    assert_eq!(Lane::parse("cron"), Ok(Lane::Cron));
    assert_eq!(Lane::resolve("cron"), Ok(Lane::CronNested));
    assert_eq!(Lane::resolve("").map(|l| l.name().to_owned()), Ok("main".into()));
    assert_eq!(Lane::resolve("mine"), Ok(Lane::Named("mine".into())));
    assert_eq!(Lane::parse(&"x".repeat(65)), Err(LaneRefusal::Name));
    assert_eq!([0, 1, 2, 4, 100].map(|n| Caps::for_cpus(n).main), [8, 8, 8, 16, 400]);
    assert_eq!(Caps::for_cpus(usize::MAX).main, u16::MAX);
    let caps = Caps::default();
    let of = |lane: Lane| caps.of(&lane);
    assert_eq!(of(Lane::Subagent), Some(8));
    assert_eq!(of(Lane::Background), Some(3));
    assert_eq!(of(Lane::Nested), Some(1));
    assert_eq!(of(Lane::SystemAgent), None);
    assert_eq!(of(Lane::Named("x".into())), Some(1));
}

/// N2: a refusal changes nothing.
#[test]
fn refusals_change_nothing() {
    let mut lanes = Lanes::new(small());
    ask(&mut lanes, 1, "a", Lane::Main);
    let before = lanes.clone();
    let long: Arc<str> = "x".repeat(600).into();
    let mut no = |n, session: &str, lane, owner: Option<Arc<str>>| {
        lanes.ask(Ticket(n), session, lane, owner, NORMAL, Millis(0)).unwrap_err()
    };
    assert_eq!(no(1, "b", Lane::Main, None), LaneRefusal::Known);
    assert_eq!(no(2, &long, Lane::Main, None), LaneRefusal::Session);
    assert_eq!(no(2, "b", Lane::Subagent, Some(long.clone())), LaneRefusal::Session);
    assert_eq!(no(2, "b", Lane::Named(long.clone()), None), LaneRefusal::Name);
    assert_eq!(lanes, before);
    assert!(lanes.ask(Ticket(2), "b", Lane::Main, Some(long), NORMAL, Millis(0)).is_ok());
    for n in 3..=LANE_TICKETS_MAX as u64 {
        ask(&mut lanes, n, "c", Lane::Main);
    }
    let refused = lanes.ask(Ticket(u64::MAX), "c", Lane::Main, None, NORMAL, Millis(0));
    assert_eq!(refused, Err(LaneRefusal::Full));
}

/// N4: priorities, and the order of coming inside each, in both lanes.
#[test]
fn priorities_go_first() {
    let mut lanes = Lanes::new(Caps { main: 1, ..small() });
    let order = [Priority::Background, NORMAL, Priority::Foreground, NORMAL, Priority::Foreground];
    ask(&mut lanes, 0, "s", Lane::Main);
    for (n, priority) in order.into_iter().enumerate() {
        let n = n as u64 + 1;
        lanes.ask(Ticket(n), "s", Lane::Main, None, priority, Millis(0)).unwrap();
        let other = n.to_string();
        lanes.ask(Ticket(n + 10), &other, Lane::Main, None, priority, Millis(0)).unwrap();
    }
    let mut seen = Vec::new();
    loop {
        let now = granted(&mut lanes);
        let Some(first) = now.first() else { break };
        assert!(lanes.release(Ticket(*first)));
        seen.extend(now);
    }
    let mut session = seen.clone();
    session.retain(|n| *n < 10);
    assert_eq!(session, [0, 3, 5, 2, 4, 1]);
    seen.retain(|n| *n > 10);
    assert_eq!(seen, [13, 15, 12, 14, 11]);
}

/// N5: children are counted by their parent's owner, so that a tree of them never stands still.
#[test]
fn children_do_not_eat_their_parents() {
    let mut lanes = Lanes::new(small());
    let child = |lanes: &mut Lanes, n: u64, owner: u64| {
        let owner: Arc<str> = owner.to_string().into();
        let session = format!("child-{n}");
        lanes.ask(Ticket(n), &session, Lane::Subagent, Some(owner), NORMAL, Millis(0)).unwrap();
    };
    // Every run waits for three children, five deep: with one bound for all, nothing could end.
    let mut tree: Vec<(u64, u64)> = vec![(1, 0)];
    let mut next = 2;
    for depth in 0..4 {
        let from = tree.len() - 3_usize.pow(depth);
        let parents = tree[from..].to_vec();
        for (parent, _) in parents {
            tree.extend((0..3).map(|i| (next + i, parent)));
            next += 3;
        }
    }
    child(&mut lanes, 1, 0);
    let mut open: BTreeSet<u64> = BTreeSet::new();
    let mut ended: BTreeSet<u64> = BTreeSet::new();
    while ended.len() < tree.len() {
        let new = granted(&mut lanes);
        for n in &new {
            open.insert(*n);
            tree.iter().filter(|(_, p)| p == n).for_each(|(c, p)| child(&mut lanes, *c, *p));
        }
        let done = |n: &u64| tree.iter().all(|(c, p)| p != n || ended.contains(c));
        let finished: Vec<u64> = open.iter().copied().filter(done).collect();
        assert!(!new.is_empty() || !finished.is_empty(), "it stands still");
        for n in finished {
            assert!(open.remove(&n) && ended.insert(n) && lanes.release(Ticket(n)));
        }
    }
    assert!(lanes.is_empty() && lanes.lines.is_empty());
}

/// N6: work inside jobs leaves one slot to hooks, if that is on; else they take turns.
#[test]
fn hooks_keep_a_slot() {
    let fill = |reserved| {
        let mut lanes = Lanes::new(Caps { hooks_reserved: reserved, ..small() });
        for n in 1..=4 {
            ask(&mut lanes, n, &n.to_string(), Lane::CronNested);
        }
        for n in 11..=13 {
            ask(&mut lanes, n, &n.to_string(), Lane::HookDispatch);
        }
        lanes
    };
    let mut lanes = fill(true);
    assert_eq!(granted(&mut lanes), [1, 2, 11]);
    assert!(lanes.release(Ticket(11)));
    assert_eq!(granted(&mut lanes), [12]);
    assert!(lanes.release(Ticket(1)));
    assert_eq!(granted(&mut lanes), [3]);
    let mut lanes = fill(false);
    assert_eq!(granted(&mut lanes), [1, 2, 3]);
    // A hook's end lets nested work go on, and the other way round.
    assert!(lanes.release(Ticket(1)) && lanes.release(Ticket(2)));
    assert_eq!(granted(&mut lanes), [4, 11]);
    let mut lanes = Lanes::new(Caps { cron_nested: 1, ..small() });
    ask(&mut lanes, 1, "a", Lane::CronNested);
    assert_eq!(granted(&mut lanes), [1]);
}

/// N3: work inside a job does not wait for the slot that the job holds.
#[test]
fn jobs_do_not_wait_for_themselves() {
    let mut lanes = Lanes::new(small());
    ask(&mut lanes, 1, "job", Lane::parse("cron").unwrap());
    ask(&mut lanes, 2, "inner", Lane::resolve("cron").unwrap());
    assert_eq!(granted(&mut lanes), [1, 2]);
}

/// N7: who waits for long is named once.
#[test]
fn long_waits_are_told_once() {
    let mut lanes = Lanes::new(small());
    assert_eq!(lanes.due(), None);
    for n in 1..=5 {
        ask(&mut lanes, n, "s", Lane::Main);
    }
    assert_eq!(granted(&mut lanes), [1]);
    assert_eq!(lanes.due(), Some(Millis(2_002)));
    assert_eq!(lanes.waiting_notice(Millis(2_001)), []);
    assert_eq!(lanes.waiting_notice(Millis(2_003)), [(Ticket(2), 2_001), (Ticket(3), 2_000)]);
    assert_eq!(lanes.waiting_notice(Millis(2_003)), []);
    assert!(lanes.cancel(Ticket(4)));
    assert_eq!(lanes.due(), Some(Millis(2_005)));
    assert_eq!(lanes.waiting_notice(Millis(9_000)), [(Ticket(5), 8_995)]);
    assert_eq!(lanes.due(), None);
}

/// N2: smaller capacities stop nothing, larger ones begin at once.
#[test]
fn capacities_change() {
    let mut lanes = Lanes::new(small());
    for n in 1..=6 {
        ask(&mut lanes, n, &n.to_string(), Lane::Main);
    }
    assert_eq!(granted(&mut lanes), [1, 2]);
    lanes.set_caps(Caps { main: 0, ..small() });
    assert!(lanes.release(Ticket(1)));
    assert!(lanes.grants().is_empty());
    assert!(lanes.release(Ticket(2)));
    assert_eq!(granted(&mut lanes), [3]);
    lanes.set_caps(Caps { main: 3, ..small() });
    assert_eq!(granted(&mut lanes), [4, 5]);
}

/// The same rules, written down without any index.
struct Plain {
    caps: Caps,
    all: Vec<PlainWork>,
    came: u64,
}

#[derive(Clone)]
struct PlainWork {
    ticket: u64,
    session: u64,
    line: Line,
    priority: Priority,
    came: u64,
    stage: u8,
}

const WAITS: u8 = 0;
const LINED: u8 = 1;
const RUNS: u8 = 2;

impl Plain {
    fn next(&mut self, session: u64) {
        if self.all.iter().any(|w| w.session == session && w.stage != WAITS) {
            return;
        }
        self.came += 1;
        let waiting = self.all.iter_mut().filter(|w| w.session == session);
        if let Some(first) = waiting.min_by_key(|w| (w.priority, w.came)) {
            (first.stage, first.came) = (LINED, self.came);
        }
    }

    fn runs(&self, line: &Line) -> usize {
        self.all.iter().filter(|w| w.stage == RUNS && w.line == *line).count()
    }

    fn free(&self, line: &Line) -> bool {
        let both = self.runs(&line_of(Lane::CronNested)) + self.runs(&line_of(Lane::HookDispatch));
        let below = |cap: u16| self.runs(line) < usize::from(cap);
        match line.lane {
            Lane::Main => below(self.caps.main),
            Lane::Subagent => below(self.caps.subagent),
            Lane::ActiveMemory => below(self.caps.active_memory),
            Lane::Cron => below(self.caps.cron),
            Lane::CronNested => {
                let kept = u16::from(self.caps.hooks_reserved);
                both < usize::from(self.caps.cron_nested) && below(self.caps.cron_nested - kept)
            }
            Lane::HookDispatch => both < usize::from(self.caps.cron_nested),
            Lane::Nested | Lane::Named(_) => below(1),
            Lane::Background => below(self.caps.background),
            Lane::SystemAgent => true,
        }
    }

    fn grants(&mut self) -> Vec<u64> {
        let mut granted = Vec::new();
        loop {
            let open = self.all.iter().enumerate();
            let open = open.filter(|(_, w)| w.stage == LINED && self.free(&w.line));
            let Some((at, _)) = open.min_by_key(|(_, w)| (w.priority, w.came)) else { break };
            self.all[at].stage = RUNS;
            granted.push(self.all[at].ticket);
        }
        granted
    }
}

fn some_caps(rng: &mut Rng) -> Caps {
    let mut n = || 2 + rng.below(2) as u16;
    let (main, subagent, active_memory, cron) = (n(), n(), n(), n());
    let (cron_nested, nested, background) = (n(), 1, n());
    let hooks_reserved = rng.below(2) == 0;
    Caps { main, subagent, active_memory, cron, cron_nested, nested, background, hooks_reserved }
}

/// N1, N2, N4, N5, N6, N8: on random scripts the lanes do what the plain rules say, no
/// conversation runs twice, and nothing waits while there is room for it.
#[test]
fn random_scripts_keep_the_rules() {
    for seed in 0..10_000 {
        let mut rng = Rng(seed);
        let caps = some_caps(&mut rng);
        let mut lanes = Lanes::new(caps);
        let mut plain = Plain { caps, all: Vec::new(), came: 0 };
        let sessions = 1 + rng.below(12);
        for n in 0..30 + rng.below(60) {
            match rng.below(20) {
                0..=9 => {
                    let kinds = Lane::KNOWN.len() as u64;
                    let lane = usize::try_from(rng.below(kinds + 2)).unwrap();
                    let named = Lane::Named(format!("own-{}", lane % 2).into());
                    let lane = Lane::KNOWN.get(lane).cloned().unwrap_or(named);
                    let owner: Arc<str> = rng.below(2).to_string().into();
                    let priorities = [Priority::Foreground, NORMAL, Priority::Background];
                    let priority = priorities[rng.below(3) as usize];
                    let session = rng.below(sessions);
                    let name = session.to_string();
                    let bound = (lane == Lane::Subagent).then(|| owner.clone());
                    let line = Line { lane: lane.clone(), owner: bound };
                    let asked = lanes.ask(Ticket(n), &name, lane, Some(owner), priority, Millis(n));
                    assert_eq!(asked, Ok(()));
                    plain.came += 1;
                    let came = plain.came;
                    let stage = WAITS;
                    plain.all.push(PlainWork { ticket: n, session, line, priority, came, stage });
                    plain.next(session);
                }
                10..=12 => assert_eq!(granted(&mut lanes), plain.grants(), "seed {seed}"),
                13 => {
                    plain.caps = some_caps(&mut rng);
                    lanes.set_caps(plain.caps);
                }
                14..=19 => leave(&mut rng, &mut lanes, &mut plain),
                _ => unreachable!(),
            }
        }
        finish(seed, &mut lanes, &mut plain);
    }
}

fn leave(rng: &mut Rng, lanes: &mut Lanes, plain: &mut Plain) {
    if plain.all.is_empty() {
        return;
    }
    let at = usize::try_from(rng.below(plain.all.len() as u64)).unwrap();
    let is = plain.all[at].clone();
    let ticket = Ticket(is.ticket);
    let release = rng.below(3) > 0;
    let left = if release { lanes.release(ticket) } else { lanes.cancel(ticket) };
    assert_eq!(left, release == (is.stage == RUNS));
    if left {
        plain.all.remove(at);
        plain.next(is.session);
    }
}

/// Everything is granted and ended; on the way the invariants are looked at as such.
fn finish(seed: u64, lanes: &mut Lanes, plain: &mut Plain) {
    loop {
        let running: BTreeSet<u64> =
            plain.all.iter().filter(|w| w.stage == RUNS).map(|w| w.ticket).collect();
        let now = granted(lanes);
        assert_eq!(now, plain.grants(), "seed {seed}");
        for work in &plain.all {
            let same = plain.all.iter().filter(|w| w.session == work.session && w.stage != WAITS);
            assert_eq!(same.count(), 1, "seed {seed}");
            let place = lanes.place(Ticket(work.ticket)).unwrap();
            let right = match place {
                Place::Session { .. } => work.stage == WAITS,
                Place::Lane { .. } => work.stage == LINED && !plain.free(&work.line),
                Place::Holds => work.stage == RUNS,
            };
            assert!(right, "seed {seed}: {place:?}");
        }
        if plain.all.is_empty() {
            break;
        }
        assert!(!now.is_empty() || !running.is_empty(), "seed {seed}: it stands still");
        let ends: Vec<PlainWork> = plain.all.iter().filter(|w| w.stage == RUNS).cloned().collect();
        for work in ends {
            assert!(lanes.release(Ticket(work.ticket)));
            plain.all.retain(|w| w.ticket != work.ticket);
            plain.next(work.session);
        }
    }
    assert!(lanes.seats.is_empty() && lanes.lines.is_empty() && lanes.notices.is_empty());
}

/// N9: the cost is that of what moves, not of what waits.
#[test]
fn fifty_thousand_tickets_cost_a_few_steps_each() {
    let total = 50_000;
    let mut lanes = Lanes::new(Caps::for_cpus(4));
    STEPS.with(|steps| steps.set(0));
    let names: Vec<String> = (0..1_000).map(|n| format!("agent:main:irc:direct:{n}")).collect();
    for n in 0..total {
        let session = &names[usize::try_from(n % 1_000).unwrap()];
        let lane = [Lane::Main, Lane::Background, Lane::Subagent][(n % 3) as usize].clone();
        let owner: Arc<str> = (n % 100).to_string().into();
        lanes.ask(Ticket(n), session, lane, Some(owner), NORMAL, Millis(n)).unwrap();
        // An answer at every question: what cannot move costs nothing.
        if n % 2 == 0 {
            for ticket in lanes.grants() {
                if ticket.0 % 7 == 0 {
                    assert!(lanes.release(ticket));
                }
            }
        }
    }
    let mut running: Vec<Ticket> = (0..total).map(Ticket).filter(|t| holds(&lanes, *t)).collect();
    let mut at = 0;
    while !lanes.is_empty() {
        running.extend(lanes.grants());
        assert!(lanes.release(running[at]));
        at += 1;
    }
    let steps = STEPS.with(Cell::get);
    assert!(steps > total && steps < 8 * total, "{steps} steps for {total} tickets");
}

fn holds(lanes: &Lanes, ticket: Ticket) -> bool {
    lanes.work.get(&ticket).is_some_and(|work| work.stage == Stage::Holds)
}
