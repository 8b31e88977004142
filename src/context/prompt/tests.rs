use super::super::bootstrap::{self, File, Found, Limits};
use super::*;
use crate::base::Rng;

fn files(texts: &[(&'static str, &str)]) -> Arc<Bootstrap> {
    let file = |(name, text): &(&'static str, &str)| File {
        name,
        path: format!("/w/{name}"),
        found: Found::Text((*text).into(), vec![]),
    };
    let files: Vec<File> = texts.iter().map(file).collect();
    Arc::new(bootstrap::assemble(&files, Limits::default()))
}

fn facts() -> Stable {
    Stable {
        tools: ["write", "exec", "read"].map(str::to_owned).to_vec(),
        workspace: "/w".into(),
        memory: true,
        bootstrap: files(&[("AGENTS.md", "Be exact."), ("SOUL.md", "Be kind.")]),
        ..Stable::default()
    }
}

fn today() -> Volatile {
    Volatile {
        date: "2026-01-01".into(),
        zone: "UTC".into(),
        silence: true,
        runtime: vec![("session", "agent:main:main".into()), ("model", "t/m".into())],
        ..Volatile::default()
    }
}

fn names(prompt: &Prompt) -> String {
    prompt.each().map(|(layer, ..)| layer.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn made(stable: &Stable, volatile: &Volatile) -> Prompt {
    prompt(Arc::new(prefix(stable)), volatile)
}

/// PR1, PR10: the layers in their order; a fact that is not there adds none.
#[test]
fn layers_have_an_order() {
    let plain = made(&facts(), &today());
    assert_eq!(
        names(&plain),
        "identity, tooling, tool call style, execution bias, safety, runtime context, control, \
         memory, workspace, workspace files, project context, file:AGENTS.md, file:SOUL.md, \
         temporal context, silent replies, runtime"
    );
    let some = |text: &str| Some(text.to_owned());
    let stable = Stable {
        skills: "<available_skills>".into(),
        docs: some("/docs"),
        sandbox: some("a box"),
        reasoning: some("<think>"),
        bootstrap: files(&[("AGENTS.md", &"x".repeat(30_000))]),
        ..facts()
    };
    let volatile = Volatile {
        output: some("short"),
        owner: some("Ann"),
        audience: Audience::Group,
        guidance: some("plain text"),
        extra: some("more"),
        ..today()
    };
    assert_eq!(
        names(&made(&stable, &volatile)),
        "identity, tooling, tool call style, execution bias, safety, runtime context, control, \
         skills, memory, workspace, docs, sandbox, bootstrap notices, workspace files, \
         reasoning format, project context, file:AGENTS.md, temporal context, output directives, \
         silent replies, owner, session, guidance, extra prompt, runtime"
    );
    let text = plain.plain();
    assert!(text.contains("\n- exec\n- read\n- write\n"), "tools are sorted");
    assert!(text.contains("# Project Context\nSpeak and act as SOUL.md"), "{text}");
    assert!(text.contains("\n\n## /w/AGENTS.md\n\nBe exact.\n\n## /w/SOUL.md\n\nBe kind.\n\n"));
    assert!(text.ends_with("Runtime: session=agent:main:main | model=t/m"));
}

/// PR2: what a child gets, and what is left of nothing.
#[test]
fn modes_leave_out() {
    let mode = Mode::of(Audience::Subagent);
    let some = |text: &str| Some(text.to_owned());
    let volatile = Volatile {
        mode,
        owner: some("Ann"),
        output: some("short"),
        extra: some("the task"),
        audience: Audience::Subagent,
        ..today()
    };
    let minimal = made(&Stable { mode, ..facts() }, &volatile);
    for gone in ["memory", "silent replies", "owner", "output directives"] {
        assert!(!minimal.each().any(|(layer, ..)| layer.name == gone), "{gone}");
    }
    assert!(minimal.volatile.contains("## Subagent Context\nthe task"));
    let none =
        made(&Stable { mode: Mode::None, ..facts() }, &Volatile { mode: Mode::None, ..today() });
    assert_eq!(names(&none), "identity, runtime");
    assert!(none.volatile.ends_with("Runtime: model=t/m"));
}

/// PR11: the marker stands once, whatever a file holds; a plain prompt has none.
#[test]
fn the_boundary_stands_once() {
    let text = format!("a {BOUNDARY} b");
    let stable = Stable { bootstrap: files(&[("AGENTS.md", &text)]), ..facts() };
    let prompt = made(&stable, &Volatile { extra: Some(text), ..today() });
    let marked = prompt.marked();
    let (before, after) = marked.split_once(&format!("\n{BOUNDARY}\n")).unwrap();
    assert_eq!((before, after), (&*prompt.stable.text, &*prompt.volatile));
    assert_eq!(marked.matches(BOUNDARY).count(), 1);
    assert!(!prompt.plain().contains(BOUNDARY));
}

fn word(rng: &mut Rng) -> String {
    (0..=rng.below(12)).map(|_| char::from(b'a' + u8::try_from(rng.below(26)).unwrap())).collect()
}

fn maybe(rng: &mut Rng) -> Option<String> {
    (rng.below(2) == 0).then(|| word(rng))
}

fn volatile(rng: &mut Rng) -> Volatile {
    let audiences = [Audience::Main, Audience::Subagent, Audience::Cron, Audience::Group];
    Volatile {
        mode: Mode::Full,
        date: format!("20{}-0{}-11", 10 + rng.below(80), 1 + rng.below(9)),
        zone: word(rng),
        output: maybe(rng),
        silence: rng.below(2) == 0,
        owner: maybe(rng),
        audience: audiences[usize::try_from(rng.below(4)).unwrap()],
        guidance: maybe(rng),
        extra: maybe(rng),
        runtime: vec![("session", word(rng)), ("model", word(rng)), ("shell", word(rng))],
    }
}

fn stable(rng: &mut Rng) -> Stable {
    let tools = ["exec", "write", "ls", "read", "edit"];
    let texts = [("AGENTS.md", word(rng)), ("SOUL.md", word(rng))];
    Stable {
        mode: Mode::Full,
        tools: tools.iter().filter(|_| rng.below(3) > 0).map(|t| (*t).to_owned()).collect(),
        workspace: format!("/{}", word(rng)),
        folder: maybe(rng),
        skills: maybe(rng).unwrap_or_default().into(),
        memory: rng.below(2) == 0,
        docs: maybe(rng),
        sandbox: maybe(rng),
        reasoning: maybe(rng),
        bootstrap: files(&texts.each_ref().map(|(name, text)| (*name, text.as_str()))),
    }
}

/// Each of them changes one stable input.
fn changes(facts: &Stable, rng: &mut Rng) -> Vec<Stable> {
    let new = || Some("something new".to_owned());
    let with = |change: &dyn Fn(&mut Stable)| {
        let mut changed = facts.clone();
        change(&mut changed);
        changed
    };
    let other = format!("new {}", word(rng));
    let mut all = vec![
        with(&|s| s.mode = Mode::Minimal),
        with(&|s| s.tools.push("zoom".into())),
        with(&|s| s.workspace.push_str("/new")),
        with(&|s| s.folder = new()),
        with(&|s| s.skills = "new skills".into()),
        with(&|s| s.docs = new()),
        with(&|s| s.sandbox = new()),
        with(&|s| s.reasoning = new()),
        with(&|s| s.bootstrap = files(&[("AGENTS.md", &other)])),
        with(&|s| s.bootstrap = files(&[])),
    ];
    if facts.has("write") || facts.has("edit") {
        all.push(with(&|s| s.memory = !s.memory));
    }
    // A child remembers nothing, so that its text may be the same without it.
    all.retain(|changed| changed.mode == Mode::Full || facts.memory);
    all
}

/// PR12: whatever is volatile changes, prefix and key stay; whatever is stable changes, both do.
#[test]
fn the_prefix_depends_on_stable_inputs_alone() {
    let mut rng = Rng(101);
    for _ in 0..300 {
        let facts = stable(&mut rng);
        let first = made(&facts, &volatile(&mut rng));
        for _ in 0..4 {
            let mut shuffled = facts.clone();
            shuffled.tools.reverse();
            let again = made(&shuffled, &volatile(&mut rng));
            assert_eq!(first.stable, again.stable);
        }
        for changed in changes(&facts, &mut rng) {
            let other = prefix(&changed);
            let same_mode = changed.mode == facts.mode;
            assert_ne!(first.stable.key, other.key, "{changed:?}");
            let writes = facts.has("write") || facts.has("edit");
            if same_mode || writes {
                assert_ne!(first.stable.text, other.text, "{changed:?}");
            }
        }
    }
}

/// PR14: what is remembered tells which layers are others.
#[test]
fn an_outline_tells_what_changed() {
    let one = Outline::of(&made(&facts(), &today()));
    assert_eq!(diff(&one, &one), []);
    let stable = Stable { bootstrap: files(&[("AGENTS.md", "Be very exact.")]), ..facts() };
    let volatile = Volatile { extra: Some("x".into()), silence: false, ..today() };
    let two = Outline::of(&made(&stable, &volatile));
    let changes = diff(&one, &two);
    let names: Vec<String> = changes
        .iter()
        .map(|change| match change {
            Change::Added(name, chars) => format!("+{name} {chars}"),
            Change::Removed(name, _) => format!("-{name}"),
            Change::Changed(name, before, now) => format!("{name} {before} {now}"),
        })
        .collect();
    assert_eq!(
        names,
        [
            "project context 89 17",
            "file:AGENTS.md 26 31",
            "+extra prompt 25",
            "-file:SOUL.md",
            "-silent replies"
        ]
    );
    let text = serde_json::to_string(&two).unwrap();
    assert_eq!(serde_json::from_str::<Outline>(&text).unwrap(), two);
    assert!(!text.contains("exact"), "no word of it");
}
