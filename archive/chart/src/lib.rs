//! Charts for a terminal: lines of Braille dots over an axis of times, heat maps, and a
//! one-line sparkline, and tables. [`axis`] has round ticks, also for other drawings.
//!
//! Size and labels are the caller's, so the same points always yield the same
//! text: terminal, locale and time zone are not used. Missing values are gaps in
//! the line.
//!
//! ```
//! use mmv_chart::{Chart, Point};
//!
//! let points: Vec<Point> = (0..60).map(|s| (f64::from(s), Some(f64::from(s * s)))).collect();
//! let text = Chart::new(60, 12).title("requests: count / sec").render(&points);
//! assert!(text.starts_with("requests: count / sec\n"));
//! assert_eq!(text.lines().count(), 12);
//! ```

#![forbid(unsafe_code)]

pub mod axis;
mod canvas;
mod grid;
mod heat;
mod line;

use std::fmt::Write as _;

use axis::{Scale, TimeTicks, elapsed};
use canvas::Canvas;

pub use grid::Grid;
pub use heat::{HeatAxes, HeatCell, HeatGrid};
pub use line::{Line, ranked, sum_of_others, top_by_mean};

/// A point of a line: seconds of any clock, and the value; `None` is a gap.
pub type Point = (f64, Option<f64>);

/// The size and options of a chart.
pub struct Chart<'a> {
    width: usize,
    height: usize,
    title: &'a str,
    from_zero: bool,
    time_label: Option<Box<dyn Fn(f64, f64) -> String + 'a>>,
    value_label: Option<Box<dyn Fn(f64) -> String + 'a>>,
    marks: &'a [f64],
}

impl std::fmt::Debug for Chart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chart")
            .field("width", &self.width)
            .field("height", &self.height)
            .field("title", &self.title)
            .field("from_zero", &self.from_zero)
            .finish_non_exhaustive()
    }
}

impl<'a> Chart<'a> {
    /// Creates a chart of `width` columns and `height` lines including title, axis and times,
    /// at least 24 columns and 6 lines.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width: width.max(24),
            height: height.max(6),
            title: "",
            from_zero: false,
            time_label: None,
            value_label: None,
            marks: &[],
        }
    }

    /// Sets the text above the drawing.
    #[must_use]
    pub fn title(mut self, title: &'a str) -> Self {
        self.title = title;
        self
    }

    /// Makes the value axis always include zero.
    #[must_use]
    pub fn from_zero(mut self, from_zero: bool) -> Self {
        self.from_zero = from_zero;
        self
    }

    /// Sets the function that formats a time in seconds, given the seconds between labels. The
    /// default labels count from the first point: `0s`, `90s`, `5m`.
    #[must_use]
    pub fn time_labels(mut self, label: impl Fn(f64, f64) -> String + 'a) -> Self {
        self.time_label = Some(Box::new(label));
        self
    }

    /// Sets the function that formats a value beside a heat map. By default it is a number such as
    /// `20k`.
    #[must_use]
    pub fn value_labels(mut self, label: impl Fn(f64) -> String + 'a) -> Self {
        self.value_label = Some(Box::new(label));
        self
    }

    /// Sets the times that are marked on the time axis by a triangle.
    #[must_use]
    pub fn marks(mut self, marks: &'a [f64]) -> Self {
        self.marks = marks;
        self
    }

    /// Draws one line through `points`, which are ordered by time.
    ///
    /// No line of the result is wider than the chart; each ends in a newline. Numbers
    /// that are not finite are missing values. Without any value the result is the
    /// title and `(no values)`.
    pub fn render(&self, points: &[Point]) -> String {
        self.render_all(&[points])
    }

    /// Draws several lines on the same axes, as [`render`](Self::render) draws one.
    pub fn render_all(&self, lines: &[&[Point]]) -> String {
        let lines: Vec<Vec<Point>> = lines.iter().map(|points| finite(points)).collect();
        let all = lines.concat();
        let mut out = self.heading();
        let Some(range) = axis::range(all.iter().filter_map(|&(_, value)| value)) else {
            out.push_str("(no values)\n");
            return out;
        };
        let range = if self.from_zero { with_zero(range.0, range.1) } else { range };
        let rows = self.rows();
        let scale = Scale::new(range, rows);
        let labels = scale.labels(rows);
        let margin = labels.iter().flatten().map(String::len).max().unwrap_or(0);
        let columns = self.columns(margin);
        let span = axis::time_span(&all);
        let mut canvas = Canvas::new(columns, rows);
        for points in &lines {
            draw(&mut canvas, points, &scale, span);
        }
        for (row, label) in labels.iter().enumerate() {
            let edge = if label.is_some() { '\u{2524}' } else { '\u{2502}' };
            let line =
                format!("{:>margin$} {edge}{}", label.as_deref().unwrap_or(""), canvas.row(row));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        self.push_times(&mut out, span, margin, columns);
        out
    }

    /// Returns the lines of the drawing itself.
    fn rows(&self) -> usize {
        self.height - 2 - usize::from(!self.title.is_empty())
    }

    /// Returns the columns of the drawing itself, next to labels of this width.
    fn columns(&self, margin: usize) -> usize {
        self.width.saturating_sub(margin + 2).max(8)
    }

    fn heading(&self) -> String {
        if self.title.is_empty() {
            return String::new();
        }
        let title: String = self.title.chars().take(self.width).collect();
        format!("{title}\n")
    }

    /// Appends the time axis and the labels of its ticks.
    fn push_times(&self, out: &mut String, span: (f64, f64), margin: usize, columns: usize) {
        let ticks = match &self.time_label {
            Some(label) => TimeTicks::new(span, 0.0, columns, label),
            None => TimeTicks::new(span, span.0, columns, &elapsed),
        };
        let inside = self.marks.iter().filter(|mark| (span.0..=span.1).contains(*mark));
        let marks: Vec<usize> = inside.map(|&mark| axis::position(mark, span, columns)).collect();
        let mut line = String::new();
        for (column, c) in ticks.line().chars().enumerate() {
            line.push(if marks.contains(&column) { '\u{25b2}' } else { c });
        }
        let _ = writeln!(out, "{:margin$} \u{2514}{line}", "");
        let _ = writeln!(out, "{:margin$}  {}", "", ticks.labels());
    }
}

/// Extends a range to zero; 0 to 1 if it would be empty.
fn with_zero(low: f64, high: f64) -> (f64, f64) {
    let low = low.min(0.0);
    let high = high.max(0.0);
    (low, if low < high { high } else { 1.0 })
}

fn finite(points: &[Point]) -> Vec<Point> {
    let points = points.iter().filter(|(time, _)| time.is_finite());
    points.map(|&(time, value)| (time, value.filter(|v| v.is_finite()))).collect()
}

fn draw(canvas: &mut Canvas, points: &[Point], scale: &Scale, span: (f64, f64)) {
    let mut pen: Option<(usize, usize)> = None;
    for &(time, value) in points {
        let dot = value.map(|value| {
            (axis::position(time, span, canvas.dots_wide()), scale.dot(value, canvas.dots_high()))
        });
        if let Some(to) = dot {
            canvas.line(pen.unwrap_or(to), to);
        }
        pen = dot;
    }
}

/// Draws a line of `width` block characters, whose range is from the smallest value, or
/// zero if that is lower, to the largest.
///
/// Each column shows the mean of the points in its part of the time; a column
/// without a value is blank. Equal values that are not above zero are the lowest
/// blocks.
///
/// ```
/// use mmv_chart::sparkline;
///
/// let points = [(0.0, Some(0.0)), (1.0, Some(4.0)), (2.0, None), (3.0, Some(8.0))];
/// assert_eq!(sparkline(&points, 4), "\u{2581}\u{2584} \u{2588}");
/// ```
pub fn sparkline(points: &[Point], width: usize) -> String {
    let points = finite(points);
    let Some((low, high)) = axis::range(points.iter().filter_map(|&(_, value)| value)) else {
        return " ".repeat(width);
    };
    let low = low.min(0.0);
    let span = axis::time_span(&points);
    let mut columns = vec![(0.0, 0u32); width];
    for (time, value) in points {
        if let (Some(value), Some((sum, count))) =
            (value, columns.get_mut(axis::position(time, span, width)))
        {
            *sum += value;
            *count += 1;
        }
    }
    let mut line = String::new();
    for (sum, count) in columns {
        if count == 0 {
            line.push(' ');
            continue;
        }
        // Halves, since the difference of two doubles can be infinite.
        let part = (sum / f64::from(count) / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
        let part = if part.is_nan() { 0.0 } else { part };
        let eighths = (part * 8.0).round().clamp(1.0, 8.0);
        line.push(char::from_u32(0x2580 + eighths as u32).unwrap_or(' '));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(count: u32) -> Vec<Point> {
        (0..count)
            .map(|i| (f64::from(i), Some((f64::from(i) / 10.0).sin() * 50.0 + 50.0)))
            .collect()
    }

    fn is_dots(c: char) -> bool {
        ('\u{2801}'..='\u{28ff}').contains(&c)
    }

    #[test]
    fn a_chart_has_the_given_width_and_height() {
        for (width, height) in [(24, 6), (60, 12), (100, 30)] {
            let text = Chart::new(width, height).title("load").render(&wave(200));
            assert_eq!(text.lines().count(), height);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn missing_values_are_a_gap() {
        let mut points = wave(100);
        for point in &mut points[40..60] {
            point.1 = None;
        }
        let text = Chart::new(80, 10).render(&points);
        let drawn =
            |column: usize| text.lines().any(|line| line.chars().nth(column).is_some_and(is_dots));
        let left = text.lines().next().unwrap().chars().position(|c| c == '\u{2524}').unwrap() + 1;
        let columns = 80 - left;
        let at = |part: f64| left + (part * (columns as f64 - 1.0)) as usize;
        assert!(drawn(at(0.3)) && drawn(at(0.7)));
        assert!(!drawn(at(0.45)) && !drawn(at(0.5)) && !drawn(at(0.55)), "{text}");
    }

    #[test]
    fn largest_value_is_at_the_top() {
        let points = [(0.0, Some(0.0)), (1.0, Some(100.0))];
        let text = Chart::new(40, 8).render(&points);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("100 "), "{text}");
        assert!(lines[0].chars().last().is_some_and(is_dots), "{text}");
        assert!(lines[5].starts_with("  0 \u{2524}"), "{text}");
        assert!(lines[5].chars().nth(5).is_some_and(is_dots), "{text}");
    }

    #[test]
    fn without_values_a_chart_is_one_line() {
        assert_eq!(Chart::new(40, 8).title("x").render(&[(0.0, None)]), "x\n(no values)\n");
        assert_eq!(Chart::new(40, 8).render(&[(0.0, Some(f64::NAN))]), "(no values)\n");
    }

    #[test]
    fn a_constant_is_a_level_line() {
        let points = [(0.0, Some(7.0)), (10.0, Some(7.0))];
        let text = Chart::new(40, 8).render(&points);
        let drawn = text.lines().filter(|line| line.chars().any(is_dots)).count();
        assert_eq!(drawn, 1, "{text}");
    }

    #[test]
    fn lines_share_their_axes_and_marks_are_on_the_axis_of_time() {
        let low = [(0.0, Some(0.0)), (10.0, Some(0.0))];
        let high = [(0.0, Some(100.0)), (10.0, Some(100.0))];
        let chart = Chart::new(40, 8).marks(&[5.0, 11.0]);
        let text = chart.render_all(&[&low, &high]);
        let drawn: Vec<bool> = text.lines().map(|line| line.chars().any(is_dots)).collect();
        assert_eq!(drawn, [true, false, false, false, false, true, false, false], "{text}");
        let axis = text.lines().nth(6).unwrap();
        assert_eq!(axis.matches('\u{25b2}').count(), 1, "{text}");
        let place = axis.chars().position(|c| c == '\u{25b2}').unwrap();
        assert!((20..25).contains(&place), "{text}");
    }

    #[test]
    fn extreme_numbers_do_not_break_the_drawing() {
        for values in [[f64::MAX, f64::MIN], [5e-324, 0.0], [1e300, 1e300], [-0.0, 0.0]] {
            let points = [(0.0, Some(values[0])), (1e12, Some(values[1]))];
            let text = Chart::new(40, 8).from_zero(true).render(&points);
            assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        }
    }

    #[test]
    fn a_sparkline_has_the_given_width() {
        assert_eq!(sparkline(&wave(100), 30).chars().count(), 30);
        assert_eq!(sparkline(&[], 3), "   ");
    }

    #[test]
    fn a_sparkline_of_one_value_is_level() {
        let level = |value| sparkline(&[(0.0, Some(value)), (1.0, Some(value))], 2);
        assert_eq!(level(0.0), "\u{2581}\u{2581}");
        assert_eq!(level(-5.0), "\u{2581}\u{2581}");
        assert_eq!(level(5.0), "\u{2588}\u{2588}");
        let extremes = [(0.0, Some(f64::MIN)), (1.0, Some(f64::MAX))];
        assert_eq!(sparkline(&extremes, 2), "\u{2581}\u{2588}");
    }

    #[test]
    fn an_axis_from_zero_does_not_go_below_zeros() {
        let zeros = [(0.0, Some(0.0)), (10.0, Some(0.0))];
        let text = Chart::new(40, 8).from_zero(true).render(&zeros);
        assert!(!text.contains('-'), "{text}");
        let lowest = text.lines().nth(5).unwrap();
        assert!(lowest.contains('0') && lowest.chars().any(is_dots), "{text}");
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
