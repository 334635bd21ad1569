//! Conversion of the facade's units to PCP's.

use metrics::Unit;
use mmv_writer::Units;

/// Returns the units of a counter or gauge, whose numbers are not converted. What PCP has no
/// units for (percent, bits) is a plain number.
pub(crate) fn from_facade(unit: Option<Unit>) -> Units {
    match unit {
        Some(Unit::Count) => Units::count(),
        Some(Unit::CountPerSecond) => Units::count().per_second(),
        Some(Unit::Seconds) => Units::seconds(),
        Some(Unit::Milliseconds) => Units::milliseconds(),
        Some(Unit::Microseconds) => Units::microseconds(),
        Some(Unit::Nanoseconds) => Units::nanoseconds(),
        Some(Unit::Bytes) => Units::bytes(),
        Some(Unit::Kibibytes) => Units::kilobytes(),
        Some(Unit::Mebibytes) => Units::megabytes(),
        Some(Unit::Gibibytes) => scaled([1, 0, 0], [3, 0, 0]),
        Some(Unit::Tebibytes) => scaled([1, 0, 0], [4, 0, 0]),
        _ => Units::NONE,
    }
}

/// Returns the units of a histogram, and the factor that converts values to them: buckets are
/// of whole numbers.
pub(crate) fn histogram_units(unit: Option<Unit>) -> (Units, f64) {
    let kibi = 1024.0f64;
    let bytes = Units::bytes();
    match unit {
        Some(Unit::Count) => (Units::count(), 1.0),
        Some(Unit::Seconds) => (Units::nanoseconds(), 1e9),
        Some(Unit::Milliseconds) => (Units::nanoseconds(), 1e6),
        Some(Unit::Microseconds) => (Units::nanoseconds(), 1e3),
        Some(Unit::Nanoseconds) => (Units::nanoseconds(), 1.0),
        Some(Unit::Bytes) => (bytes, 1.0),
        Some(Unit::Kibibytes) => (bytes, kibi),
        Some(Unit::Mebibytes) => (bytes, kibi.powi(2)),
        Some(Unit::Gibibytes) => (bytes, kibi.powi(3)),
        Some(Unit::Tebibytes) => (bytes, kibi.powi(4)),
        _ => (scaled([0, 0, 1], [0, 0, -6]), 1e6),
    }
}

fn scaled(dimensions: [i32; 3], scales: [i32; 3]) -> Units {
    Units::new(dimensions, scales).unwrap_or(Units::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_pcp() {
        assert_eq!(from_facade(Some(Unit::Milliseconds)).to_string(), "millisec");
        assert_eq!(from_facade(Some(Unit::Tebibytes)).to_string(), "Tbyte");
        assert_eq!(from_facade(Some(Unit::CountPerSecond)).to_string(), "count / sec");
        assert_eq!(from_facade(Some(Unit::Percent)), Units::NONE);
    }

    #[test]
    fn a_histogram_without_units_has_millionths() {
        let (units, factor) = histogram_units(None);
        assert_eq!((units.to_string().as_str(), factor), ("count x 10^-6", 1e6));
    }
}
