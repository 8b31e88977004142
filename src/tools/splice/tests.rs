use super::*;
use crate::base::Rng;

fn edits(list: &[(&str, &str)]) -> Vec<Edit> {
    list.iter().map(|(old, new)| Edit { old: (*old).into(), new: (*new).into() }).collect()
}

fn text(original: &str, list: &[(&str, &str)]) -> String {
    splice(original, &edits(list)).map(|s| s.text).unwrap_or_else(|e| format!("error: {e}"))
}

/// tools#9: all edits are located in the original.
#[test]
fn edits_do_not_see_each_other() {
    assert_eq!(text("a b c", &[("a", "b"), ("b", "a")]), "b a c");
    assert_eq!(text("ab", &[("b", "2"), ("a", "1")]), "12");
    assert_eq!(text("one\ntwo\n", &[("one\n", "")]), "two\n");
}

#[test]
fn each_error_is_its_own() {
    let error = |original: &str, list: &[(&str, &str)]| splice(original, &edits(list)).unwrap_err();
    assert_eq!(error("a", &[]), SpliceError::None);
    assert_eq!(error("a", &[("a", "b"), ("", "x")]), SpliceError::Empty(1));
    assert_eq!(error("a b a", &[("a", "b")]), SpliceError::Many(0, 2));
    assert_eq!(error("aaa", &[("aa", "b")]), SpliceError::Many(0, 2));
    assert_eq!(error("abc", &[("bc", "x"), ("ab", "y")]), SpliceError::Overlap(0, 1));
    assert_eq!(error("a", &[("a", "a")]), SpliceError::NoChange);
    let many = "x".repeat(5_000);
    let text = error(&many, &[("x", "")]).to_string();
    assert!(text.contains("occurs at least 1000 times"), "{text}");
    assert!(matches!(error("x  y", &[("  ", " "), ("\u{a0}", "z")]), SpliceError::NotFound(1, _)));
}

#[test]
fn nearest_lines_are_named() {
    let original = "fn alpha() {}\nfn beta() {}\n\nstruct Q;\n";
    let error = splice(original, &edits(&[("fn alpha( ) { }\n", "x")])).unwrap_err();
    let SpliceError::NotFound(0, near) = &error else { panic!("{error}") };
    assert_eq!(near[0], (1, "fn alpha() {}".to_owned()));
    assert!(near.len() <= 3 && !near.iter().any(|(_, line)| line == "struct Q;"));
    assert!(error.to_string().contains("\n  1: fn alpha() {}"));
}

#[test]
fn line_endings_and_mark_are_kept() {
    let original = "\u{feff}one\r\ntwo\r\nthree\r\n";
    assert_eq!(text(original, &[("one\ntwo", "1\n2")]), "\u{feff}1\r\n2\r\nthree\r\n");
    assert_eq!(text(original, &[("\ntwo\n", "\n")]), "\u{feff}one\r\nthree\r\n");
    assert_eq!(text(original, &[("two\r\n", "")]), "\u{feff}one\r\nthree\r\n");
    let mixed = "a\r\nb\nc\nd\n";
    assert_eq!(text(mixed, &[("c", "x\r\ny")]), "a\r\nb\nx\ny\nd\n");
}

#[test]
fn tolerant_search_only_locates() {
    let original = "say \u{201c}hi\u{201d}  \nnext\u{a0}line \u{2014} end\n\u{fb01}x";
    let want = "SAID\nnext\u{a0}line \u{2014} end\n\u{fb01}x";
    assert_eq!(text(original, &[("say \"hi\"\n", "SAID\n")]), want);
    let spliced = splice(original, &edits(&[("next line - end", "END")])).unwrap();
    assert_eq!(spliced.tolerant, 1);
    assert_eq!(spliced.text, "say \u{201c}hi\u{201d}  \nEND\n\u{fb01}x");
    assert!(text(original, &[("ix", "?")]).starts_with("error"), "never half a ligature");
    assert_eq!(text(original, &[("fix", "?")]), original.replace("\u{fb01}x", "?"));
    assert_eq!(text("e\u{301}t", &[("\u{e9}t", "x")]), "x");
    assert_eq!(text("\u{e9}t", &[("e\u{301}t", "x")]), "x");
    assert_eq!(text("\u{ff76}\u{ff9e}!", &[("\u{30ac}", "ga")]), "ga!");
    assert_eq!(text("a\u{2019}s\nb", &[("a's  ", "x")]), "x\nb");
    assert!(text("a\u{2019}s b", &[("a's  ", "x")]).starts_with("error"));
    assert_eq!(text("\u{2018}q\u{2019} 'q'", &[("'q'", "x")]), "\u{2018}q\u{2019} x");
}

/// Normalising piece by piece is normalising the whole.
#[test]
fn pieces_join_to_the_whole() {
    let alphabet: Vec<char> =
        "aé\u{301}\u{327}\u{1100}\u{1161}\u{11a8}\u{ff76}\u{ff9e}\u{fb01}\u{bc6}\u{bd7}\u{b4}\r\n "
            .chars()
            .collect();
    let mut rng = Rng(5);
    for _ in 0..2_000 {
        let count = rng.below(12);
        let text: String =
            (0..count).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect();
        let joined: String = pieces(&text).flat_map(|(_, piece)| piece.nfkc()).collect();
        assert_eq!(joined, text.nfkc().collect::<String>(), "{text:?}");
    }
}

#[test]
fn diffs_name_the_first_changed_line() {
    let diff = diff("f.txt", "a\nb\nc\n", "a\nB\nc\n").unwrap();
    assert_eq!(diff.first_changed_line, Some(2));
    assert_eq!(diff.diff, " 1 a\n-2 b\n+2 B\n 3 c\n");
    assert!(diff.patch.starts_with("--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"));
    assert_eq!(super::diff("f", "a", &"x".repeat(crate::tools::diff::BYTES_MAX + 1)), None);
    assert_eq!(super::diff("f", "a", &"\n".repeat(crate::tools::diff::LINES_MAX + 1)), None);
}
