//! pmlogger's configuration files (`pmlogger(1)`), read as groups.
//!
//! ```text
//! log mandatory on every 10 seconds { mmv.shop mmv.disk.reads [ "sda" 3 ] }
//! log advisory on once mmv.build        # default, once, or every N units
//! log mandatory off { mmv.shop.debug }
//! ```
//!
//! Input: the text of a file. Output: groups in the order of their precedence.
//!
//! A statement is *advisory* by default. Later statements override earlier ones, but an advisory
//! one never overrides a *mandatory* one. The first group with a metric logs it, so the mandatory
//! statements come first, in reverse order, then the advisory ones likewise. Metrics that no
//! statement names are not logged.
//!
//! Differences from pmlogger: macros (`%include`) are an error; access rules are parsed
//! and ignored; metrics that are logged once and are not discrete are logged at the
//! default interval, since readers interpolate them.

mod tokens;

use std::fs;
use std::path::Path;
use std::time::Duration;

use pcp_types::InstanceId;

use self::tokens::{Token, Tokens};
use super::error::ConfigError;
use super::{Group, InstancePattern, LogMode};

/// Longest interval that pmlogger accepts, in milliseconds.
const LONGEST: u64 = 0x0fff_ffff;

/// Reads the groups of a file.
///
/// # Errors
///
/// Any [`ConfigError`].
pub(super) fn read(file: &Path) -> Result<Vec<Group>, ConfigError> {
    let text = fs::read_to_string(file)
        .map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
    parse(&text).map_err(|StatementError { line, message }| ConfigError::Wrong {
        file: file.to_owned(),
        place: line.to_string(),
        message,
    })
}

#[derive(Debug, PartialEq, Eq)]
struct StatementError {
    line: usize,
    message: String,
}

/// A statement: a mode, an interval, and metrics with instances.
#[derive(Debug)]
struct Statement {
    line: usize,
    mandatory: bool,
    log: LogMode,
    interval: Option<Duration>,
    metrics: Vec<(String, Vec<InstancePattern>)>,
}

fn parse(text: &str) -> Result<Vec<Group>, StatementError> {
    let mut parser = Parser { tokens: Tokens::parse(text)? };
    let mut statements = Vec::new();
    // After the statements there are rules about access to pmlogger.
    while !parser.tokens.is_at_end() && !parser.tokens.is_access() {
        statements.push(parser.statement()?);
    }
    Ok(groups(&statements))
}

/// Returns a group for each statement, or several if instances differ.
fn groups(statements: &[Statement]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for mandatory in [true, false] {
        let wanted = statements.iter().filter(|statement| statement.mandatory == mandatory);
        for statement in wanted.rev() {
            let first = groups.len();
            for (metric, instances) in &statement.metrics {
                let mut known = groups.iter_mut().skip(first);
                if let Some(group) = known.find(|group| group.instances == *instances) {
                    group.metrics.push(metric.clone());
                    continue;
                }
                groups.push(Group {
                    name: format!("line {}", statement.line),
                    metrics: vec![metric.clone()],
                    instances: instances.clone(),
                    interval: statement.interval,
                    log: statement.log,
                });
            }
        }
    }
    groups.push(Group {
        name: "other metrics".to_owned(),
        metrics: vec!["*".to_owned()],
        instances: Vec::new(),
        interval: None,
        log: LogMode::Never,
    });
    groups
}

struct Parser<'t> {
    tokens: Tokens<'t>,
}

impl Parser<'_> {
    fn wrong<T>(&self, expected: &str) -> Result<T, StatementError> {
        let (found, line) = self.tokens.peek();
        Err(StatementError { line, message: format!("found {found}, expected {expected}") })
    }

    /// Parses `[log] [mandatory|advisory] on FREQUENCY|off|maybe METRICS`.
    fn statement(&mut self) -> Result<Statement, StatementError> {
        let line = self.tokens.peek().1;
        let has_log = self.tokens.take_word("log");
        let mandatory = self.tokens.take_word("mandatory");
        let advisory = !mandatory && self.tokens.take_word("advisory");
        let Some((log, interval)) = self.action(mandatory)? else {
            let begun = has_log || mandatory || advisory;
            return self.wrong(if begun { "\"on\" or \"off\"" } else { "a statement" });
        };
        let metrics = self.metrics()?;
        Ok(Statement { line, mandatory, log, interval, metrics })
    }

    fn action(
        &mut self,
        mandatory: bool,
    ) -> Result<Option<(LogMode, Option<Duration>)>, StatementError> {
        if self.tokens.take_word("off") || (mandatory && self.tokens.take_word("maybe")) {
            return Ok(Some((LogMode::Never, None)));
        }
        if !self.tokens.take_word("on") {
            return Ok(None);
        }
        if self.tokens.take_word("once") {
            return Ok(Some((LogMode::Once, None)));
        }
        if self.tokens.take_word("default") {
            return Ok(Some((LogMode::Every, None)));
        }
        let every = self.tokens.take_word("every");
        let line = self.tokens.peek().1;
        let Some(number) = self.tokens.take_number() else {
            return self.wrong(if every {
                "a number"
            } else {
                "\"once\", \"default\", \"every\" or a number"
            });
        };
        let Some(unit) = self.tokens.take_unit() else {
            return self.wrong("a unit from msec to hour");
        };
        let millis = number.saturating_mul(unit);
        if millis > LONGEST {
            let message = format!("{millis} ms exceeds the maximum of {LONGEST} ms");
            return Err(StatementError { line, message });
        }
        // As in pmlogger, zero means once.
        Ok(Some(match millis {
            0 => (LogMode::Once, None),
            millis => (LogMode::Every, Some(Duration::from_millis(millis))),
        }))
    }

    /// Parses one metric, or a list in braces, with or without commas.
    fn metrics(&mut self) -> Result<Vec<(String, Vec<InstancePattern>)>, StatementError> {
        if !self.tokens.take(&Token::Sign('{')) {
            return Ok(vec![self.metric(false)?]);
        }
        let mut metrics = vec![self.metric(true)?];
        while !self.tokens.take(&Token::Sign('}')) {
            self.tokens.take(&Token::Sign(','));
            metrics.push(self.metric(true)?);
        }
        Ok(metrics)
    }

    /// Parses a name, and instances in brackets. A keyword is a name only in braces.
    fn metric(
        &mut self,
        in_braces: bool,
    ) -> Result<(String, Vec<InstancePattern>), StatementError> {
        let Some(name) = self.tokens.take_name(in_braces) else {
            return self.wrong("the name of a metric");
        };
        if !self.tokens.take(&Token::Sign('[')) {
            return Ok((name, Vec::new()));
        }
        let mut instances = Vec::new();
        loop {
            let instance = match self.tokens.take_number() {
                Some(number) => i32::try_from(number)
                    .ok()
                    .and_then(|number| InstanceId::new(number).ok())
                    .map(InstancePattern::Number),
                None => self.tokens.take_text(in_braces).map(InstancePattern::Name),
            };
            let Some(instance) = instance else { return self.wrong("an instance") };
            instances.push(instance);
            if self.tokens.take(&Token::Sign(']')) {
                return Ok((name, instances));
            }
            self.tokens.take(&Token::Sign(','));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(groups: &[Group]) -> Vec<Vec<&str>> {
        groups.iter().map(|group| group.metrics.iter().map(String::as_str).collect()).collect()
    }

    fn seconds(group: &Group) -> Option<u64> {
        group.interval.map(|interval| interval.as_secs())
    }

    #[test]
    fn statements_are_groups_and_other_metrics_are_not_logged() {
        let text = "# a comment\nlog mandatory on every 10 seconds {\n  mmv.shop # orders\n  mmv.a, mmv.b\n}\n";
        let groups = parse(text).unwrap();
        assert_eq!(metrics(&groups), [vec!["mmv.shop", "mmv.a", "mmv.b"], vec!["*"]]);
        assert_eq!((groups[0].log, seconds(&groups[0])), (LogMode::Every, Some(10)));
        assert_eq!(groups[0].name, "line 2");
        assert_eq!(groups[1].log, LogMode::Never);
    }

    #[test]
    fn every_form_of_an_interval_is_parsed() {
        for (text, log, millis) in [
            ("on once", LogMode::Once, None),
            ("on 0 secs", LogMode::Once, None),
            ("on default", LogMode::Every, None),
            ("on every 5 msec", LogMode::Every, Some(5)),
            ("on 2 milliseconds", LogMode::Every, Some(2)),
            ("on every 1 sec", LogMode::Every, Some(1_000)),
            ("advisory on 3 mins", LogMode::Every, Some(180_000)),
            ("log on 1 minute", LogMode::Every, Some(60_000)),
            ("log advisory on every 2hours", LogMode::Every, Some(7_200_000)),
            ("log mandatory off", LogMode::Never, None),
            ("mandatory maybe", LogMode::Never, None),
        ] {
            let groups = parse(&format!("{text} mmv.a")).unwrap();
            assert_eq!(groups[0].log, log, "{text}");
            assert_eq!(groups[0].interval, millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn instances_are_names_numbers_and_text() {
        let groups = parse("log on default { mmv.a [ sda, 3 \"x y\" ] mmv.b mmv.c[sda 3 'x'] }");
        assert!(groups.is_err(), "single quotes are not quotes");
        let groups = parse("log on default { mmv.a [ sda, 3 \"x y\" ] mmv.b mmv.c[on] }").unwrap();
        let name = |name: &str| InstancePattern::Name(name.to_owned());
        let three = InstancePattern::Number(InstanceId::new(3).unwrap());
        assert_eq!(groups[0].instances, [name("sda"), three, name("x y")]);
        assert_eq!(metrics(&groups), [["mmv.a"], ["mmv.b"], ["mmv.c"], ["*"]]);
        assert_eq!(groups[2].instances, [name("on")]);
    }

    #[test]
    fn mandatory_and_later_statements_take_precedence() {
        let text = "log advisory on 1 sec mmv.a\nlog mandatory on 2 sec mmv.b\n\
                    log advisory on 3 sec mmv.c\nlog mandatory off mmv.d\n";
        let groups = parse(text).unwrap();
        assert_eq!(metrics(&groups), [["mmv.d"], ["mmv.b"], ["mmv.c"], ["mmv.a"], ["*"]]);
    }

    #[test]
    fn keywords_are_names_in_braces_only() {
        let groups = parse("log on default { on every }").unwrap();
        assert_eq!(metrics(&groups), [vec!["on", "every"], vec!["*"]]);
        assert!(parse("log on default on").is_err());
    }

    #[test]
    fn access_rules_are_ignored() {
        let groups = parse("log on default { mmv.a }\n[access]\ndisallow * : all;\n").unwrap();
        assert_eq!(metrics(&groups), [["mmv.a"], ["*"]]);
        assert_eq!(parse("").unwrap().len(), 1);
    }

    #[test]
    fn an_error_has_the_line_and_what_was_expected() {
        for (text, line, message) in [
            ("\nlog\nmandatory 5", 3, "found \"5\", expected \"on\" or \"off\""),
            ("log on every ten secs mmv.a", 1, "found \"ten\", expected a number"),
            ("log on 5 mmv.a", 1, "found \"mmv.a\", expected a unit"),
            ("log on default {\n}", 2, "found \"}\", expected the name of a metric"),
            ("log on default {\nmmv.a", 2, "found the end, expected the name of a metric"),
            ("log on default mmv.a [ ]", 1, "found \"]\", expected an instance"),
            ("log advisory maybe mmv.a", 1, "found \"maybe\", expected \"on\""),
            ("log on default { mmv.my-app }", 1, "unexpected \"-\""),
            ("%include \"x\"", 1, "\"%\""),
            ("log on default { mmv.a [ \"x\n\" ] }", 1, "a string without an end"),
            ("log on 75 hours mmv.a", 1, "270000000 ms exceeds"),
            ("mmv.a", 1, "found \"mmv.a\", expected a statement"),
        ] {
            let found = parse(text).unwrap_err();
            assert_eq!(found.line, line, "{text}: {found:?}");
            assert!(found.message.starts_with(message), "{text}: {found:?}");
        }
    }
}
