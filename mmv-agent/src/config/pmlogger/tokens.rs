//! The tokens of pmlogger's configuration language.

use std::fmt;

use super::StatementError;

/// Keywords, which are not names outside of braces.
const RESERVED: [&str; 15] = [
    "log",
    "mandatory",
    "advisory",
    "on",
    "off",
    "maybe",
    "every",
    "once",
    "default",
    "access",
    "enquire",
    "allow",
    "disallow",
    "all",
    "except",
];

const UNITS: [(&str, u64); 7] = [
    ("msec", 1),
    ("millisecond", 1),
    ("sec", 1_000),
    ("second", 1_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("hour", 3_600_000),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    /// Text within double quotes.
    Text(&'t str),
    Number(&'t str),
    /// A brace, a bracket or a comma; in access rules any character.
    Sign(char),
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Text(text) | Self::Number(text) => write!(out, "\"{text}\""),
            Self::Sign(sign) => write!(out, "\"{sign}\""),
            Self::End => out.write_str("the end"),
        }
    }
}

/// All tokens of a text with their lines, and the index of the next one.
#[derive(Debug)]
pub(super) struct Tokens<'t> {
    all: Vec<(Token<'t>, usize)>,
    at: usize,
    last_line: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, StatementError> {
        let mut tokens = Vec::new();
        let mut line = 1;
        let mut rest = text;
        let mut access = false;
        while let Some(first) = rest.chars().next() {
            let (token, len) = match first {
                '\n' => {
                    line += 1;
                    (None, 1)
                }
                ' ' | '\t' | '\r' => (None, 1),
                '#' => (None, rest.find('\n').unwrap_or(rest.len())),
                _ => {
                    access |= tokens.last_chunk().is_some_and(is_access);
                    let (token, len) = token(rest, first, access)
                        .map_err(|message| StatementError { line, message })?;
                    (Some(token), len)
                }
            };
            tokens.extend(token.map(|token| (token, line)));
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(Self { all: tokens, at: 0, last_line: line })
    }

    pub(super) fn peek(&self) -> (Token<'t>, usize) {
        self.all.get(self.at).copied().unwrap_or((Token::End, self.last_line))
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.all.len()
    }

    /// Returns true if access rules begin here.
    pub(super) fn is_access(&self) -> bool {
        let rest = self.all.get(self.at..).unwrap_or_default();
        rest.first_chunk().is_some_and(is_access)
    }

    fn take_if<T>(&mut self, wanted: impl Fn(Token<'t>) -> Option<T>) -> Option<T> {
        let taken = wanted(self.peek().0)?;
        self.at += 1;
        Some(taken)
    }

    pub(super) fn take(&mut self, token: &Token<'_>) -> bool {
        self.take_if(|found| (found == *token).then_some(())).is_some()
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.take(&Token::Word(word))
    }

    pub(super) fn take_number(&mut self) -> Option<u64> {
        self.take_if(|found| match found {
            // A number that does not fit is too large anyway.
            Token::Number(text) => Some(text.parse().unwrap_or(u64::MAX)),
            _ => None,
        })
    }

    pub(super) fn take_unit(&mut self) -> Option<u64> {
        self.take_if(|found| match found {
            Token::Word(word) => milliseconds(word),
            _ => None,
        })
    }

    pub(super) fn take_name(&mut self, in_braces: bool) -> Option<String> {
        self.take_if(|found| match found {
            Token::Word(word) if in_braces || !is_reserved(word) => Some(word.to_owned()),
            _ => None,
        })
    }

    /// Takes a name, or anything in quotes.
    pub(super) fn take_text(&mut self, in_braces: bool) -> Option<String> {
        let quoted = self.take_if(|found| match found {
            Token::Text(text) => Some(text.to_owned()),
            _ => None,
        });
        quoted.or_else(|| self.take_name(in_braces))
    }
}

fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || milliseconds(word).is_some()
}

fn milliseconds(word: &str) -> Option<u64> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    UNITS.iter().find(|(unit, _)| *unit == singular).map(|(_, millis)| *millis)
}

/// Returns true if three tokens are the start of the access rules.
fn is_access(tokens: &[(Token<'_>, usize); 3]) -> bool {
    tokens.map(|(token, _)| token) == [Token::Sign('['), Token::Word("access"), Token::Sign(']')]
}

/// Returns the token at the start of `rest` and its length, or an error message.
fn token(rest: &str, first: char, access: bool) -> Result<(Token<'_>, usize), String> {
    Ok(match first {
        '{' | '}' | '[' | ']' | ',' => (Token::Sign(first), 1),
        '0'..='9' => {
            let len = rest.find(|other: char| !other.is_ascii_digit()).unwrap_or(rest.len());
            (Token::Number(rest.get(..len).unwrap_or_default()), len)
        }
        'a'..='z' | 'A'..='Z' => {
            let end =
                rest.find(|other: char| !other.is_ascii_alphanumeric() && !"_.".contains(other));
            let len = end.unwrap_or(rest.len());
            (Token::Word(rest.get(..len).unwrap_or_default()), len)
        }
        '"' => {
            let inside = rest.get(1..).unwrap_or_default();
            let end = inside.find(['"', '\n']).filter(|end| inside[*end..].starts_with('"'));
            let Some(end) = end else { return Err("a string without an end on its line".into()) };
            if end == 0 {
                return Err("an empty string".into());
            }
            (Token::Text(inside.get(..end).unwrap_or_default()), end + 2)
        }
        '%' => return Err("\"%\" begins a macro, which is not supported".into()),
        sign if access => (Token::Sign(sign), sign.len_utf8()),
        sign => {
            return Err(format!(
                "unexpected \"{}\"; instances may be in double quotes",
                sign.escape_default()
            ));
        }
    })
}
