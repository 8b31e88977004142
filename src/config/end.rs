//! What a text that ends too early still lacks. The parser says only that it ended; the text is
//! read once more, as far as brackets, strings and comments go.

use super::tree::Place;

/// The end of a text.
pub(super) fn place(text: &str) -> Place {
    let line = text.lines().count().max(1);
    (line, text.lines().last().map_or(0, |last| last.chars().count()) + 1)
}

/// Something that was opened, and where.
struct Open {
    what: char,
    at: Place,
}

/// What is missing, and what it would have closed. The text is one at whose end the parser failed:
/// up to there it is in order.
pub(super) fn missing(text: &str) -> String {
    let mut open: Vec<Open> = Vec::new();
    let mut seen = false;
    let (mut line, mut column) = (1, 1);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let at = (line, column);
        (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        let inside = open.last().map(|o| o.what);
        match (inside, c) {
            // What follows the backslash closes nothing.
            (Some('"' | '\''), '\\') => {
                if let Some(escaped) = chars.next() {
                    (line, column) =
                        if escaped == '\n' { (line + 1, 1) } else { (line, column + 1) };
                }
            }
            (Some(quote @ ('"' | '\'')), _) => {
                if c == quote {
                    open.pop();
                }
            }
            (Some('/'), _) => {
                if c == '\n' {
                    open.pop();
                }
            }
            (Some('*'), _) => {
                if c == '*' && chars.next_if_eq(&'/').is_some() {
                    column += 1;
                    open.pop();
                }
            }
            (_, '/') => {
                if let Some(what) = chars.next_if(|next| matches!(next, '/' | '*')) {
                    column += 1;
                    open.push(Open { what, at });
                }
            }
            (_, '{' | '[' | '"' | '\'') => {
                seen = true;
                open.push(Open { what: c, at });
            }
            (_, '}' | ']') => drop(open.pop()),
            (_, _) => seen |= !c.is_whitespace(),
        }
    }
    // A comment to the end of the line is closed by the end of the text.
    open.retain(|open| open.what != '/');
    match open.last() {
        Some(open) => words(open),
        None if seen => "the text ends in the middle of a value".to_owned(),
        None => "there is nothing in it; a config without settings is {}".to_owned(),
    }
}

fn words(open: &Open) -> String {
    let (line, column) = open.at;
    let (what, close) = match open.what {
        '{' => ("{", "}"),
        '[' => ("[", "]"),
        '*' => ("comment", "*/"),
        '"' => ("text", "\""),
        _ => ("text", "'"),
    };
    format!("the text ends too early: the {what} of line {line}, column {column} has no {close}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C2: what a text lacks at its end, and where that was opened.
    #[test]
    fn the_innermost_open_thing_is_named() {
        let cases = [
            ("{", "the { of line 1, column 1 has no }"),
            ("{\n  a: [1, {b: 2}\n", "the [ of line 2, column 6 has no ]"),
            ("{ a: 'x\\' } ", "the text of line 1, column 6 has no '"),
            ("{ a: \"it's", "the text of line 1, column 6 has no \""),
            ("{ a: 1, // }\n /* } * / ", "the comment of line 2, column 2 has no */"),
            ("{ /* } **/ a: 1 // }", "the { of line 1, column 1 has no }"),
            ("{ a: 'x\\\ny', b: [", "the [ of line 2, column 8 has no ]"),
            ("tru", "in the middle of a value"),
            (" // nothing\n", "without settings is {}"),
            ("", "without settings is {}"),
        ];
        for (text, words) in cases {
            let told = missing(text);
            assert!(told.contains(words), "{text}: {told}");
        }
    }
}
