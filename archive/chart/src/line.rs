//! Lines of a chart, and the choice of the largest.

use crate::Point;

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The name in the legend.
    pub label: String,
    /// Ordered by time.
    pub points: Vec<Point>,
    /// The line is the sum of several lines.
    pub is_sum: bool,
}

impl Line {
    /// The mean of the values; `None` without any.
    ///
    /// ```
    /// use mmv_chart::Line;
    ///
    /// let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(4.0))];
    /// let line = Line { label: "x".to_owned(), points, is_sum: false };
    /// assert_eq!(line.mean(), Some(2.5));
    /// ```
    pub fn mean(&self) -> Option<f64> {
        let values = self.points.iter().filter_map(|&(_, value)| value);
        let (sum, count) = values.fold((0.0, 0u32), |(sum, count), v| (sum + v, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }
}

/// The `count` lines with the largest means, largest first, and one more line with
/// the sum of all others, `"38 others, summed"`. Lines without a value are dropped.
/// A single other line is returned unchanged.
///
/// The lines must have the same times. A sum has a gap where none of its lines has
/// a value.
pub fn top_by_mean(lines: Vec<Line>, count: usize) -> Vec<Line> {
    let mut lines = ranked(lines);
    if lines.len() > count + 1 {
        let others = lines.split_off(count);
        lines.extend(sum(&others));
    }
    lines
}

/// The lines with values, those with the largest means first.
pub fn ranked(lines: Vec<Line>) -> Vec<Line> {
    let mut ranked: Vec<(f64, Line)> =
        lines.into_iter().filter_map(|line| Some((line.mean()?, line))).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ranked.into_iter().map(|(_, line)| line).collect()
}

fn sum(lines: &[Line]) -> Option<Line> {
    let mut points = lines.first()?.points.clone();
    for line in lines.iter().skip(1) {
        for (point, &(_, value)) in points.iter_mut().zip(&line.points) {
            point.1 = match (point.1, value) {
                (Some(sum), Some(value)) => Some(sum + value),
                (sum, value) => sum.or(value),
            };
        }
    }
    Some(Line { label: format!("{} others, summed", lines.len()), points, is_sum: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, values: [Option<f64>; 2]) -> Line {
        let points = values.into_iter().enumerate().map(|(at, value)| (at as f64, value));
        Line { label: label.to_owned(), points: points.collect(), is_sum: false }
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

    #[test]
    fn a_sum_has_gaps_only_where_all_lines_have() {
        let lines = [line("a", [None, Some(1.0)]), line("b", [None, None])];
        assert_eq!(sum(&lines).unwrap().points, [(0.0, None), (1.0, Some(1.0))]);
    }
}
