//! Configuration files of derived metrics (pmLoadDerivedConfig(3)).

use super::{Expression, ExpressionError, Flaw, Problem};

/// Returns the definitions in a text with the number of the line on which each starts: a line is
/// `name = expression`, and continues after a backslash at its end.
///
/// Empty lines, comments from `#` on, and help texts (`name(oneline) = text`, or a
/// quoted text of several lines) are skipped.
///
/// ```
/// let text = "# shares\nfree = 100 * \\\n mem.free / mem.total\nfree(oneline) = in per cent\n";
/// let all = pcp_archive::replay::expression::definitions(text);
/// let (line, Ok(free)) = &all[0] else { panic!() };
/// assert_eq!((*line, free.name(), all.len()), (2, "free", 1));
/// ```
pub fn definitions(text: &str) -> Vec<(usize, Result<Expression, ExpressionError>)> {
    let mut definitions = Vec::new();
    let mut lines = text.lines();
    let mut number = 0;
    let mut next_line = || {
        number += 1;
        lines.next().map(|line| (number, line))
    };
    while let Some((first, line)) = next_line() {
        let mut line = line.to_owned();
        while line.ends_with('\\') {
            line.pop();
            line.push_str(next_line().map_or("", |(_, line)| line));
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        match line.split_once('=') {
            Some((name, value)) if name.contains('(') => {
                let value = value.trim_start();
                let Some(quote) = value.chars().next().filter(|c| "'\"".contains(*c)) else {
                    continue;
                };
                let mut is_open = is_open(value.get(1..).unwrap_or_default(), quote);
                while is_open && let Some((_, line)) = next_line() {
                    is_open = self::is_open(line, quote);
                }
            }
            _ => definitions.push((first, definition(&line))),
        }
    }
    definitions
}

/// Returns whether a quoted text continues after one of its lines.
fn is_open(line: &str, quote: char) -> bool {
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == quote {
            return false;
        }
        if character == '\\' {
            characters.next();
        }
    }
    true
}

fn definition(line: &str) -> Result<Expression, ExpressionError> {
    let expression: Expression = line.parse()?;
    if expression.is_named() {
        return Ok(expression);
    }
    let found = "an expression".to_owned();
    let problem = Problem::Unexpected { found, expected: "a name and \"=\"" };
    Err(Flaw::new(0, problem).into_error(expression.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_between_comments_and_help_texts() {
        let text = r#"
# a comment = x \
still the comment = y

a = x
a(oneline) = first = line
  b.c =\
 1 \
 + 2
b.c ( helptext ) = 'one \' quote
d = not a definition
\\' e = nor this
f=x == y ? z : novalue(type=double)
f(oneline) = "a ' text" ignored
g(helptext) = "\
several lines
of text."
h = -x\"#;
        let found: Vec<_> = definitions(text)
            .into_iter()
            .map(|(line, definition)| (line, definition.unwrap().text().to_owned()))
            .collect();
        let expected = [
            (5, "a = x"),
            (7, "b.c = 1  + 2"),
            (13, "f=x == y ? z : novalue(type=double)"),
            (18, "h = -x"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bad_line_is_reported_and_the_others_are_read() {
        let all = definitions("a = x +\nb == c\nx\nd = y\ne(helptext) = 'open\nf = z");
        let errors: Vec<_> = all
            .iter()
            .map(|(line, read)| (*line, read.as_ref().err().map(|error| error.column)))
            .collect();
        assert_eq!(errors, [(1, Some(8)), (2, Some(1)), (3, Some(1)), (4, None)]);
        assert_eq!(
            all[1].1.as_ref().unwrap_err().to_string(),
            "expression \"b == c\", column 1: found an expression, expected a name and \"=\""
        );
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_read(text in "[ab=('\"#\\\\\n ]{0,60}") {
            let _ = definitions(&text);
        }
    }
}
