use super::*;
use crate::base::Rng;

fn file(name: &'static str, text: &str) -> File {
    File { name, path: format!("/w/{name}"), found: Found::Text(text.into(), vec![]) }
}

fn missing(name: &'static str) -> File {
    File { name, path: format!("/w/{name}"), found: Found::Missing }
}

/// PR3: who gets what.
#[test]
fn files_are_chosen_by_the_session() {
    let files = |key: &str| Audience::of(key).files().join(" ");
    let all = "AGENTS.md SOUL.md IDENTITY.md USER.md BOOTSTRAP.md MEMORY.md";
    for key in ["agent:main:main", "agent:main:telegram:direct:7", "agent:main:hook:x", "?:"] {
        assert_eq!(files(key), all, "{key}");
    }
    assert_eq!(files("agent:main:subagent:1"), "AGENTS.md");
    assert_eq!(files("agent:main:subagent:1:subagent:2"), "AGENTS.md");
    assert_eq!(files("agent:main:cron:job"), "AGENTS.md SOUL.md IDENTITY.md USER.md");
    assert_eq!(
        files("agent:main:telegram:group:7"),
        "AGENTS.md SOUL.md IDENTITY.md USER.md BOOTSTRAP.md"
    );
    assert!(!Audience::Group.remembers() && Audience::Main.remembers());
}

/// PR4: what is not there is said in a line that counts; what comes and goes is not missed.
#[test]
fn what_is_missing_is_said() {
    let refused = File { found: Found::Refused("it is a directory".into()), ..missing(SOUL) };
    let files = [missing(AGENTS), refused, missing(BOOTSTRAP), missing(MEMORY)];
    let made = assemble(&files, Limits::default());
    let texts: Vec<&str> = made.shown().map(|f| f.text.as_str()).collect();
    assert_eq!(
        texts,
        ["[MISSING] Expected at: /w/AGENTS.md", "[NOT READ] /w/SOUL.md: it is a directory"]
    );
    assert_eq!(made.used, texts[0].len() + texts[1].len());
    assert_eq!(made.files[2].fate, Fate::Absent);
    assert!(!made.truncated && !made.begins());
    assert!(assemble(&[file(BOOTSTRAP, "Begin.")], Limits::default()).begins());
}

/// PR5: blanks at the end do not count; a file of blanks is not shown; one that stands twice
/// counts once.
#[test]
fn what_is_blank_does_not_count() {
    let text = format!("{}\n \n", "x".repeat(20_000));
    let made =
        assemble(&[file(AGENTS, &text), file(SOUL, " \n"), file(AGENTS, "y")], Limits::default());
    assert_eq!(made.files.len(), 2);
    assert_eq!((made.files[0].kept, made.files[0].total), (20_000, 20_000));
    assert_eq!((&made.files[0].fate, &made.files[1].fate), (&Fate::Whole, &Fate::Empty));
    assert!(made.files[0].near() && !made.truncated);
}

/// PR8: the limits of a file, of USER.md, of all together; with little room no further file is
/// begun; USER.md is left out rather than cut for want of room.
#[test]
fn room_is_shared_in_order() {
    let long = "x".repeat(50_000);
    let all: Vec<File> = Audience::Main.files().iter().map(|n| file(n, &long)).collect();
    let made = assemble(&all, Limits::default());
    let sizes: Vec<usize> = made.files.iter().map(|f| units(&f.text)).collect();
    assert!(sizes[..3].iter().all(|n| (19_990..=20_000).contains(n)), "{sizes:?}");
    let fates: Vec<&str> = made.files.iter().map(|f| f.fate.word()).collect();
    assert_eq!(fates, ["cut", "cut", "cut", "left out", "left out", "left out"]);
    let few = [file(USER, &long), file(MEMORY, &long)];
    let made = assemble(&few, Limits { file: 20_000, total: 4_060 });
    let size = |at: usize| units(&made.files[at].text);
    assert!((3_990..=4_000).contains(&size(0)) && made.files[1].fate == Fate::LeftOut);
    let made = assemble(&few, Limits { file: 300, total: 60_000 });
    assert!((290..=300).contains(&units(&made.files[0].text)), "the config lowers it");
    let made = assemble(&few, Limits { file: 20_000, total: 3_900 });
    let fates: Vec<&str> = made.files.iter().map(|f| f.fate.word()).collect();
    assert_eq!(fates, ["left out", "cut"], "it is not cut to the room that is left");
    assert!((3_890..=3_900).contains(&units(&made.files[1].text)));
}

/// PR9: how a file was read is told with it, and is part of what the digest stands for.
#[test]
fn notes_belong_to_what_is_shown() {
    let note = || vec!["2 bytes that are not UTF-8 were replaced".to_owned()];
    let noted = |text: &str| File { found: Found::Text(text.into(), note()), ..missing(SOUL) };
    let made = assemble(&[noted("Be kind.")], Limits::default());
    assert_eq!(made.notes, ["SOUL.md: 2 bytes that are not UTF-8 were replaced"]);
    assert_ne!(made.digest, assemble(&[file(SOUL, "Be kind.")], Limits::default()).digest);
    assert!(assemble(&[noted("")], Limits::default()).notes.is_empty());
}

const PIECES: [&str; 9] =
    ["plain words ", "\n", "- You must not.\n", "😀", "é", "日本", "x", "Never do this.\n", "   "];

fn random(rng: &mut Rng) -> String {
    let count = match rng.below(4) {
        0 => 0,
        1 => rng.below(20),
        2 => rng.below(400),
        _ => rng.below(9_000),
    };
    (0..count).map(|_| PIECES[usize::try_from(rng.below(9)).unwrap()]).collect()
}

/// PR8: whatever the files and the limits, nothing exceeds them, what is said of it is true, and
/// the same files give the same texts.
#[test]
fn no_limit_is_exceeded() {
    let mut rng = Rng(102);
    for _ in 0..400 {
        let files: Vec<File> = Audience::Main
            .files()
            .iter()
            .map(|name| match rng.below(8) {
                0 => missing(name),
                1 => File { found: Found::Refused("why".into()), ..missing(name) },
                _ => file(name, &random(&mut rng)),
            })
            .collect();
        let wide = [30, 200, 2_000, 60_000][usize::try_from(rng.below(4)).unwrap()];
        let file_limit = usize::try_from(rng.below(wide)).unwrap();
        let limits = Limits { file: file_limit, total: usize::try_from(rng.below(wide)).unwrap() };
        let made = assemble(&files, limits);
        assert!(made.used <= limits.total, "{} of {limits:?}", made.used);
        assert_eq!(made.used, made.files.iter().map(|f| units(&f.text)).sum::<usize>());
        for (kept, was) in made.files.iter().zip(&files) {
            let of_file = !matches!(kept.fate, Fate::Missing | Fate::Refused(_));
            assert!(!of_file || units(&kept.text) <= limits.of(kept.name), "{kept:?}");
            assert!(kept.kept <= kept.total, "{kept:?}");
            let Found::Text(text, _) = &was.found else { continue };
            assert_eq!(kept.total, units(text.trim_end()));
            match &kept.fate {
                Fate::Whole => assert_eq!(kept.text, text.trim_end()),
                Fate::Cut => assert!(kept.kept < kept.total && made.truncated, "{kept:?}"),
                Fate::LeftOut => assert!(kept.text.is_empty() && made.truncated, "{kept:?}"),
                Fate::Empty => assert!(text.trim().is_empty()),
                Fate::Missing | Fate::Absent | Fate::Refused(_) => panic!("{kept:?}"),
            }
        }
        assert_eq!(made, assemble(&files, limits));
    }
}
