//! The shape of a change: where it begins, and where it has its full size.
//!
//! A constant, a straight line and another constant, joined, are fitted by least squares for each
//! pair of places at which the line may begin and end. A step is a line of length 0; a ramp that has
//! not ended extends to the last value. **Source**: J. D. Toms and M. L. Lesperance, "Piecewise
//! regression", Ecology 84 (2003), for thresholds that are found by trying all of them.

/// Least difference between twice the log-likelihoods of a ramp and a step, for a ramp.
const MIN_RAMP_GAIN: f64 = 20.0;
/// Limit on the places that are tried for each end of a ramp; others are between them.
const MAX_TRIED: usize = 128;
/// Precision of the ends of a ramp, in values.
const PRECISION: f64 = 0.05;

/// The fitted shape. Places are indices of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Onset {
    /// First value that differs; for a ramp it may be between two.
    pub(super) begin: f64,
    /// The first value of the new level; that of `begin` for a step.
    pub(super) full: f64,
}

impl Onset {
    /// Returns the first value that differs: at the beginning of a ramp none does yet.
    pub(super) fn first_changed(&self) -> usize {
        if self.full > self.begin {
            (self.begin + 2.0 * PRECISION) as usize + 1
        } else {
            self.begin as usize
        }
    }
}

/// Sums from the first value up to each.
struct Sums {
    values: Vec<f64>,
    products: Vec<f64>,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        let mut sums = Self { values: vec![0.0], products: vec![0.0] };
        let mut sum = 0.0;
        let mut product = 0.0;
        for (place, value) in values.iter().enumerate() {
            sum += value;
            product += value * place as f64;
            sums.values.push(sum);
            sums.products.push(product);
        }
        sums
    }

    /// Returns the sum of the values of a range, and of their products with their places.
    fn sums_of_range(&self, begin: usize, end: usize) -> (f64, f64) {
        let at = |sums: &[f64], place: usize| sums.get(place).copied().unwrap_or_default();
        (
            at(&self.values, end) - at(&self.values, begin),
            at(&self.products, end) - at(&self.products, begin),
        )
    }
}

/// Returns the onset that leaves the least squares; `None` with fewer than 4 values.
pub(super) fn fit_onset(values: &[f64]) -> Option<Onset> {
    let count = values.len();
    if count < 4 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let total: f64 = centred.iter().map(|value| value * value).sum();
    let sums = Sums::new(&centred);
    let step = best_step(&sums, count);
    let step_onset = Onset { begin: step.1 as f64, full: step.1 as f64 };
    let stride = count.div_ceil(MAX_TRIED);
    let mut ramp = (0.0, step_onset);
    for begin in (0..count - 1).step_by(stride) {
        for full in (begin + 2 * stride..count + stride).step_by(stride) {
            let onset = Onset { begin: begin as f64, full: full.min(count) as f64 };
            let explained = explained_squares(&sums, count, onset.begin, onset.full);
            if explained > ramp.0 {
                ramp = (explained, onset);
            }
        }
    }
    let step_squares = (total - step.0).max(total * f64::EPSILON);
    let ramp_squares = (total - ramp.0).max(total * f64::EPSILON);
    if (step_squares / ramp_squares).ln() * (count as f64) < MIN_RAMP_GAIN {
        return Some(step_onset);
    }
    Some(refined_ramp(&sums, count, ramp.1, stride as f64))
}

/// Returns the first value of the new level of the step that leaves the least squares.
pub(super) fn fit_step(values: &[f64]) -> Option<usize> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let (explained, begin) = best_step(&Sums::new(&centred), values.len());
    (explained > 0.0).then_some(begin)
}

/// Returns the squares that the best step explains, and its place.
fn best_step(sums: &Sums, count: usize) -> (f64, usize) {
    let mut best = (0.0, 1);
    for begin in 1..count {
        let explained = explained_squares(sums, count, begin as f64, begin as f64);
        if explained > best.0 {
            best = (explained, begin);
        }
    }
    best
}

/// Moves the ends of a ramp by ever smaller distances as long as that explains more.
fn refined_ramp(sums: &Sums, count: usize, mut onset: Onset, stride: f64) -> Onset {
    let mut distance = stride;
    let mut best = explained_squares(sums, count, onset.begin, onset.full);
    while distance > PRECISION {
        let mut is_better = false;
        for (begin, full) in [
            (-distance, 0.0),
            (distance, 0.0),
            (0.0, -distance),
            (0.0, distance),
            (distance, distance),
            (-distance, -distance),
        ] {
            let moved = Onset {
                begin: (onset.begin + begin).max(0.0),
                full: (onset.full + full).min(count as f64),
            };
            if moved.full < moved.begin + 1.0 {
                continue;
            }
            let explained = explained_squares(sums, count, moved.begin, moved.full);
            if explained > best {
                best = explained;
                onset = moved;
                is_better = true;
            }
        }
        if !is_better {
            distance /= 2.0;
        }
    }
    onset
}

/// Returns the squares that a regression on the shape explains. The values have a mean of 0.
fn explained_squares(sums: &Sums, count: usize, begin: f64, full: f64) -> f64 {
    let first = begin.ceil() as usize;
    let after = (full.ceil() as usize).clamp(first, count);
    // The shape is 0 before `first`, 1 from `after` on, and rises between.
    let ramp = (after - first) as f64;
    let slope = if ramp > 0.0 { 1.0 / (full - begin) } else { 0.0 };
    let places = ramp * (first + after).saturating_sub(1) as f64 / 2.0;
    let squares = squares_below(after) - squares_below(first);
    let level = (count - after) as f64;
    let shape_sum = (places - ramp * begin) * slope + level;
    let shape_squares =
        (squares - 2.0 * begin * places + ramp * begin * begin) * slope * slope + level;
    let (ramp_sum, ramp_products) = sums.sums_of_range(first, after);
    let (level_sum, _) = sums.sums_of_range(after, count);
    let products = (ramp_products - begin * ramp_sum) * slope + level_sum;
    let spread = shape_squares - shape_sum * shape_sum / count as f64;
    if spread > 1e-9 { products * products / spread } else { 0.0 }
}

/// Returns the sum of the squares of the numbers below a limit.
fn squares_below(limit: usize) -> f64 {
    let limit = limit as f64;
    (limit - 1.0) * limit * (2.0 * limit - 1.0) / 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_begins_with_the_first_value_of_its_level() {
        let values = [vec![1.0, 2.0, 1.0, 2.0, 1.0, 2.0], vec![9.0, 8.0, 9.0, 8.0]].concat();
        let onset = fit_onset(&values).unwrap();
        assert_eq!(onset, Onset { begin: 6.0, full: 6.0 });
        assert_eq!(onset.first_changed(), 6);
        assert_eq!(fit_step(&values), Some(6));
        // The first value of a ramp is the one after the place where its line begins.
        let ramp = [vec![1.0; 20], vec![6.0], vec![9.0; 8]].concat();
        assert_eq!(fit_onset(&ramp).unwrap().first_changed(), 20);
        assert_eq!(fit_step(&[3.0; 9]), None);
        assert_eq!(fit_onset(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn a_ramp_begins_where_its_line_meets_the_level_before() {
        let values: Vec<f64> = (0..60)
            .map(|place| {
                let rise = (f64::from(place) - 20.5).clamp(0.0, 25.0);
                10.0 + rise + f64::from(place * 7919 % 13) / 130.0
            })
            .collect();
        let onset = fit_onset(&values).unwrap();
        assert!((onset.begin - 20.5).abs() < 0.5 && (onset.full - 45.5).abs() < 0.5, "{onset:?}");
    }

    /// The least squares by the normal equations, for each shape.
    #[test]
    fn squares_are_those_of_a_regression() {
        let values: Vec<f64> = (0..20).map(|place| f64::from(place * 37 % 11)).collect();
        let mean = values.iter().sum::<f64>() / 20.0;
        let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let sums = Sums::new(&centred);
        for (begin, full) in [(4.0, 4.0), (3.0, 9.0), (5.5, 20.0), (0.0, 13.25)] {
            let shape = |place: usize| {
                let place = place as f64;
                if place >= full { 1.0 } else { ((place - begin) / (full - begin)).max(0.0) }
            };
            let shapes: Vec<f64> = (0..20).map(shape).collect();
            let shape_mean = shapes.iter().sum::<f64>() / 20.0;
            let mut products = 0.0;
            let mut squares = 0.0;
            for (value, shape) in centred.iter().zip(&shapes) {
                products += value * (shape - shape_mean);
                squares += (shape - shape_mean).powi(2);
            }
            let expected = products * products / squares;
            let found = explained_squares(&sums, 20, begin, full);
            assert!((found - expected).abs() < 1e-9, "{begin} {full}: {found} {expected}");
        }
    }
}
