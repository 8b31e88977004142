//! How two texts differ, for people and as a patch. One algorithm over one type of lines: the
//! crate's convenience layer would bring every algorithm for every type into the program.

use similar::algorithms::{Capture, Compact, Replace, histogram};
use similar::{DiffOp, DiffTag, group_diff_ops};
use std::fmt::Write as _;

/// Largest text for which a diff is made, bytes (tools#4).
pub const BYTES_MAX: usize = 1 << 20;
/// Most lines for which a diff is made.
pub const LINES_MAX: usize = 20_000;
/// Unchanged lines around a change.
const AROUND: usize = 3;

/// How two texts differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    /// For people: changed lines with their numbers and some around them.
    pub diff: String,
    /// In unified form.
    pub patch: String,
    /// The first line of the new text that is not in the old one at its place, from 1.
    pub first_changed_line: Option<usize>,
}

/// The diff of two texts; none where they are too large to be worth one.
#[must_use]
pub fn diff(path: &str, old: &str, new: &str) -> Option<Diff> {
    let large = |text: &str| text.len() > BYTES_MAX || text.lines().count() > LINES_MAX;
    if large(old) || large(new) {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let mut out = Diff { patch: format!("--- {path}\n+++ {path}\n"), ..Diff::default() };
    for group in group_diff_ops(ops(&old, &new), AROUND) {
        if !out.diff.is_empty() {
            out.diff.push_str("...\n");
        }
        hunk_head(&group, &mut out.patch);
        for op in &group {
            let (tag, old_range, new_range) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                for (i, j) in old_range.zip(new_range) {
                    line(' ', old[i], j, &mut out);
                }
                continue;
            }
            let first = if new_range.is_empty() { old_range.start } else { new_range.start };
            out.first_changed_line.get_or_insert(first + 1);
            for i in old_range {
                line('-', old[i], i, &mut out);
            }
            for j in new_range {
                line('+', new[j], j, &mut out);
            }
        }
    }
    Some(out)
}

fn ops(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    // The hooks only gather: they cannot fail.
    let Ok(()) = histogram::diff(&mut hook, old, 0..old.len(), new, 0..new.len());
    hook.into_inner().into_inner().into_ops()
}

/// `@@ -first,count +first,count @@`, counted from 1; an empty side names the line before it.
fn hunk_head(group: &[DiffOp], patch: &mut String) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let side = |start: usize, end: usize| match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    };
    let old = side(first.old_range().start, last.old_range().end);
    let new = side(first.new_range().start, last.new_range().end);
    let _ = writeln!(patch, "@@ -{old} +{new} @@");
}

fn line(sign: char, text: &str, index: usize, out: &mut Diff) {
    let shown = text.trim_end_matches(['\n', '\r']);
    let _ = writeln!(out.diff, "{sign}{} {shown}", index + 1);
    let _ = write!(out.patch, "{sign}{text}");
    if !text.ends_with('\n') {
        out.patch.push_str("\n\\ No newline at end of file\n");
    }
}

/// The texts that are most like a wanted one, at least so much, the best first.
#[must_use]
pub fn close<'a>(wanted: &str, texts: &[&'a str], most: usize, likeness: f32) -> Vec<&'a str> {
    let wanted: Vec<char> = wanted.chars().collect();
    let mut found: Vec<(f32, &str)> = texts
        .iter()
        .map(|text| (alike(&wanted, &text.chars().collect::<Vec<_>>()), *text))
        .filter(|(like, _)| *like >= likeness)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    found.into_iter().take(most).map(|(_, text)| text).collect()
}

/// One minus the share of characters that must be changed to make one text of the other.
fn alike(a: &[char], b: &[char]) -> f32 {
    let longest = a.len().max(b.len());
    if longest == 0 {
        return 1.0;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    1.0 - row[b.len()] as f32 / longest as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_in_unified_form() {
        let found = diff("f", "a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nE\nf\ng").unwrap();
        let want = "--- f\n+++ f\n@@ -2,5 +2,6 @@\n b\n c\n d\n-e\n+E\n f\n+g\n\
                    \\ No newline at end of file\n";
        assert_eq!(found.patch, want);
        assert_eq!(found.first_changed_line, Some(5));
        assert_eq!(diff("f", "", "x\n").unwrap().patch, "--- f\n+++ f\n@@ -0,0 +1 @@\n+x\n");
    }

    #[test]
    fn close_names_are_the_best_first() {
        let names = ["main.rs", "mian.rs", "lib.rs", "zebra"];
        assert_eq!(close("mains.rs", &names, 3, 0.6), ["main.rs", "mian.rs"]);
        assert_eq!(alike(&[], &[]), 1.0);
    }
}
