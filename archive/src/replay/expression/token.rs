//! The words of an expression.

use super::{Flaw, Problem};

/// One word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    /// A metric or a function: letters, digits, `_` and dots.
    Name(&'t str),
    /// An integer constant.
    Integer(u32),
    /// A constant with a point.
    Double(f64),
    /// `"text"`, without the quotes.
    Text(&'t str),
    /// `[name]`, without the brackets, and without the backslashes of `\]`.
    Instance(String),
    /// `+ - * / ( ) , =`.
    Sign(char),
    /// Behind the last one.
    End,
}

impl Token<'_> {
    /// As it is said in an error.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Name(name) => format!("\"{name}\""),
            Self::Integer(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Text(text) => format!("the text \"{text}\""),
            Self::Instance(name) => format!("[{name}]"),
            Self::Sign(sign) => format!("\"{sign}\""),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The words of a text, each with the byte it starts at, `End` at last.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Flaw> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..)
        && let Some(first) = rest.chars().next()
    {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, len) = token(rest, first).map_err(|problem| Flaw::new(at, problem))?;
        tokens.push((at, token));
        at += len;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

/// The word that a text starts with, and its length in bytes.
fn token(rest: &str, first: char) -> Result<(Token<'_>, usize), Problem> {
    match first {
        '+' | '-' | '*' | '/' | '(' | ')' | ',' | '=' => Ok((Token::Sign(first), 1)),
        '"' => quoted(rest),
        '[' => instance(rest),
        '0'..='9' | '.' => number(rest),
        letter if letter.is_ascii_alphabetic() => {
            let (name, len) = prefix(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            Ok((Token::Name(name), len))
        }
        other => {
            let expected = "a metric, a number, a function or an operator";
            Err(Problem::Unexpected { found: format!("\"{other}\""), expected })
        }
    }
}

/// As much of a text as consists of such characters, and its length.
fn prefix(text: &str, is_part: impl Fn(char) -> bool) -> (&str, usize) {
    let len = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (text.get(..len).unwrap_or_default(), len)
}

fn number(rest: &str) -> Result<(Token<'_>, usize), Problem> {
    let (digits, len) = prefix(rest, |c| c.is_ascii_digit() || c == '.');
    let token = if digits.contains('.') {
        digits.parse().map(Token::Double).map_err(|_| Problem::Unexpected {
            found: format!("\"{digits}\""),
            expected: "a number such as 0.5",
        })?
    } else {
        let large = |_| Problem::LargeInteger(digits.to_owned());
        digits.parse().map(Token::Integer).map_err(large)?
    };
    Ok((token, len))
}

fn quoted(rest: &str) -> Result<(Token<'_>, usize), Problem> {
    let text = rest.get(1..).unwrap_or_default();
    let (text, _) = text.split_once('"').ok_or(Problem::Unclosed('"'))?;
    Ok((Token::Text(text), text.len() + 2))
}

fn instance(rest: &str) -> Result<(Token<'_>, usize), Problem> {
    let mut name = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            ']' => return Ok((Token::Instance(name), at + 1)),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            other => name.push(other),
        }
    }
    Err(Problem::Unclosed(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token<'_>> {
        tokens(text).unwrap().into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn a_text_is_cut_into_words() {
        let found = words("a.b_1[x \\] y]*-2+.5,\"Mbyte / sec\"");
        let expected = [
            Token::Name("a.b_1"),
            Token::Instance("x ] y".to_owned()),
            Token::Sign('*'),
            Token::Sign('-'),
            Token::Integer(2),
            Token::Sign('+'),
            Token::Double(0.5),
            Token::Sign(','),
            Token::Text("Mbyte / sec"),
            Token::End,
        ];
        assert_eq!(found, expected);
        assert_eq!(words("  "), [Token::End]);
    }

    #[test]
    fn what_is_no_word_is_found_at_its_byte() {
        for (text, at) in
            [("a ^ b", 2), ("a [b", 2), ("\"x", 0), ("1 + 1.2.3", 4), ("4294967296", 0)]
        {
            assert_eq!(tokens(text).unwrap_err().at, at, "{text}");
        }
    }

    proptest::proptest! {
        /// forall texts: words or an error, at a place within the text
        #[test]
        fn no_text_is_too_strange(text: String) {
            match tokens(&text) {
                Ok(tokens) => proptest::prop_assert_eq!(tokens.last(), Some(&(text.len(), Token::End))),
                Err(flaw) => proptest::prop_assert!(text.is_char_boundary(flaw.at)),
            }
        }
    }
}
