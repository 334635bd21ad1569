//! The parser: the text of a file to rules.

use std::collections::VecDeque;

use pcp_types::{ExtraUnit, json};

use super::grammar::{
    IndomClause, IndomPattern, IndomRule, InstanceSelector, LabelClause, LabelRule, LabelSelector,
    MetricClause, MetricRule, MetricSelector, Output, PmidPattern, Positioned, Rules, TextClause,
    TextRule, TextSelector, label_name,
};
use super::replacement::Replacement;
use super::scanner::{QuotedText, Scanner};
use crate::error::rules::{RulePosition, RulesError};
use crate::{
    ByteText, InDom, InstanceId, Pmid, Semantics, SpaceScale, TextKind, TimeScale, Units, ValueType,
};

type ParseResult<T> = Result<T, RulesError>;

const METRIC: &str = "the name of a metric, or a PMID such as 70.1.2, 70.1.* or 70.*.*";
const PMID: &str = "a PMID such as 70.1.2, 70.1.* or 70.*.*";
const INDOM: &str = "an instance domain such as 70.1 or 70.*";
const CLUSTER: &str = "a cluster such as 70.1 or 70.*";
const DOMAIN: &str = "a domain, 0 to 511";
const NUMBER: &str = "the number of an instance, 0 to 2147483647";
const TYPE: &str = "one of the types 32, U32, 64, U64, FLOAT, DOUBLE, STRING";
const TIME: &str = "a time such as 30, -1:30 or +23:59:59.999";
const TEXT: &str = "a text in double quotes";
const LABEL_NAME: &str =
    "the name of a label in double quotes: a letter, then letters, digits or _";
const LABEL_VALUE: &str = "the value of a label: a text in double quotes, a number, true, false \
                           or null";
const PATTERN: &str = "a regular expression between slashes or double quotes";
const REPLACEMENT: &str = "a replacement between double quotes or slashes";

const TYPES: [(&str, ValueType); 7] = [
    ("32", ValueType::I32),
    ("U32", ValueType::U32),
    ("64", ValueType::I64),
    ("U64", ValueType::U64),
    ("FLOAT", ValueType::Float),
    ("DOUBLE", ValueType::Double),
    ("STRING", ValueType::String),
];

const SEMANTICS: [(&str, Semantics); 3] = [
    ("COUNTER", Semantics::Counter),
    ("INSTANT", Semantics::Instant),
    ("DISCRETE", Semantics::Discrete),
];

const SPACES: [(&str, i32); 10] = [
    ("0", 0),
    ("BYTE", SpaceScale::Byte as i32),
    ("KBYTE", SpaceScale::Kbyte as i32),
    ("MBYTE", SpaceScale::Mbyte as i32),
    ("GBYTE", SpaceScale::Gbyte as i32),
    ("TBYTE", SpaceScale::Tbyte as i32),
    ("PBYTE", SpaceScale::Pbyte as i32),
    ("EBYTE", SpaceScale::Ebyte as i32),
    ("ZBYTE", SpaceScale::Zbyte as i32),
    ("YBYTE", SpaceScale::Ybyte as i32),
];

const TIMES: [(&str, i32); 7] = [
    ("0", 0),
    ("NSEC", TimeScale::Nanosecond as i32),
    ("USEC", TimeScale::Microsecond as i32),
    ("MSEC", TimeScale::Millisecond as i32),
    ("SEC", TimeScale::Second as i32),
    ("MIN", TimeScale::Minute as i32),
    ("HOUR", TimeScale::Hour as i32),
];

const COUNTS: [(&str, i32); 9] =
    [("ONE", 0), ("0", 0), ("1", 1), ("2", 2), ("3", 3), ("4", 4), ("5", 5), ("6", 6), ("7", 7)];

/// The scales of a physical unit by name.
type ExtraScales = &'static [(&'static str, Option<ExtraUnit>)];

/// The names of physical units with those of their scales.
const EXTRA_UNITS: [(&str, ExtraScales); 5] = [
    ("0", &[("0", None)]),
    (
        "TEMPERATURE",
        &[
            ("C", Some(ExtraUnit::Celsius)),
            ("F", Some(ExtraUnit::Fahrenheit)),
            ("K", Some(ExtraUnit::Kelvin)),
        ],
    ),
    (
        "VOLTAGE",
        &[
            ("V", Some(ExtraUnit::Volt)),
            ("mV", Some(ExtraUnit::Millivolt)),
            ("uV", Some(ExtraUnit::Microvolt)),
        ],
    ),
    (
        "CURRENT",
        &[
            ("A", Some(ExtraUnit::Ampere)),
            ("mA", Some(ExtraUnit::Milliampere)),
            ("uA", Some(ExtraUnit::Microampere)),
        ],
    ),
    (
        "POWER",
        &[
            ("kW", Some(ExtraUnit::Kilowatt)),
            ("W", Some(ExtraUnit::Watt)),
            ("mW", Some(ExtraUnit::Milliwatt)),
            ("uW", Some(ExtraUnit::Microwatt)),
        ],
    ),
];

impl Rules {
    /// Adds the rules of a file. `file` is its name in errors.
    ///
    /// # Errors
    ///
    /// The first place where the text is not a rule, with what was expected there. Then none of
    /// its rules is added.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<(), RulesError> {
        let mut parsed = self.clone();
        parse(file, text, &mut parsed)?;
        *self = parsed;
        Ok(())
    }
}

/// Adds the rules of a text.
fn parse(file: &str, text: &str, rules: &mut Rules) -> ParseResult<()> {
    let mut parser = Parser { scanner: Scanner::new(file, text) };
    while !parser.scanner.is_at_end() {
        let kinds = ["global", "metric", "indom", "text", "label"];
        match parser.scanner.take_keyword(&kinds) {
            Some(0) => parser.global(rules)?,
            Some(1) => rules.metrics.push(parser.metric()?),
            Some(2) => rules.indoms.push(parser.indom()?),
            Some(3) => rules.texts.push(parser.text_rule()?),
            Some(_) => rules.labels.push(parser.label()?),
            None => {
                return Err(parser.scanner.unexpected("global, metric, indom, text or label"));
            }
        }
    }
    Ok(())
}

struct Parser<'t> {
    scanner: Scanner<'t>,
}

impl<'t> Parser<'t> {
    /// Parses clauses in braces, each with its position.
    fn clauses<C>(
        &mut self,
        clause: impl Fn(&mut Self) -> ParseResult<C>,
    ) -> ParseResult<Vec<Positioned<C>>> {
        let mut clauses = Vec::new();
        self.scanner.sign("{")?;
        while !self.scanner.take_sign("}") {
            let position = self.scanner.position();
            let value = clause(self)?;
            clauses.push(Positioned { position, value });
        }
        Ok(clauses)
    }

    fn arrow(&mut self) -> ParseResult<()> {
        self.scanner.sign("->")
    }

    fn quoted(&mut self, expected: &str) -> ParseResult<QuotedText<'t>> {
        self.scanner.take_quoted()?.ok_or_else(|| self.scanner.unexpected(expected))
    }

    /// Parses dotted digits with these limits; a part may be a star if all after it are.
    fn parts<const N: usize>(
        &mut self,
        limits: [u32; N],
        expected: &str,
    ) -> ParseResult<[Option<u32>; N]> {
        let error = self.scanner.unexpected(expected);
        let parts = self.scanner.take_digits().and_then(|digits| parse_parts(digits, limits));
        parts.ok_or(error)
    }

    fn pmid(&mut self, expected: &str) -> ParseResult<PmidPattern> {
        let limits = [Pmid::MAX_DOMAIN, Pmid::MAX_CLUSTER, Pmid::MAX_ITEM];
        let error = self.scanner.unexpected(expected);
        let [domain, cluster, item] = self.parts(limits, expected)?;
        Ok(PmidPattern { domain: domain.ok_or(error)?, cluster, item })
    }

    fn indom_pattern(&mut self) -> ParseResult<IndomPattern> {
        let error = self.scanner.unexpected(INDOM);
        let [domain, serial] = self.parts([Pmid::MAX_DOMAIN - 1, InDom::MAX_SERIAL], INDOM)?;
        Ok(IndomPattern { domain: domain.ok_or(error)?, serial })
    }

    fn cluster(&mut self) -> ParseResult<PmidPattern> {
        let error = self.scanner.unexpected(CLUSTER);
        let [domain, cluster] = self.parts([Pmid::MAX_DOMAIN, Pmid::MAX_CLUSTER], CLUSTER)?;
        Ok(PmidPattern { domain: domain.ok_or(error)?, cluster, item: None })
    }

    fn domain(&mut self) -> ParseResult<u32> {
        let error = self.scanner.unexpected(DOMAIN);
        let [domain] = self.parts([Pmid::MAX_DOMAIN], DOMAIN)?;
        domain.ok_or(error)
    }

    fn instance(&mut self) -> ParseResult<InstanceId> {
        let error = self.scanner.unexpected(NUMBER);
        let number = self.scanner.take_digits().and_then(|digits| digits.parse().ok());
        let id = number.and_then(|number| InstanceId::new(number).ok());
        id.ok_or(error)
    }

    fn metrics(&mut self) -> ParseResult<MetricSelector> {
        match self.scanner.take_name() {
            Some(name) => Ok(MetricSelector::Name(name.to_owned())),
            None => self.pmid(METRIC).map(MetricSelector::Pmids),
        }
    }

    fn replacement(&mut self) -> ParseResult<Replacement> {
        let at = self.scanner.position();
        let pattern = self.scanner.take_enclosed()?;
        let pattern = pattern.ok_or_else(|| self.scanner.unexpected(PATTERN))?;
        self.arrow()?;
        let replacement = self.scanner.take_enclosed()?;
        let replacement = replacement.ok_or_else(|| self.scanner.unexpected(REPLACEMENT))?;
        Replacement::parse(pattern, replacement)
            .map_err(|error| RulesError::new(&at, format!("expected {PATTERN}: {error}")))
    }

    fn global(&mut self, rules: &mut Rules) -> ParseResult<()> {
        self.scanner.sign("{")?;
        while !self.scanner.take_sign("}") {
            let at = self.scanner.position();
            let names = ["hostname", "timezone", "tz", "zoneinfo", "time", "features"];
            let clause = self.scanner.take_keyword(&names).ok_or_else(|| {
                let expected = "hostname, timezone, tz, zoneinfo, time, features or \"}\"";
                self.scanner.unexpected(expected)
            })?;
            self.arrow()?;
            let global = &mut rules.global;
            match clause {
                0 => set_once(&mut global.hostname, &at, self.host()?)?,
                1 | 2 => set_once(&mut global.timezone, &at, self.zone()?)?,
                3 => set_once(&mut global.zoneinfo, &at, self.zone()?)?,
                4 => set_once(&mut global.shift, &at, self.shift()?)?,
                _ => self.no_features()?,
            }
        }
        Ok(())
    }

    fn host(&mut self) -> ParseResult<ByteText> {
        if let Some(quoted) = self.scanner.take_quoted()? {
            return Ok(ByteText::from(quoted.text().as_str()));
        }
        let host = self.scanner.take_host();
        let host = host.ok_or_else(|| self.scanner.unexpected("the name of a host"))?;
        Ok(ByteText::from(host))
    }

    fn zone(&mut self) -> ParseResult<ByteText> {
        Ok(ByteText::from(self.quoted("a time zone in double quotes")?.text().as_str()))
    }

    /// Parses a time with its sign, in nanoseconds.
    fn shift(&mut self) -> ParseResult<i128> {
        let error = self.scanner.unexpected(TIME);
        let is_negative = self.scanner.take_sign("-");
        if !is_negative {
            self.scanner.take_sign("+");
        }
        let mut parts = VecDeque::new();
        loop {
            let digits = self.scanner.take_digits();
            parts.push_front(digits.ok_or_else(|| self.scanner.unexpected(TIME))?);
            if !self.scanner.take_sign(":") {
                break;
            }
        }
        let seconds = parts.pop_front().and_then(parse_nanoseconds);
        let mut total = seconds.ok_or_else(|| error.clone())?;
        let units: [i128; 2] = [60, 3600];
        if parts.len() > units.len() {
            return Err(error);
        }
        for (part, unit) in parts.iter().zip(units) {
            let number: u32 = part.parse().map_err(|_| error.clone())?;
            total += i128::from(number) * unit * 1_000_000_000;
        }
        Ok(if is_negative { -total } else { total })
    }

    /// Parses feature bits. Archives that are written here have none.
    fn no_features(&mut self) -> ParseResult<()> {
        let expected = "0: archives with other features cannot be written";
        let error = self.scanner.unexpected(expected);
        match self.scanner.take_digits() {
            Some("0") => Ok(()),
            _ => Err(error),
        }
    }

    fn metric(&mut self) -> ParseResult<MetricRule> {
        let metrics = self.metrics()?;
        let clauses = self.clauses(Self::metric_clause)?;
        Ok(MetricRule { metrics, is_required: false, clauses })
    }

    fn metric_clause(&mut self) -> ParseResult<MetricClause> {
        let names =
            ["delete", "name", "pmid", "type", "indom", "sem", "units", "extraunits", "value"];
        let clause = self.scanner.take_keyword(&names).ok_or_else(|| {
            let expected =
                "delete, name, pmid, type, indom, sem, units, extraunits, value or \"}\"";
            self.scanner.unexpected(expected)
        })?;
        match clause {
            0 => return Ok(MetricClause::Delete),
            3 => return self.type_clause(),
            8 => {
                self.scanner.take_keyword(&["replace"]);
                return self.replacement().map(MetricClause::Value);
            }
            _ => self.arrow()?,
        }
        match clause {
            1 => {
                let name = self.scanner.take_name();
                let name = name.ok_or_else(|| self.scanner.unexpected("the new name"))?;
                let may_be_taken = self.scanner.take_keyword(&["dupok"]).is_some();
                Ok(MetricClause::Name { new: name.to_owned(), may_be_taken })
            }
            2 => self.pmid(PMID).map(MetricClause::Pmid),
            4 => self.indom_of_metric(),
            5 => {
                let expected = "one of COUNTER, INSTANT, DISCRETE";
                self.scanner.choice(&SEMANTICS, expected).map(MetricClause::Semantics)
            }
            6 => self.units(false),
            _ => self.units(true),
        }
    }

    fn type_clause(&mut self) -> ParseResult<MetricClause> {
        let is_conditional = self.scanner.take_keyword(&["if"]).is_some();
        let only_if = if is_conditional { Some(self.scanner.choice(&TYPES, TYPE)?) } else { None };
        self.arrow()?;
        Ok(MetricClause::Type { only_if, new: self.scanner.choice(&TYPES, TYPE)? })
    }

    fn indom_of_metric(&mut self) -> ParseResult<MetricClause> {
        let has_none = self.scanner.take_keyword(&["null"]).is_some();
        let new = if has_none { None } else { Some(self.indom_pattern()?) };
        if self.scanner.take_keyword(&["output"]).is_none() {
            return Ok(MetricClause::Indom { new, output: None });
        }
        let names = ["first", "last", "min", "max", "sum", "avg", "inst", "iname"];
        let choice = self.scanner.take_keyword(&names);
        let output = match choice {
            Some(0) => Output::First,
            Some(1) => Output::Last,
            Some(2) => Output::Min,
            Some(3) => Output::Max,
            Some(4) => Output::Sum,
            Some(5) => Output::Average,
            Some(6) => Output::Instance(self.instance()?),
            Some(_) => {
                Output::Named(self.quoted("the name of an instance in double quotes")?.text())
            }
            None => {
                let expected = "first, last, min, max, sum, avg, inst or iname";
                return Err(self.scanner.unexpected(expected));
            }
        };
        Ok(MetricClause::Indom { new, output: Some(output) })
    }

    fn units(&mut self, has_extra: bool) -> ParseResult<MetricClause> {
        let at = self.scanner.position();
        let mut dimensions = [0; 3];
        for dimension in &mut dimensions {
            *dimension = self.dimension()?;
            self.scanner.sign(",")?;
        }
        let space = self.scanner.choice(&SPACES, "0 or a scale of space: BYTE, KBYTE to YBYTE")?;
        self.scanner.sign(",")?;
        let time = self
            .scanner
            .choice(&TIMES, "0 or a scale of time: NSEC, USEC, MSEC, SEC, MIN, HOUR")?;
        self.scanner.sign(",")?;
        let count =
            self.scanner.choice(&COUNTS, "a scale of count: ONE, or a power of ten, 0 to 7")?;
        let units = Units::new(dimensions, [space, time, count]);
        let mut new = units.map_err(|error| RulesError::new(&at, error.to_string()))?;
        if has_extra {
            self.scanner.sign(",")?;
            let physical = EXTRA_UNITS;
            let expected = "0 or a physical unit: TEMPERATURE, VOLTAGE, CURRENT, POWER";
            let scales = self.scanner.choice(&physical, expected)?;
            self.scanner.sign(",")?;
            let expected = "0 or a scale of the physical unit, such as C, mV, uA or kW";
            if let Some(extra) = self.scanner.choice(scales, expected)? {
                new = Units::from_raw(new.raw() | Units::extra(extra).raw());
            }
        }
        let rescale = self.scanner.take_keyword(&["rescale"]).is_some();
        Ok(MetricClause::Units { new, has_extra, rescale })
    }

    fn dimension(&mut self) -> ParseResult<i32> {
        let error = self.scanner.unexpected("a power of space, time or count, -8 to 7");
        let is_negative = self.scanner.take_sign("-");
        if !is_negative {
            self.scanner.take_sign("+");
        }
        let power: Option<i32> = self.scanner.take_digits().and_then(|digits| digits.parse().ok());
        let power = power.map(|power| if is_negative { -power } else { power });
        power.filter(|power| (-8..=7).contains(power)).ok_or(error)
    }

    fn indom(&mut self) -> ParseResult<IndomRule> {
        let indoms = self.indom_pattern()?;
        let clauses = self.clauses(Self::indom_clause)?;
        Ok(IndomRule { indoms, clauses })
    }

    fn indom_clause(&mut self) -> ParseResult<IndomClause> {
        match self.scanner.take_keyword(&["indom", "inst", "iname"]) {
            Some(0) => {
                self.arrow()?;
                let is_duplicate = self.scanner.take_keyword(&["duplicate"]).is_some();
                Ok(IndomClause::Indom { new: self.indom_pattern()?, is_duplicate })
            }
            Some(1) => {
                let old = self.instance()?;
                self.arrow()?;
                let is_deleted = self.scanner.take_keyword(&["delete"]).is_some();
                let new = if is_deleted { None } else { Some(self.instance()?) };
                Ok(IndomClause::Number { old, new })
            }
            Some(_) => self.instance_name(),
            None => Err(self.scanner.unexpected("indom, inst, iname or \"}\"")),
        }
    }

    fn instance_name(&mut self) -> ParseResult<IndomClause> {
        match self.scanner.take_keyword(&["redact", "replace"]) {
            Some(0) => return Ok(IndomClause::Redact),
            Some(_) => return self.replacement().map(IndomClause::Replace),
            None => {}
        }
        let old = self.quoted("the name of an instance in double quotes, redact or replace")?;
        self.arrow()?;
        let is_deleted = self.scanner.take_keyword(&["delete"]).is_some();
        let expected = "the new name of the instance in double quotes, or delete";
        let new = if is_deleted { None } else { Some(self.quoted(expected)?.text()) };
        Ok(IndomClause::Name { old: old.text(), new })
    }

    fn text_rule(&mut self) -> ParseResult<TextRule> {
        let target = match self.scanner.take_keyword(&["metric", "indom"]) {
            Some(0) => TextSelector::Metric(self.metrics()?),
            Some(_) => TextSelector::Indom(self.indom_pattern()?),
            None => return Err(self.scanner.unexpected("metric or indom")),
        };
        let mut kinds = Vec::new();
        loop {
            match self.scanner.take_keyword(&["oneline", "help", "all"]) {
                Some(0) => kinds.push(TextKind::OneLine),
                Some(1) => kinds.push(TextKind::Full),
                Some(_) => kinds.extend([TextKind::OneLine, TextKind::Full]),
                None if self.scanner.take_sign("*") => {
                    kinds.extend([TextKind::OneLine, TextKind::Full]);
                }
                None => break,
            }
        }
        if kinds.is_empty() {
            kinds.push(TextKind::OneLine);
        }
        let content = self.scanner.take_quoted()?.map(QuotedText::text);
        let clauses = match target {
            TextSelector::Metric(_) => self.clauses(Self::metric_text_clause)?,
            TextSelector::Indom(_) => self.clauses(Self::indom_text_clause)?,
        };
        Ok(TextRule { target, kinds, content, clauses })
    }

    fn metric_text_clause(&mut self) -> ParseResult<TextClause> {
        self.text_clause("metric", |parser| parser.pmid(PMID).map(TextClause::Metric))
    }

    fn indom_text_clause(&mut self) -> ParseResult<TextClause> {
        self.text_clause("indom", |parser| parser.indom_pattern().map(TextClause::Indom))
    }

    fn text_clause(
        &mut self,
        owner: &str,
        new_owner: impl Fn(&mut Self) -> ParseResult<TextClause>,
    ) -> ParseResult<TextClause> {
        match self.scanner.take_keyword(&["delete", "text", owner]) {
            Some(0) => Ok(TextClause::Delete),
            Some(1) => {
                self.arrow()?;
                Ok(TextClause::Text(self.quoted(TEXT)?.text()))
            }
            Some(_) => {
                self.arrow()?;
                new_owner(self)
            }
            None => Err(self.scanner.unexpected(&format!("delete, text, {owner} or \"}}\""))),
        }
    }

    fn label(&mut self) -> ParseResult<LabelRule> {
        let names = ["context", "domain", "cluster", "item", "indom", "instances"];
        let target = match self.scanner.take_keyword(&names) {
            Some(0) => LabelSelector::Context,
            Some(1) => LabelSelector::Domain(self.domain()?),
            Some(2) => LabelSelector::Cluster(self.cluster()?),
            Some(3) => LabelSelector::Item(self.metrics()?),
            Some(4) => LabelSelector::Indom(self.indom_pattern()?),
            Some(_) => LabelSelector::Instances(self.indom_pattern()?),
            None => {
                let expected = "context, domain, cluster, item, indom or instances";
                return Err(self.scanner.unexpected(expected));
            }
        };
        let is_of_instances = matches!(target, LabelSelector::Instances(_));
        let instance = if is_of_instances { self.instance_of_labels()? } else { None };
        let has_any_name = self.scanner.take_sign("*");
        let name = if has_any_name { None } else { self.take_label_name()? };
        let has_any_value = self.scanner.take_sign("*");
        let value = if has_any_value { None } else { self.take_label_value()? };
        let clauses = self.clauses(|parser| parser.label_clause(&target))?;
        Ok(LabelRule { target, instance, name, value, clauses })
    }

    fn instance_of_labels(&mut self) -> ParseResult<Option<InstanceSelector>> {
        if self.scanner.take_sign("*") {
            return Ok(None);
        }
        if let Some(quoted) = self.scanner.take_quoted()? {
            return Ok(Some(InstanceSelector::Name(quoted.text())));
        }
        let error = self.scanner.unexpected(NUMBER);
        let Some(digits) = self.scanner.take_digits() else { return Ok(None) };
        let number = digits.parse().ok().and_then(|number| InstanceId::new(number).ok());
        Ok(Some(InstanceSelector::Number(number.ok_or(error)?)))
    }

    fn take_label_name(&mut self) -> ParseResult<Option<String>> {
        let error = self.scanner.unexpected(LABEL_NAME);
        let Some(quoted) = self.scanner.take_quoted()? else { return Ok(None) };
        label_name(quoted.raw()).map(Some).ok_or(error)
    }

    fn label_name(&mut self) -> ParseResult<String> {
        let error = self.scanner.unexpected(LABEL_NAME);
        self.take_label_name()?.ok_or(error)
    }

    fn take_label_value(&mut self) -> ParseResult<Option<String>> {
        let error = self.scanner.unexpected(LABEL_VALUE);
        if let Some(quoted) = self.scanner.take_quoted()? {
            let value = format!("\"{}\"", quoted.raw());
            return if json::is_value(&value) { Ok(Some(value)) } else { Err(error) };
        }
        let words = ["true", "false", "null"];
        let word = self.scanner.take_keyword(&words).and_then(|word| words.get(word));
        Ok(word.map(|word| (*word).to_owned()).or_else(|| self.scanner.take_json_number()))
    }

    fn label_value(&mut self) -> ParseResult<String> {
        let error = self.scanner.unexpected(LABEL_VALUE);
        self.take_label_value()?.ok_or(error)
    }

    fn label_clause(&mut self, target: &LabelSelector) -> ParseResult<LabelClause> {
        // The clause that moves the labels, and that of the instance, if there is one.
        let (owner, instance) = match target {
            LabelSelector::Context => (None, None),
            LabelSelector::Domain(_) => (Some("domain"), None),
            LabelSelector::Cluster(_) => (Some("cluster"), None),
            LabelSelector::Item(_) => (Some("item"), None),
            LabelSelector::Indom(_) => (Some("indom"), None),
            LabelSelector::Instances(_) => (Some("instances"), Some("instance")),
        };
        let names = ["delete", "new", "label", "value"];
        match self.scanner.take_keyword(&names) {
            Some(0) => return Ok(LabelClause::Delete),
            Some(1) => return Ok(LabelClause::New(self.label_name()?, self.label_value()?)),
            Some(2) => {
                self.arrow()?;
                return self.label_name().map(LabelClause::Name);
            }
            Some(_) => {
                self.arrow()?;
                return self.label_value().map(LabelClause::Value);
            }
            None => {}
        }
        let moves: Vec<&str> = owner.into_iter().chain(instance).collect();
        let Some(place) = self.scanner.take_keyword(&moves) else {
            let all = [&names[..], &moves[..]].concat().join(", ");
            let expected = format!("{all} or \"}}\"");
            return Err(self.scanner.unexpected(&expected));
        };
        self.arrow()?;
        if place == 1 {
            return self.instance().map(LabelClause::Instance);
        }
        match target {
            LabelSelector::Context | LabelSelector::Domain(_) => {
                self.domain().map(LabelClause::Domain)
            }
            LabelSelector::Cluster(_) => self.cluster().map(LabelClause::Cluster),
            LabelSelector::Item(_) => self.pmid(PMID).map(LabelClause::Item),
            LabelSelector::Indom(_) | LabelSelector::Instances(_) => {
                self.indom_pattern().map(LabelClause::Indom)
            }
        }
    }
}

/// Sets what may be set by one clause only.
fn set_once<T>(
    setting: &mut Option<Positioned<T>>,
    at: &RulePosition,
    value: T,
) -> ParseResult<()> {
    if let Some(first) = setting {
        let first = &first.position;
        let message = format!("{first} sets this already: remove one of the two clauses");
        return Err(RulesError::new(at, message));
    }
    *setting = Some(Positioned { position: at.clone(), value });
    Ok(())
}

/// Returns dotted numbers within their limits; `None` for a star.
fn parse_parts<const N: usize>(digits: &str, limits: [u32; N]) -> Option<[Option<u32>; N]> {
    let mut parts = [None; N];
    let mut words = digits.split('.');
    for (part, limit) in parts.iter_mut().zip(limits) {
        let word = words.next()?;
        if word != "*" {
            *part = Some(word.parse().ok().filter(|number| *number <= limit)?);
        }
    }
    words.next().is_none().then_some(parts)
}

/// Returns seconds with a fraction in nanoseconds; further digits are cut off.
fn parse_nanoseconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: u32 = whole.parse().ok()?;
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit()).then_some(fraction)?;
    let digits = digits.get(..digits.len().min(9))?;
    let nanoseconds: u32 = format!("{digits:0<9}").parse().ok()?;
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds))
}

#[cfg(test)]
mod tests;
