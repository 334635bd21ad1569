//! Heat maps: how much is where, over time and over the logarithm of values.

use std::fmt::Write as _;

use crate::{Chart, axis};

/// Lower bound of the logarithmic axis: zero is drawn below one.
const MIN_VALUE: f64 = 0.5;
/// Characters from nothing to the most.
const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// Colors of a terminal with 256 of them, from little to much.
const COLORS: [u8; 11] = [17, 53, 89, 125, 161, 197, 203, 209, 215, 221, 227];

/// A count in a span of time and a range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatCell {
    /// First and last time.
    pub time: (f64, f64),
    /// The range of values, without its end.
    pub value: (f64, f64),
    /// A number greater than 0.
    pub count: f64,
}

/// Counts on a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatGrid {
    /// The largest count.
    pub largest: f64,
    /// The counts as parts of the largest one, from 0 to 1, in lines.
    pub shares: Vec<Vec<f64>>,
}

/// The axes of a heat map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatAxes {
    /// The first and the last time.
    pub span: (f64, f64),
    low: f64,
    high: f64,
}

impl HeatAxes {
    /// Returns axes with room for all cells; `None` without cells.
    pub fn from_cells(cells: &[HeatCell]) -> Option<Self> {
        let counted = cells.iter().filter(|cell| cell.count > 0.0);
        let times = counted.clone().flat_map(|cell| [cell.time.0, cell.time.1]);
        let values = counted.flat_map(|cell| [cell.value.0, cell.value.1]);
        let span = axis::range(times.filter(|time| time.is_finite()))?;
        let (low, high) = axis::range(values.filter(|value| value.is_finite()))?;
        let low = low.max(MIN_VALUE);
        let high = high.max(2.0 * MIN_VALUE);
        Some(Self {
            span,
            low: low.ln(),
            high: if low < high { high.ln() } else { low.ln() + 1.0 },
        })
    }

    /// Returns the axes with another span of time.
    #[must_use]
    pub fn over(self, span: (f64, f64)) -> Self {
        Self { span, ..self }
    }

    /// Returns the position of a value, from 0 for the smallest to 1 for the largest.
    pub fn height(&self, value: f64) -> f64 {
        (value.max(MIN_VALUE).ln() - self.low) / (self.high - self.low)
    }

    /// Returns about `wanted` round values and their labels, lowest first; the middle if no round
    /// value is inside.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let steps: &[f64] = if wanted as f64 >= 3.0 * decades { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let skipped = (decades / wanted.max(1) as f64).ceil().max(1.0) as i32;
        let powers = (0..20).filter(|power| power % skipped == 0);
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        let inside = all.filter(|value| (0.0..=1.0).contains(&self.height(*value)));
        let mut inside: Vec<f64> = inside.collect();
        if inside.is_empty() {
            // No round value is within one bucket.
            inside.push(f64::midpoint(self.low, self.high).exp());
        }
        inside.into_iter().map(|value| (value, label(value))).collect()
    }

    /// Returns the counts on a grid of `rows` lines, the highest values first, of `columns` parts of
    /// the time.
    pub fn grid(&self, cells: &[HeatCell], columns: usize, rows: usize) -> HeatGrid {
        let mut grid = vec![vec![0.0; columns]; rows];
        let length = self.span.1 - self.span.0;
        for cell in cells.iter().filter(|cell| cell.count > 0.0) {
            let across = if length > 0.0 {
                let begin = (cell.time.0 - self.span.0) / length;
                let end = (cell.time.1 - self.span.0) / length;
                covered(begin, end, columns)
            } else {
                covered(0.0, 0.0, columns)
            };
            let up = covered(self.height(cell.value.0), self.height(cell.value.1), rows);
            for row in up {
                let line = grid.get_mut(rows - 1 - row).map(Vec::as_mut_slice);
                let line = line.and_then(|line| line.get_mut(across.clone()));
                line.into_iter().flatten().for_each(|share| *share += cell.count);
            }
        }
        let largest = grid.iter().flatten().fold(0.0, |most: f64, count| most.max(*count));
        grid.iter_mut().flatten().for_each(|count| *count /= largest.max(f64::MIN_POSITIVE));
        HeatGrid { largest, shares: grid }
    }
}

/// Returns those of `cells` equal parts of 0 to 1 whose centers are between two positions, or the
/// part with the middle of the two if there is none.
fn covered(low: f64, high: f64, cells: usize) -> std::ops::Range<usize> {
    let low = low * cells as f64;
    let high = high * cells as f64;
    let first = (low - 0.5).ceil().max(0.0) as usize;
    let end = ((high - 0.5).ceil() as usize).min(cells);
    if first < end {
        return first..end;
    }
    let middle = (f64::midpoint(low, high).max(0.0) as usize).min(cells.saturating_sub(1));
    middle..(middle + 1).min(cells)
}

/// Formats a round value in at most a few characters: `500`, `20k`, `1M`.
fn label(value: f64) -> String {
    let thousands = ((value.log10() + 1e-9) / 3.0).max(0.0) as usize;
    let suffix = ["", "k", "M", "G", "T", "P"].get(thousands).copied();
    match suffix {
        Some(suffix) => format!("{}{suffix}", (value / 1000f64.powi(thousands as i32)).round()),
        None => format!("{value:.0e}"),
    }
}

impl Chart<'_> {
    /// Draws a heat map: time from left to right, values on a logarithmic axis, and how much
    /// was counted as a character, or with `colored` as the background of a blank.
    ///
    /// Lines are no wider than the chart, not counting the codes of colors.
    pub fn render_heat(&self, cells: &[HeatCell], colored: bool) -> String {
        let mut out = self.heading();
        let Some(axes) = HeatAxes::from_cells(cells) else {
            out.push_str("(no values)\n");
            return out;
        };
        let rows = self.rows();
        let mut labels: Vec<Option<String>> = vec![None; rows];
        for (value, text) in axes.ticks(rows / 2) {
            let row = (axes.height(value) * rows as f64) as usize;
            if let Some(label) = labels.get_mut(rows - 1 - row.min(rows - 1)) {
                let text = self.value_label.as_ref().map_or(text, |format| format(value));
                label.get_or_insert(text);
            }
        }
        let margin = labels.iter().flatten().map(|label| label.chars().count()).max().unwrap_or(0);
        let columns = self.columns(margin);
        for (label, shares) in labels.iter().zip(axes.grid(cells, columns, rows).shares) {
            let edge = if label.is_some() { '\u{2524}' } else { '\u{2502}' };
            let shaded = if colored { colors(&shares) } else { characters(&shares) };
            let line = format!("{:>margin$} {edge}{shaded}", label.as_deref().unwrap_or(""));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        self.push_times(&mut out, axes.span, margin, columns);
        out
    }
}

/// Returns which of `steps` shades stands for a share above 0. By its square root, so that small
/// shares are visible.
fn step(share: f64, steps: usize) -> usize {
    ((share.sqrt() * steps as f64) as usize).min(steps - 1)
}

fn characters(shares: &[f64]) -> String {
    let mut out = String::new();
    for &share in shares {
        let shade = if share > 0.0 { 1 + step(share, SHADES.len() - 1) } else { 0 };
        out.extend(SHADES.get(shade));
    }
    out
}

fn colors(shares: &[f64]) -> String {
    let mut out = String::new();
    let mut last = None;
    for &share in shares {
        let color = if share > 0.0 { COLORS.get(step(share, COLORS.len())) } else { None };
        if color != last {
            let code = color.map_or("0".to_owned(), |color| format!("48;5;{color}"));
            let _ = write!(out, "\u{1b}[{code}m");
        }
        out.push(' ');
        last = color;
    }
    if last.is_some() {
        out.push_str("\u{1b}[0m");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(time: f64, value: (f64, f64), count: f64) -> HeatCell {
        HeatCell { time: (time, time + 1.0), value, count }
    }

    /// Ten seconds: 100 of 10..20 in each, and in the last one 4 of 1000..2000.
    fn cells() -> Vec<HeatCell> {
        let mut cells: Vec<_> = (0..10).map(|t| cell(f64::from(t), (10.0, 20.0), 100.0)).collect();
        cells.push(cell(9.0, (1000.0, 2000.0), 4.0));
        cells
    }

    #[test]
    fn cells_are_where_their_times_and_values_are() {
        let cells = cells();
        let axes = HeatAxes::from_cells(&cells).unwrap();
        assert_eq!(axes.span, (0.0, 10.0));
        // From 10 to 2000 are 7.64 doublings, a line for each.
        let grid = axes.grid(&cells, 10, 8);
        assert!((grid.largest - 100.0).abs() < 1e-9);
        let grid = grid.shares;
        assert_eq!(grid[7], [1.0; 10]);
        assert!((grid[0][9] - 0.04).abs() < 1e-9);
        assert!(grid[0][..9].iter().chain(&grid[4]).all(|share| *share == 0.0), "{grid:?}");
        let ticks: Vec<String> = axes.ticks(8).into_iter().map(|(_, label)| label).collect();
        assert_eq!(ticks, ["10", "20", "50", "100", "200", "500", "1k", "2k"]);
        assert_eq!(axes.ticks(3).len(), 3, "powers of ten");
    }

    #[test]
    fn a_map_of_one_bucket_has_a_label() {
        let axes = HeatAxes::from_cells(&[cell(0.0, (36.0, 40.0), 1.0)]).unwrap();
        let ticks = axes.ticks(8);
        assert_eq!(ticks.len(), 1);
        assert!((37.0..39.0).contains(&ticks[0].0) && ticks[0].1 == "38", "{ticks:?}");
    }

    #[test]
    fn parts_of_a_map_add_up_and_wide_cells_fill_it() {
        let narrow: Vec<_> = (0..100).map(|t| cell(f64::from(t), (1.0, 2.0), 1.0)).collect();
        let axes = HeatAxes::from_cells(&narrow).unwrap();
        assert_eq!(axes.grid(&narrow, 10, 1).shares, [[1.0; 10]]);
        let wide = [cell(0.0, (1.0, 1024.0), 3.0)];
        let axes = HeatAxes::from_cells(&wide).unwrap();
        assert_eq!(axes.grid(&wide, 4, 5).shares, [[1.0; 4]; 5]);
    }

    #[test]
    fn a_map_is_text_of_the_given_size() {
        let chart = Chart::new(40, 10).title("latency");
        let plain = chart.render_heat(&cells(), false);
        assert_eq!(plain.lines().count(), 10);
        assert!(plain.lines().all(|line| line.chars().count() <= 40), "{plain}");
        let rows: Vec<&str> = plain.lines().skip(1).take(7).collect();
        assert!(rows[6].ends_with("@@@@@@@@@@") && rows[0].ends_with(" ::::"), "{plain}");
        let colored = chart.render_heat(&cells(), true);
        assert!(colored.contains("\u{1b}[48;5;227m") && !colored.contains('@'), "{colored}");
        let open = colored.lines().filter(|line| line.contains("[48;5;"));
        assert!(open.clone().count() >= 2 && open.clone().all(|line| line.ends_with("\u{1b}[0m")));
        assert_eq!(chart.render_heat(&[], false), "latency\n(no values)\n");
    }

    #[test]
    fn extreme_cells_do_not_break_the_map() {
        for (low, high) in [(0.0, 0.0), (0.0, 1.0), (1.0, f64::MAX), (f64::NAN, f64::INFINITY)] {
            let cells = [cell(0.0, (low, high), 1.0), cell(1e12, (low, high), f64::MAX)];
            let text = Chart::new(40, 8).render_heat(&cells, false);
            assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        }
    }
}
