//! Units of metrics, and the conversion of amounts to the whole numbers of counters and histograms.

use mmv_writer::Units;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The units of a metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    units: Units,
    /// Number of these units in one of the program's.
    factor: f64,
}

impl Unit {
    /// Makes the units of a gauge, whose values are not converted.
    pub(crate) fn of_gauge(text: Option<&str>) -> PyResult<Self> {
        let units = text.map_or(Ok(Units::NONE), parse)?;
        Ok(Self { units, factor: 1.0 })
    }

    /// Makes the units of a counter or a histogram: times are kept in nanoseconds.
    pub(crate) fn whole(text: &str) -> PyResult<Self> {
        let units = parse(text)?;
        let dimensions = (units.space_dimension(), units.time_dimension(), units.count_dimension());
        Ok(match (dimensions, units.time_scale_in_seconds()) {
            ((0, 1, 0), Some(seconds)) => {
                Self { units: Units::nanoseconds(), factor: (seconds * 1e9).round() }
            }
            _ => Self { units, factor: 1.0 },
        })
    }

    pub(crate) fn units(self) -> Units {
        self.units
    }

    /// Returns true if values are kept as times in nanoseconds.
    pub(crate) fn is_time(self) -> bool {
        self.units == Units::nanoseconds()
    }

    /// Returns one of the program's units, in those of the metric.
    #[inline]
    pub(crate) fn one(self) -> u64 {
        self.factor as u64
    }

    /// Converts an amount to be added to a count. `None` for what is not such an amount: a negative
    /// number, a fraction where things are counted, NaN, infinity.
    pub(crate) fn amount(self, amount: f64) -> Option<u64> {
        let converted = amount * self.factor;
        let is_whole = self.factor > 1.0 || converted.fract() == 0.0;
        let is_in_range = (0.0..u64::MAX as f64).contains(&converted);
        (is_whole && is_in_range).then_some(converted.round() as u64)
    }

    /// Converts a value of a distribution: a negative one is 0, as of a clock that was set back.
    /// `None` for NaN.
    #[inline]
    pub(crate) fn value(self, value: f64) -> Option<u64> {
        if value.is_nan() { None } else { Some((value * self.factor).round() as u64) }
    }

    /// Converts what is in the file to the program's units.
    pub(crate) fn in_program(self, value: u64) -> f64 {
        value as f64 / self.factor
    }
}

fn parse(text: &str) -> PyResult<Units> {
    text.parse().map_err(|error| PyValueError::new_err(format!("unit: {error}")))
}
