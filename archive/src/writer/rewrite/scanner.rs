//! The lexical elements of rules: words, numbers with dots and stars, texts, patterns and signs.
//!
//! Which of them comes next depends on the rule (`32` is a type or a number, `web-1.example` a host
//! or a metric), so the parser asks for what it expects. Keywords have no case.

use std::sync::Arc;

use pcp_types::printable::line;

use crate::error::rules::{RulePosition, RulesError};

/// Limit on the characters of the text that an error shows as found.
const MAX_SHOWN: usize = 32;

/// The text between two quotes, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotedText<'t>(&'t str);

impl<'t> QuotedText<'t> {
    /// Returns the text as written.
    pub(super) const fn raw(self) -> &'t str {
        self.0
    }

    /// Returns the text that it stands for: backslashes escape only where a quote or the end of a
    /// line is part of the text, as in pmlogrewrite.
    pub(super) fn text(self) -> String {
        if !self.0.contains("\\\"") && !self.0.contains('\n') {
            return self.0.to_owned();
        }
        let mut text = String::with_capacity(self.0.len());
        let mut characters = self.0.chars();
        while let Some(character) = characters.next() {
            let escaped = if character == '\\' { characters.next() } else { None };
            text.push(escaped.unwrap_or(character));
        }
        text
    }
}

/// A position in the text of a file.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    file: Arc<str>,
    text: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(file: &str, text: &'t str) -> Self {
        let mut scanner = Self { file: Arc::from(file), text, at: 0, line: 1, line_start: 0 };
        scanner.skip_blank();
        scanner
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns the position of the next element.
    pub(super) fn position(&self) -> RulePosition {
        let before = self.text.get(self.line_start..self.at).unwrap_or_default();
        let column = before.chars().count() as u32 + 1;
        RulePosition { file: Arc::clone(&self.file), line: self.line, column }
    }

    /// Advances past an element and the blanks and comments that follow it.
    fn advance(&mut self, len: usize) {
        let skipped = self.rest().get(..len).unwrap_or_default();
        if let Some(last) = skipped.rfind('\n') {
            self.line += skipped.matches('\n').count() as u32;
            self.line_start = self.at + last + 1;
        }
        self.at += len;
        self.skip_blank();
    }

    fn skip_blank(&mut self) {
        let mut is_comment = false;
        for (offset, byte) in self.rest().bytes().enumerate() {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.line_start = self.at + offset + 1;
                    is_comment = false;
                }
                b'#' => is_comment = true,
                b' ' | b'\t' | b'\r' => {}
                _ if is_comment => {}
                _ => {
                    self.at += offset;
                    return;
                }
            }
        }
        self.at = self.text.len();
    }

    /// Returns the error that something else was expected than the next element.
    pub(super) fn unexpected(&self, expected: &str) -> RulesError {
        let rest = self.rest();
        let found = match rest.chars().next() {
            None => "the end of the file".to_owned(),
            Some(first) => {
                let word = [word_len(rest), number_len(rest), first.len_utf8()];
                let len = word.into_iter().max().unwrap_or_default();
                let word = rest.get(..len).unwrap_or_default();
                let shown: String = word.chars().take(MAX_SHOWN).collect();
                format!("\"{}\"", line(&shown))
            }
        };
        RulesError::new(&self.position(), format!("found {found}, expected {expected}"))
    }

    fn word(&self) -> &'t str {
        self.rest().get(..word_len(self.rest())).unwrap_or_default()
    }

    /// Takes one of the keywords, and returns its place in the list.
    pub(super) fn take_keyword(&mut self, keywords: &[&str]) -> Option<usize> {
        let word = self.word();
        let place = keywords.iter().position(|keyword| keyword.eq_ignore_ascii_case(word))?;
        self.advance(word.len());
        Some(place)
    }

    /// Takes one of the words or numbers of a list, and returns what it stands for.
    pub(super) fn choice<T: Copy>(
        &mut self,
        choices: &[(&str, T)],
        expected: &str,
    ) -> Result<T, RulesError> {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = rest.get(..len).unwrap_or_default();
        let choice = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let (_, choice) = choice.ok_or_else(|| self.unexpected(expected))?;
        self.advance(len);
        Ok(*choice)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.advance(sign.len());
        }
        is_next
    }

    pub(super) fn sign(&mut self, sign: &str) -> Result<(), RulesError> {
        let is_next = self.take_sign(sign);
        if is_next { Ok(()) } else { Err(self.unexpected(&format!("\"{sign}\""))) }
    }

    /// Takes the name of a metric: letters, digits, `_` and dots, and inside also `-` and `=`.
    pub(super) fn take_name(&mut self) -> Option<&'t str> {
        let word = self.word();
        self.advance(word.len());
        Some(word).filter(|word| !word.is_empty())
    }

    /// Takes a host name: letters, digits, dots and `-`.
    pub(super) fn take_host(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let before_arrow = rest.split("->").next().unwrap_or_default();
        let end = before_arrow.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-');
        let host = before_arrow.get(..end.unwrap_or(before_arrow.len()))?;
        if host.is_empty() || host.starts_with(['.', '-']) {
            return None;
        }
        self.advance(host.len());
        Some(host)
    }

    /// Takes digits, dots and stars: a number or the parts of an identifier.
    pub(super) fn take_digits(&mut self) -> Option<&'t str> {
        let digits = self.rest().get(..number_len(self.rest()))?;
        self.advance(digits.len());
        Some(digits).filter(|digits| !digits.is_empty())
    }

    /// Takes a number of JSON, with its sign.
    pub(super) fn take_json_number(&mut self) -> Option<String> {
        let rest = self.rest();
        let len = rest
            .find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let number = rest.get(..len).filter(|number| pcp_types::json::is_value(number))?;
        self.advance(len);
        Some(number.to_owned())
    }

    /// Takes a text in double quotes; those inside it have a backslash.
    pub(super) fn take_quoted(&mut self) -> Result<Option<QuotedText<'t>>, RulesError> {
        let Some(inner) = self.rest().strip_prefix('"') else { return Ok(None) };
        let mut escaped = false;
        for (offset, byte) in inner.bytes().enumerate() {
            match byte {
                b'"' if !escaped => {
                    let text = inner.get(..offset).unwrap_or_default();
                    self.advance(offset + 2);
                    return Ok(Some(QuotedText(text)));
                }
                b'\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        let at = self.position();
        Err(RulesError::new(&at, "the text has no closing \": add it after the last character"))
    }

    /// Takes a pattern or a replacement: a text between slashes or in double quotes, in one line.
    /// A backslash belongs to it; neither delimiter can be in a text that it encloses.
    pub(super) fn take_enclosed(&mut self) -> Result<Option<&'t str>, RulesError> {
        let rest = self.rest();
        let Some(delimiter @ ('/' | '"')) = rest.chars().next() else { return Ok(None) };
        let inner = rest.get(1..).unwrap_or_default();
        let end = inner.find([delimiter, '\n']);
        let text = end.and_then(|end| {
            let is_closed = inner.get(end..)?.starts_with(delimiter);
            inner.get(..end).filter(|_| is_closed)
        });
        let Some(text) = text else {
            let message = format!("no closing {delimiter} in this line: add it after the pattern");
            return Err(RulesError::new(&self.position(), message));
        };
        self.advance(text.len() + 2);
        Ok(Some(text))
    }
}

/// Returns the length of the word that a text begins with.
fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(u8::is_ascii_alphabetic) {
        return 0;
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let mut len = 1;
    while let Some(byte) = bytes.get(len) {
        if is_plain(byte) {
            len += 1;
        } else if matches!(byte, b'-' | b'=') && bytes.get(len + 1).is_some_and(is_plain) {
            len += 2;
        } else {
            break;
        }
    }
    len
}

/// Returns the length of the digits, dots and stars that a text begins with.
fn number_len(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '*').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_taken_in_order_with_lines_and_columns() {
        let text = "Metric a.b-c->60.* # a \"comment\"\n  \"tex\\\"t\" /pa\"t/ -> 0x";
        let mut scanner = Scanner::new("f", text);
        assert_eq!(scanner.take_keyword(&["indom", "metric"]), Some(1));
        assert_eq!(scanner.take_name(), Some("a.b-c"));
        assert!(scanner.take_sign("->"));
        assert_eq!(scanner.take_digits(), Some("60.*"));
        assert_eq!(scanner.position().to_string(), "f:2:3");
        let quoted = scanner.take_quoted().unwrap().unwrap();
        assert_eq!((quoted.raw(), quoted.text().as_str()), ("tex\\\"t", "tex\"t"));
        assert_eq!(scanner.take_enclosed().unwrap(), Some("pa\"t"));
        assert_eq!(scanner.take_host(), None);
        assert!(scanner.take_sign("->"));
        let error = scanner.unexpected("a number");
        assert_eq!(error.to_string(), "f:2:22: found \"0\", expected a number");
    }

    #[test]
    fn a_backslash_escapes_only_where_a_quote_or_line_end_is_inside() {
        for (raw, text) in
            [(r"a\b", r"a\b"), (r#"\"a\"\b"#, "\"a\"b"), ("a\\b\nc", "ab\nc"), ("", "")]
        {
            assert_eq!(QuotedText(raw).text(), text);
        }
    }

    #[test]
    fn texts_and_patterns_need_their_ends() {
        for (text, expected) in [
            ("\"abc", "f:1:1: the text has no closing \": add it after the last character"),
            ("\"abc\\\"", "f:1:1: the text has no closing \": add it after the last character"),
        ] {
            let error = Scanner::new("f", text).take_quoted().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let error = Scanner::new("f", " /a\nb/").take_enclosed().unwrap_err();
        let expected = "f:1:2: no closing / in this line: add it after the pattern";
        assert_eq!(error.to_string(), expected);
    }
}
