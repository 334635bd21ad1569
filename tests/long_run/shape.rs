//! The metrics that a program publishes in each of its lives: decided by dice, so that the
//! program and those who judge its logged values agree.

use pcp_archive::ValueType;

use crate::harness::dice::Dice;

pub(super) const PROGRAMS: u64 = 50;
/// The first of them never die and never change.
pub(super) const STEADY: u64 = 5;
/// These state their cluster; the others are given one.
const EXPLICIT: std::ops::Range<u64> = 5..15;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) file: String,
    /// 0: it is given one.
    pub(super) cluster: u32,
    /// The file grows and loses instances, of the metric `grown`.
    pub(super) grows: bool,
    /// Type of the metric `now`, which all have; item 1.
    pub(super) now: ValueType,
    /// Numbers of the metrics `more1` to `more4` that exist; items 2 to 5.
    pub(super) more: Vec<u32>,
    /// Instances of the metric `by`, item 10, in a file that does not grow.
    pub(super) by: Vec<String>,
    pub(super) updates: Option<u64>,
}

impl Shape {
    /// Decides the shape of a program's life, both counted from 0.
    pub(super) fn of(seed: u64, program: u64, life: u64) -> Self {
        let mut dice = Dice::new(seed ^ (program << 32) ^ (life << 40));
        let is_steady = program < STEADY;
        let now = match dice.below(80) {
            0 => ValueType::I64,
            1 => ValueType::Double,
            _ => ValueType::U64,
        };
        let more = (1..=4).filter(|_| dice.one_in(2)).collect();
        let own = (0..dice.below(4)).map(|number| format!("life{life}_{number}"));
        let by = (0..=dice.below(3)).map(|number| format!("always{number}")).chain(own);
        Self {
            file: format!("p{program:02}"),
            cluster: if EXPLICIT.contains(&program) { 100 + program as u32 } else { 0 },
            grows: !is_steady && dice.one_in(3),
            now: if is_steady { ValueType::U64 } else { now },
            more,
            by: by.collect(),
            updates: (!is_steady && dice.one_in(3)).then(|| 50 + dice.below(500)),
        }
    }

    pub(super) fn value_type(&self, metric: &str) -> Option<ValueType> {
        let number = metric.strip_prefix("more").and_then(|number| number.parse().ok());
        let is_more = number.is_some_and(|number| self.more.contains(&number));
        match metric {
            "now" => Some(self.now),
            "grown" if self.grows => Some(ValueType::U64),
            "by" if !self.grows => Some(ValueType::U64),
            _ => is_more.then_some(ValueType::U64),
        }
    }
}
