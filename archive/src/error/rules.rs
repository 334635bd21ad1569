//! Errors of rules, with the place of the rule.

use std::fmt;
use std::sync::Arc;

use pcp_types::printable::line;

/// The place of a rule: file, line and column, both counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulePosition {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    /// In characters.
    pub(crate) column: u32,
}

impl RulePosition {
    /// Creates the position of a rule that an option has, and no file.
    pub(crate) fn option(name: &str) -> Self {
        Self { file: Arc::from(name), line: 0, column: 0 }
    }
}

impl fmt::Display for RulePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line: number, column } = self;
        f.write_str(&line(file))?;
        if *number > 0 {
            write!(f, ":{number}:{column}")?;
        }
        Ok(())
    }
}

/// A rule that cannot be read, or not be applied to an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
#[non_exhaustive]
pub struct RulesError {
    at: RulePosition,
    message: String,
}

impl RulesError {
    pub(crate) fn new(at: &RulePosition, message: impl Into<String>) -> Self {
        Self { at: at.clone(), message: message.into() }
    }

    /// Returns the error that two clauses change one thing.
    pub(crate) fn conflict(at: &RulePosition, first: &RulePosition, what: &str) -> Self {
        let message =
            format!("{what}: {first} changes this already: remove one of the two clauses");
        Self::new(at, message)
    }

    /// Returns the place of the rule.
    pub fn position(&self) -> &RulePosition {
        &self.at
    }
}
