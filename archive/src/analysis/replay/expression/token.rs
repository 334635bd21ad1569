//! The tokens of an expression.

use super::{Flaw, Problem};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    /// A metric, a function or a parameter: letters, digits, `_` and dots.
    Name(&'t str),
    Integer(u32),
    /// A constant with a point.
    Double(f64),
    /// `"text"`, without the quotes.
    Text(&'t str),
    /// `[name]`, without the brackets and the escaping backslashes.
    Instance(String),
    /// `{label="value"}`, with the braces.
    Labels(&'t str),
    /// `/regular expression/`, without the slashes and the escaping backslashes;
    /// only after `matchinst(` and `matchinst(!`.
    Pattern(String),
    /// An operator or a delimiter.
    Sign(&'static str),
    End,
}

/// Operators and delimiters; those of two characters come first.
const SIGNS: [&str; 19] = [
    "<=", ">=", "==", "!=", "&&", "||", "<", ">", "!", "?", ":", "+", "-", "*", "/", "(", ")", ",",
    "=",
];

impl Token<'_> {
    pub(super) fn quoted(&self) -> String {
        match self {
            Self::Name(name) => format!("\"{name}\""),
            Self::Integer(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Text(text) => format!("the text \"{text}\""),
            Self::Instance(name) => format!("[{name}]"),
            Self::Labels(labels) => (*labels).to_owned(),
            Self::Pattern(pattern) => format!("/{pattern}/"),
            Self::Sign(sign) => format!("\"{sign}\""),
            Self::End => "the end".to_owned(),
        }
    }
}

/// Returns the tokens of a text with the offset of each; the last is `End`.
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
        let (token, len) = if first == '/' && is_before_pattern(&tokens) {
            escaped(rest, '/').map(|(pattern, len)| (Token::Pattern(pattern), len))
        } else {
            token(rest, first)
        }
        .map_err(|problem| Flaw::new(at, problem))?;
        tokens.push((at, token));
        at += len;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

fn is_before_pattern(tokens: &[(usize, Token<'_>)]) -> bool {
    let tokens = match tokens {
        [before @ .., (_, Token::Sign("!"))] => before,
        all => all,
    };
    matches!(tokens, [.., (_, Token::Name("matchinst")), (_, Token::Sign("("))])
}

/// Returns the token that a text starts with, and its length in bytes.
fn token(rest: &str, first: char) -> Result<(Token<'_>, usize), Problem> {
    match first {
        '"' => quoted(rest),
        '[' => escaped(rest, ']').map(|(name, len)| (Token::Instance(name), len)),
        '{' => labels(rest),
        '0'..='9' | '.' => number(rest),
        letter if letter.is_ascii_alphabetic() => {
            let (name, len) = prefix(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            Ok((Token::Name(name), len))
        }
        other => {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            sign.map(|sign| (Token::Sign(sign), sign.len())).ok_or_else(|| Problem::Unexpected {
                found: format!("\"{other}\""),
                expected: "a metric, a number, a function or an operator",
            })
        }
    }
}

/// Returns the longest prefix of a text of such characters, and its length.
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
        digits.parse().map(Token::Integer).map_err(|_| Problem::LargeInteger(digits.to_owned()))?
    };
    Ok((token, len))
}

fn quoted(rest: &str) -> Result<(Token<'_>, usize), Problem> {
    let text = rest.get(1..).unwrap_or_default();
    let (text, _) = text.split_once('"').ok_or(Problem::Unclosed('"'))?;
    Ok((Token::Text(text), text.len() + 2))
}

/// Returns the text up to the brace that closes the first one, outside of quotes.
fn labels(rest: &str) -> Result<(Token<'_>, usize), Problem> {
    let mut quote = None;
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match (character, quote) {
            ('\\', Some(_)) => {
                characters.next();
            }
            ('"' | '\'', None) => quote = Some(character),
            ('}', None) => {
                let len = at + 1;
                return Ok((Token::Labels(rest.get(..len).unwrap_or_default()), len));
            }
            (_, Some(open)) if open == character => quote = None,
            _ => {}
        }
    }
    Err(Problem::Unclosed('{'))
}

/// Returns the text between the first character and `close`; a backslash makes the character
/// after it an ordinary one.
fn escaped(rest: &str, close: char) -> Result<(String, usize), Problem> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
            other if other == close => return Ok((text, at + 1)),
            other => text.push(other),
        }
    }
    Err(Problem::Unclosed(close))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<Token<'_>> {
        tokens(text).unwrap().into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn a_text_is_split_into_tokens() {
        let found = parts("a.b_1[x \\] y]*-2+.5,\"Mbyte / sec\"");
        let expected = [
            Token::Name("a.b_1"),
            Token::Instance("x ] y".to_owned()),
            Token::Sign("*"),
            Token::Sign("-"),
            Token::Integer(2),
            Token::Sign("+"),
            Token::Double(0.5),
            Token::Sign(","),
            Token::Text("Mbyte / sec"),
            Token::End,
        ];
        assert_eq!(found, expected);
        assert_eq!(parts("  "), [Token::End]);
    }

    #[test]
    fn the_longest_operator_is_taken() {
        for sign in SIGNS {
            assert_eq!(parts(sign), [Token::Sign(sign), Token::End]);
        }
        let signs = ["<", "<=", ">", "=", "!", "!=", "=="].map(Token::Sign);
        assert_eq!(parts("< <= > = ! != ==")[..7], signs);
        assert_eq!(parts("!==")[..2], ["!=", "="].map(Token::Sign));
    }

    #[test]
    fn a_slash_begins_a_pattern_only_after_matchinst() {
        let pattern = |text: &str| Token::Pattern(text.to_owned());
        assert_eq!(parts(r"matchinst(/a\/b\\.c/, x)")[2], pattern(r"a/b\.c"));
        assert_eq!(parts("matchinst ( ! /^lo/ , x / y)")[3], pattern("^lo"));
        assert_eq!(parts("matchinst(/a/, x / y)")[5], Token::Sign("/"));
        assert_eq!(parts("sum(/ a")[2], Token::Sign("/"));
    }

    #[test]
    fn labels_end_at_a_brace_outside_of_quotes() {
        let labels = r#"{a="}", b=~'\'}"', }"#;
        let text = format!("m{labels}/x");
        assert_eq!(parts(&text)[1..3], [Token::Labels(labels), Token::Sign("/")]);
    }

    #[test]
    fn unknown_tokens_are_reported_with_their_byte() {
        for (text, at) in [
            ("a ^ b", 2),
            ("a & b", 2),
            ("a [b", 2),
            ("\"x", 0),
            ("1 + 1.2.3", 4),
            ("4294967296", 0),
            ("matchinst(/a", 10),
            ("a{b=\"}", 1),
        ] {
            assert_eq!(tokens(text).unwrap_err().at, at, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_tokens_or_an_error(text: String) {
            match tokens(&text) {
                Ok(tokens) => proptest::prop_assert_eq!(tokens.last(), Some(&(text.len(), Token::End))),
                Err(flaw) => proptest::prop_assert!(text.is_char_boundary(flaw.at)),
            }
        }
    }
}
