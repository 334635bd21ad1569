//! Lines of a chart, and the choice of the largest.

use crate::Point;

/// One line of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// The name in the legend.
    pub label: String,
    /// The points of the line, ordered by time.
    pub points: Vec<Point>,
    /// Minimum and maximum at each point that stands for several values; empty if none does.
    pub spreads: Vec<Option<(f64, f64)>>,
    /// Whether the line is the sum of several lines.
    pub is_sum: bool,
}

impl Line {
    /// Returns the mean of the values; `None` without values.
    ///
    /// ```
    /// use mmv_chart::Line;
    ///
    /// let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(4.0))];
    /// let line = Line { label: "x".to_owned(), points, ..Line::default() };
    /// assert_eq!(line.mean(), Some(2.5));
    /// ```
    pub fn mean(&self) -> Option<f64> {
        let values = self.points.iter().filter_map(|&(_, value)| value);
        let (sum, count) = values.fold((0.0, 0u32), |(sum, count), v| (sum + v, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Returns the points to draw the line through, including the minimum and maximum of spreads.
    ///
    /// ```
    /// use mmv_chart::Line;
    ///
    /// let points = vec![(0.0, Some(1.0)), (1.0, Some(2.0))];
    /// let line = Line { points, spreads: vec![None, Some((0.0, 9.0))], ..Line::default() };
    /// let drawn: Vec<f64> = line.drawn().iter().filter_map(|(_, value)| *value).collect();
    /// assert_eq!(drawn, [1.0, 2.0, 0.0, 9.0, 2.0]);
    /// ```
    pub fn drawn(&self) -> Vec<Point> {
        let spreads = self.spreads.iter().copied().chain(std::iter::repeat(None));
        let all = self.points.iter().zip(spreads);
        let drawn = all.flat_map(|(&(time, value), spread)| {
            let extremes = value.and(spread).map(|(least, greatest)| [least, greatest]);
            let back = extremes.and(value);
            let values = extremes.into_iter().flatten().chain(back);
            std::iter::once((time, value)).chain(values.map(move |value| (time, Some(value))))
        });
        drawn.collect()
    }
}

/// Returns the `count` lines with the largest means, largest first, and one more line with
/// the sum of all others, `"38 others, summed"`. Lines without a value are dropped.
/// A single other line is returned unchanged.
///
/// The lines must have the same times. A sum has a gap where one of its lines has one, which
/// is a time without a value between its first and its last one: otherwise the sum would drop
/// during the gap. Before its first value and after its last one a line is not part of the sum;
/// where no line is, the sum has no value.
pub fn top_by_mean(lines: Vec<Line>, count: usize) -> Vec<Line> {
    let mut lines = ranked(lines);
    if lines.len() > count + 1 {
        let others = lines.split_off(count);
        lines.extend(sum_of_others(&others, others.len()));
    }
    lines
}

/// Returns the lines with values, those with the largest means first.
pub fn ranked(lines: Vec<Line>) -> Vec<Line> {
    let mut ranked: Vec<(f64, Line)> =
        lines.into_iter().filter_map(|line| Some((line.mean()?, line))).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ranked.into_iter().map(|(_, line)| line).collect()
}

/// Returns the sum of lines that stand for `count` others, with the gaps of [`top_by_mean`].
pub fn sum_of_others(lines: &[Line], count: usize) -> Option<Line> {
    let mut points: Vec<Point> =
        lines.first()?.points.iter().map(|&(time, _)| (time, None)).collect();
    let mut has_gap = vec![false; points.len()];
    for line in lines {
        let first = line.points.iter().position(|(_, value)| value.is_some());
        let last = line.points.iter().rposition(|(_, value)| value.is_some());
        let Some(span) = first.zip(last).map(|(first, last)| first..=last) else { continue };
        let all = points.iter_mut().zip(&mut has_gap).zip(&line.points).enumerate();
        for (_, ((point, has_gap), (_, value))) in all.filter(|(place, _)| span.contains(place)) {
            match value {
                Some(value) => point.1 = Some(point.1.unwrap_or(0.0) + value),
                None => *has_gap = true,
            }
        }
    }
    for (point, _) in points.iter_mut().zip(has_gap).filter(|(_, has_gap)| *has_gap) {
        point.1 = None;
    }
    Some(Line { label: format!("{count} others, summed"), points, is_sum: true, ..Line::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, values: [Option<f64>; 2]) -> Line {
        let points = values.into_iter().enumerate().map(|(at, value)| (at as f64, value));
        Line { label: label.to_owned(), points: points.collect(), ..Line::default() }
    }

    #[test]
    fn the_largest_are_kept_and_the_others_summed() {
        let lines = vec![
            line("small", [Some(1.0), None]),
            line("large", [Some(9.0), Some(9.0)]),
            line("empty", [None, None]),
            line("middle", [Some(2.0), Some(3.0)]),
        ];
        let top = top_by_mean(lines.clone(), 1);
        let others = Line { is_sum: true, ..line("2 others, summed", [Some(3.0), Some(3.0)]) };
        assert_eq!(top, [line("large", [Some(9.0), Some(9.0)]), others]);
        let labels: Vec<String> =
            top_by_mean(lines, 2).into_iter().map(|line| line.label).collect();
        assert_eq!(labels, ["large", "middle", "small"], "no sum of one");
    }

    /// Two programs with two metrics each; b is away from 2 to 3 and begins at 1.
    #[test]
    fn a_sum_has_a_gap_where_one_of_its_lines_has_one() {
        let line = |label: &str, values: [Option<f64>; 6]| {
            let points = values.into_iter().enumerate().map(|(at, value)| (at as f64, value));
            Line { label: label.to_owned(), points: points.collect(), ..Line::default() }
        };
        let a = line("a", [Some(1.0), Some(1.0), Some(2.0), Some(2.0), Some(1.0), None]);
        let b = line("b", [None, Some(5.0), None, None, Some(6.0), None]);
        let none = line("none", [None; 6]);
        let values = |lines: &[Line]| -> Vec<Option<f64>> {
            sum_of_others(lines, lines.len())
                .unwrap()
                .points
                .iter()
                .map(|(_, value)| *value)
                .collect()
        };
        let expected = [Some(1.0), Some(6.0), None, None, Some(7.0), None];
        assert_eq!(values(&[a.clone(), b.clone(), none.clone()]), expected);
        assert_eq!(values(&[b, a]), expected, "in any order");
        assert_eq!(values(&[none]), [None; 6]);
    }
}
