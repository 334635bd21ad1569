//! Axes: round ticks, and the positions of values and times.

use std::convert::Infallible;
use std::fmt::Write as _;

use crate::Point;

/// Returns the smallest and the largest value; `None` without values.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

pub(crate) fn time_span(points: &[Point]) -> (f64, f64) {
    range(points.iter().map(|&(time, _)| time)).unwrap_or((0.0, 0.0))
}

/// Returns which of the `cells` equal parts of `span` has a coordinate.
pub fn position(coordinate: f64, span: (f64, f64), cells: usize) -> usize {
    let last = cells.saturating_sub(1);
    // Halves, since the difference of two doubles can be infinite.
    let part = (coordinate / 2.0 - span.0 / 2.0) / (span.1 / 2.0 - span.0 / 2.0);
    if part.is_finite() { ((part * last as f64).round() as usize).min(last) } else { 0 }
}

/// A value axis with round ends and a tick at each round step.
#[derive(Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// Creates the axis of `range` on `rows` lines, with a tick every two to five lines.
    pub fn new(range: (f64, f64), rows: usize) -> Self {
        let (low, high) = widened(range.0, range.1);
        let wanted = (rows / 2).max(1) as f64;
        let step = round_step((high / wanted) - (low / wanted));
        let ends = ((low / step).floor() * step, (high / step).ceil() * step);
        if ends.0.is_finite() && ends.1.is_finite() {
            Self { low: ends.0, high: ends.1, step }
        } else {
            Self { low, high, step }
        }
    }

    /// Returns which of `dots` dots stands for a value, counted from the top.
    pub fn dot(&self, value: f64, dots: usize) -> usize {
        let from_below = position(value, (self.low, self.high), dots);
        dots.saturating_sub(1) - from_below
    }

    /// Returns the label of each of `rows` lines; `None` without a tick.
    pub(crate) fn labels(&self, rows: usize) -> Vec<Option<String>> {
        let mut labels = vec![None; rows];
        for (value, text) in self.ticks() {
            let row = self.dot(value, rows * 4) / 4;
            if let Some(label) = labels.get_mut(row) {
                label.get_or_insert(text);
            }
        }
        labels
    }

    /// Returns the ticks and their labels, lowest first.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let ticks = (self.high / self.step) - (self.low / self.step);
        let ticks = ticks.round().clamp(0.0, 1e3) as usize;
        (0..=ticks).map(move |tick| {
            let value = self.low + tick as f64 * self.step;
            (value, self.label(value))
        })
    }

    /// Formats a value with the decimal places of the step, in thousands, millions and so on
    /// if the axis reaches ten thousand.
    fn label(&self, value: f64) -> String {
        if value.abs() < self.step / 2.0 {
            return "0".to_owned();
        }
        let largest = self.low.abs().max(self.high.abs());
        if !(1e-4..1e18).contains(&largest) {
            return format!("{value:.2e}");
        }
        let thousands = if largest < 1e4 { 0 } else { (largest.log10() / 3.0) as usize };
        let unit = 1000f64.powi(thousands as i32);
        let places = (-(self.step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
        let suffix = ["", "k", "M", "G", "T", "P"].get(thousands).copied().unwrap_or("");
        format!("{:.places$}{suffix}", value / unit)
    }
}

/// Returns a range that is not empty: a single value is extended by half of it on both sides.
fn widened(low: f64, high: f64) -> (f64, f64) {
    if low < high {
        return (low, high);
    }
    let half = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
    ((low - half).max(f64::MIN), (low + half).min(f64::MAX))
}

/// Returns the smallest of 1, 2 or 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    if !power.is_normal() {
        return f64::MIN_POSITIVE;
    }
    [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|n| *n >= step * 0.999_999)
        .unwrap_or(step)
}

/// Round steps of a clock in seconds.
const CLOCK: [f64; 24] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    7_776_000.0,
    31_536_000.0,
];

#[derive(Debug)]
pub(crate) struct TimeTicks {
    columns: usize,
    ticks: Vec<TimeTick>,
}

/// A notch in the axis and the label below it, centered if there is room.
#[derive(Debug)]
struct TimeTick {
    notch: usize,
    text: String,
    /// The columns of the label.
    begin: usize,
    end: usize,
}

impl TimeTick {
    fn new(notch: usize, text: String, columns: usize) -> Self {
        let width = text.chars().count();
        let begin = notch.saturating_sub(width / 2).min(columns.saturating_sub(width));
        Self { notch, begin, end: begin + width, text }
    }
}

impl TimeTicks {
    /// Places ticks at round times since `zero`, as close as their labels allow with two
    /// blanks in between. `label` also gets the step.
    pub(crate) fn new(
        span: (f64, f64),
        zero: f64,
        columns: usize,
        label: &dyn Fn(f64, f64) -> String,
    ) -> Self {
        let Ok(step) = time_step(span.1 - span.0, |step: f64| {
            let widths = [span.0, span.1].map(|time| label(time - zero, step).chars().count());
            let widest = widths.into_iter().max().unwrap_or(1);
            Ok::<_, Infallible>((columns / (widest + 4)).max(1) as f64)
        });
        let mut ticks: Vec<TimeTick> = Vec::new();
        for time in round_times((span.0 - zero, span.1 - zero), step).take(columns) {
            let notch = position(time + zero, span, columns);
            let tick = TimeTick::new(notch, label(time, step), columns);
            let is_free = ticks.last().is_none_or(|last| last.end + 2 <= tick.begin);
            if is_free && tick.end <= columns {
                ticks.push(tick);
            }
        }
        Self { columns, ticks }
    }

    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        for column in 0..self.columns {
            let is_notch = self.ticks.iter().any(|tick| tick.notch == column);
            line.push(if is_notch { '\u{252c}' } else { '\u{2500}' });
        }
        line
    }

    /// Returns the line of labels, each below its notch.
    pub(crate) fn labels(&self) -> String {
        let mut line = String::new();
        let mut width = 0;
        for tick in &self.ticks {
            line.extend(std::iter::repeat_n(' ', tick.begin - width));
            line.push_str(&tick.text);
            width = tick.end;
        }
        line
    }
}

/// Returns the round step of a clock for ticks on an axis of `length` seconds. `fitting` returns
/// how many labels of a step fit: those of small steps have more digits. For an infinite step it is
/// the number of the shortest labels.
///
/// # Errors
///
/// Those of `fitting`.
pub fn time_step<E>(length: f64, fitting: impl Fn(f64) -> Result<f64, E>) -> Result<f64, E> {
    let mut step = clock_step(length / fitting(f64::INFINITY)?);
    loop {
        let wider = clock_step(length / fitting(step)?);
        if wider <= step {
            return Ok(step);
        }
        step = wider;
    }
}

/// Returns the multiples of a step within a span.
pub fn round_times(span: (f64, f64), step: f64) -> impl Iterator<Item = f64> {
    let first = (span.0 / step).ceil() * step;
    (0..10_000).map(move |k| first + f64::from(k) * step).take_while(move |time| *time <= span.1)
}

/// Returns the smallest round step of a clock that is at least `step` seconds.
fn clock_step(step: f64) -> f64 {
    if !step.is_finite() || step <= 0.0 {
        return 1.0;
    }
    if step <= 1.0 {
        return round_step(step);
    }
    CLOCK.into_iter().find(|n| *n >= step * 0.999).unwrap_or(step)
}

/// Formats a time since the start of a chart, whatever the step: `0s`, `2.5s`, `90s`, `5m`,
/// `1h30m`, `2d`.
pub(crate) fn elapsed(seconds: f64, _step: f64) -> String {
    let millis = (seconds * 1000.0).round();
    if millis.abs() < 120_000.0 {
        let places = match millis.abs() as u64 {
            m if m % 1000 == 0 => 0,
            m if m % 100 == 0 => 1,
            m if m % 10 == 0 => 2,
            _ => 3,
        };
        return format!("{:.places$}s", millis / 1000.0 + 0.0);
    }
    let whole = seconds.round() as i64;
    let parts = [
        (whole / 86_400, 'd'),
        (whole / 3600 % 24, 'h'),
        (whole / 60 % 60, 'm'),
        (whole % 60, 's'),
    ];
    let mut text = String::new();
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
        let _ = write!(text, "{count}{unit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_or_five_times_a_power_of_ten() {
        for (wanted, step) in [(1.0, 1.0), (1.1, 2.0), (0.03, 0.05), (70.0, 100.0), (2e6, 2e6)] {
            assert!((round_step(wanted) / step - 1.0).abs() < 1e-9, "{wanted}");
        }
    }

    #[test]
    fn the_axis_has_round_ends_and_ticks() {
        let labels: Vec<String> =
            Scale::new((3.0, 97.0), 12).labels(12).into_iter().flatten().collect();
        assert_eq!(labels, ["100", "80", "60", "40", "20", "0"]);
        let labels: Vec<String> =
            Scale::new((0.0, 1_800_000.0), 9).labels(9).into_iter().flatten().collect();
        assert_eq!(labels, ["2.0M", "1.5M", "1.0M", "0.5M", "0"]);
        let labels: Vec<String> =
            Scale::new((0.01, 0.058), 12).labels(12).into_iter().flatten().collect();
        assert_eq!(labels, ["0.06", "0.05", "0.04", "0.03", "0.02", "0.01"]);
        let labels: Vec<String> =
            Scale::new((0.0, 9e18), 4).labels(4).into_iter().flatten().collect();
        assert_eq!(labels, ["1.00e19", "5.00e18", "0"]);
    }

    #[test]
    fn elapsed_times_have_the_units_of_a_clock() {
        for (seconds, text) in [
            (0.0, "0s"),
            (2.5, "2.5s"),
            (90.0, "90s"),
            (300.0, "5m"),
            (5400.0, "1h30m"),
            (172_800.0, "2d"),
        ] {
            assert_eq!(elapsed(seconds, 1.0), text);
        }
    }

    #[test]
    fn time_labels_do_not_touch() {
        for columns in [10, 40, 77] {
            let ticks = TimeTicks::new((0.0, 3725.0), 0.0, columns, &elapsed);
            assert!(!ticks.ticks.is_empty());
            assert!(ticks.labels().chars().count() <= columns);
            for pair in ticks.ticks.windows(2) {
                assert!(pair[0].end < pair[1].begin, "{ticks:?}");
            }
        }
    }
}
