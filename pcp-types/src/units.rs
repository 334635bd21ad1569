//! Units of metric values (`pmUnits`, `<pcp/pmapi.h>`).
//!
//! One 32-bit word; (s) is a signed, (u) an unsigned bit field:
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 31..28 | dimSpace (s) | power of bytes |
//! | 27..24 | dimTime (s) | power of seconds |
//! | 23..20 | dimCount (s) | power of counts |
//! | 19..16 | scaleSpace (u) | 1024^n bytes |
//! | 15..12 | scaleTime (u) | nanosecond to hour, see [`TimeScale`] |
//! | 11..8 | scaleCount (s) | 10^n counts |
//! | 7..3 | extraUnit (s) | see [`ExtraUnit`]; negative: in the denominator |
//! | 2..0 | extraScale (u) | its scale |
//!
//! The same word stands big-endian in archives and in host order in MMV files.
//! The low byte was padding before PCP 7.2.

mod arithmetic;
mod convert;
mod parse;
mod print;

use std::ops::RangeInclusive;

use crate::Error;
pub use arithmetic::CombinedUnits;
pub use convert::Conversion;
pub use parse::ParsedUnits;

/// The unit of a metric's numbers: powers of space, time and count, a scale for each, and since
/// PCP 7.2 one of four physical units.
///
/// ```
/// use pcp_types::Units;
///
/// let rate = Units::megabytes().per_second();
/// assert_eq!(rate.to_string(), "Mbyte / sec");
/// assert_eq!(rate.raw(), 0x1f02_3000);
/// assert_eq!("Mbyte / sec".parse::<Units>(), Ok(rate));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Units(u32);

/// Scales of space: powers of 1024 (`PM_SPACE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names define them: 1024^n bytes")]
pub enum SpaceScale {
    Byte,
    Kbyte,
    Mbyte,
    Gbyte,
    Tbyte,
    Pbyte,
    Ebyte,
    Zbyte,
    Ybyte,
}

/// Scales of time (`PM_TIME_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names define them")]
pub enum TimeScale {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
}

/// Physical units with their scales (`PM_UNIT_*`, PCP 7.2 and later): the numbers are
/// the two fields of the word, extraUnit and extraScale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names define them")]
pub enum ExtraUnit {
    Celsius = 1 << 3 | 1,
    Fahrenheit = 1 << 3 | 2,
    Kelvin = 1 << 3 | 3,
    Volt = 2 << 3 | 1,
    Millivolt = 2 << 3 | 2,
    Microvolt = 2 << 3 | 3,
    Ampere = 3 << 3 | 1,
    Milliampere = 3 << 3 | 2,
    Microampere = 3 << 3 | 3,
    Kilowatt = 4 << 3 | 1,
    Watt = 4 << 3 | 2,
    Milliwatt = 4 << 3 | 3,
    Microwatt = 4 << 3 | 4,
}

/// A field of the word: how far it is shifted and how many bits it has.
#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    bits: u32,
}

/// The values of a signed field: the powers of dimensions, and the scale of count.
const SIGNED: RangeInclusive<i32> = -8..=7;
/// The values of an unsigned field: the scales of space and time.
const UNSIGNED: RangeInclusive<i32> = 0..=15;

const DIM_SPACE: Field = Field { shift: 28, bits: 4 };
const DIM_TIME: Field = Field { shift: 24, bits: 4 };
const DIM_COUNT: Field = Field { shift: 20, bits: 4 };
const SCALE_SPACE: Field = Field { shift: 16, bits: 4 };
const SCALE_TIME: Field = Field { shift: 12, bits: 4 };
const SCALE_COUNT: Field = Field { shift: 8, bits: 4 };
const EXTRA_UNIT: Field = Field { shift: 3, bits: 5 };
const EXTRA_SCALE: Field = Field { shift: 0, bits: 3 };

/// The dimension and the scale of space, time and count.
const AXES: [(Field, Field); 3] =
    [(DIM_SPACE, SCALE_SPACE), (DIM_TIME, SCALE_TIME), (DIM_COUNT, SCALE_COUNT)];

impl Units {
    /// A plain number.
    pub const NONE: Self = Self(0);

    /// Returns the units of a word. Every word is accepted; scales that PCP does not define print
    /// as `space-9` or `time-7`.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the 32-bit word.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns bytes times 1024^n.
    pub const fn space(scale: SpaceScale) -> Self {
        Self::NONE.with(DIM_SPACE, 1).with(SCALE_SPACE, scale as i32)
    }

    /// Returns the unit of time of a scale.
    pub const fn time(scale: TimeScale) -> Self {
        Self::NONE.with(DIM_TIME, 1).with(SCALE_TIME, scale as i32)
    }

    /// Returns the unit of events, requests and things: `count`.
    pub const fn count() -> Self {
        Self::NONE.with(DIM_COUNT, 1)
    }

    /// Returns a physical unit, such as `temperature (C)`.
    pub const fn extra(unit: ExtraUnit) -> Self {
        Self(unit as u32)
    }

    /// Returns `byte`.
    pub const fn bytes() -> Self {
        Self::space(SpaceScale::Byte)
    }

    /// Returns `Kbyte`, 1024 bytes.
    pub const fn kilobytes() -> Self {
        Self::space(SpaceScale::Kbyte)
    }

    /// Returns `Mbyte`, 1024^2 bytes.
    pub const fn megabytes() -> Self {
        Self::space(SpaceScale::Mbyte)
    }

    /// Returns `nanosec`.
    pub const fn nanoseconds() -> Self {
        Self::time(TimeScale::Nanosecond)
    }

    /// Returns `microsec`.
    pub const fn microseconds() -> Self {
        Self::time(TimeScale::Microsecond)
    }

    /// Returns `millisec`.
    pub const fn milliseconds() -> Self {
        Self::time(TimeScale::Millisecond)
    }

    /// Returns `sec`.
    pub const fn seconds() -> Self {
        Self::time(TimeScale::Second)
    }

    /// Returns the units of a rate: one power of time less, in seconds unless a scale of time is
    /// set already. `byte` becomes `byte / sec`, `sec` becomes a plain number.
    #[must_use]
    pub const fn per_second(self) -> Self {
        let dim = self.time_dimension() - 1;
        let scale = match (self.time_dimension(), dim) {
            (0, _) => TimeScale::Second as i32,
            (_, 0) => 0,
            _ => self.time_scale() as i32,
        };
        self.with(DIM_TIME, dim).with(SCALE_TIME, scale)
    }

    /// Units from powers and scales.
    ///
    /// # Errors
    ///
    /// [`Error::PowerOutOfRange`] for a dimension or the scale of count
    /// outside -8..=7, or a scale of space or time above 15.
    pub fn new(dimensions: [i32; 3], scales: [i32; 3]) -> Result<Self, Error> {
        let mut units = Self::NONE;
        for (field, value) in [
            (DIM_SPACE, dimensions[0]),
            (DIM_TIME, dimensions[1]),
            (DIM_COUNT, dimensions[2]),
            (SCALE_COUNT, scales[2]),
        ] {
            if !SIGNED.contains(&value) {
                return Err(Error::PowerOutOfRange(value));
            }
            units = units.with(field, value);
        }
        for (field, value) in [(SCALE_SPACE, scales[0]), (SCALE_TIME, scales[1])] {
            if !UNSIGNED.contains(&value) {
                return Err(Error::PowerOutOfRange(value));
            }
            units = units.with(field, value);
        }
        Ok(units)
    }

    /// Returns the power of space, -8..=7.
    pub const fn space_dimension(self) -> i32 {
        self.signed(DIM_SPACE)
    }

    /// Returns the power of time, -8..=7.
    pub const fn time_dimension(self) -> i32 {
        self.signed(DIM_TIME)
    }

    /// Returns the power of count, -8..=7.
    pub const fn count_dimension(self) -> i32 {
        self.signed(DIM_COUNT)
    }

    /// Returns the scale of space: 1024^n bytes, 0..=8 in use, 0..=15 possible.
    pub const fn space_scale(self) -> u32 {
        self.unsigned(SCALE_SPACE)
    }

    /// Returns the scale of time: 0 nanosecond to 5 hour in use, 0..=15 possible.
    pub const fn time_scale(self) -> u32 {
        self.unsigned(SCALE_TIME)
    }

    /// Returns the scale of count: 10^n, -8..=7.
    pub const fn count_scale(self) -> i32 {
        self.signed(SCALE_COUNT)
    }

    /// Returns the code of the physical unit: 0 none, 1 temperature, 2 voltage, 3 current, 4
    /// power; negative when it stands in the denominator.
    pub const fn extra_unit(self) -> i32 {
        self.signed(EXTRA_UNIT)
    }

    /// Returns the scale code of the physical unit, 0..=7.
    pub const fn extra_scale(self) -> u32 {
        self.unsigned(EXTRA_SCALE)
    }

    const fn with(self, field: Field, value: i32) -> Self {
        let mask = ((1u32 << field.bits) - 1) << field.shift;
        Self(self.0 & !mask | (value.cast_unsigned() << field.shift) & mask)
    }

    const fn unsigned(self, field: Field) -> u32 {
        self.0 >> field.shift & ((1 << field.bits) - 1)
    }

    const fn signed(self, field: Field) -> i32 {
        (self.0 << (32 - field.shift - field.bits)).cast_signed() >> (32 - field.bits)
    }
}

impl std::str::FromStr for Units {
    type Err = Error;

    /// Reads a units text that has no multiplier; see [`Units::parse`].
    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = Self::parse(text)?;
        if parsed.multiplier.to_bits() == 1f64.to_bits() {
            Ok(parsed.units)
        } else {
            Err(Error::Syntax { what: "units without a multiplier", text: text.to_owned() })
        }
    }
}

impl std::fmt::Debug for Units {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Units({:#010x}, \"{self}\")", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_reads_back_at_its_ends() {
        for (field, values) in [
            (DIM_SPACE, [-8, -1, 7]),
            (DIM_TIME, [-8, -1, 7]),
            (DIM_COUNT, [-8, -1, 7]),
            (SCALE_COUNT, [-8, -1, 7]),
            (EXTRA_UNIT, [-16, -1, 15]),
        ] {
            for value in values {
                assert_eq!(Units::NONE.with(field, value).signed(field), value);
                let others_set = Units::from_raw(u32::MAX).with(field, value);
                assert_eq!(others_set.signed(field), value);
            }
        }
        assert_eq!(Units::from_raw(u32::MAX).space_scale(), 15);
        assert_eq!(Units::from_raw(u32::MAX).extra_scale(), 7);
    }

    #[test]
    fn the_words_are_those_that_pcp_writes() {
        assert_eq!(Units::count().raw(), 0x0010_0000);
        assert_eq!(Units::bytes().raw(), 0x1000_0000);
        assert_eq!(Units::seconds().raw(), 0x0100_3000);
        assert_eq!(Units::new([0, 1, -1], [0, 5, 6]).unwrap().raw(), 0x01f0_5600);
        assert_eq!(Units::extra(ExtraUnit::Milliwatt).raw(), 0x23);
    }

    #[test]
    fn per_second_takes_one_power_of_time_away() {
        assert_eq!(Units::count().per_second().to_string(), "count / sec");
        assert_eq!(Units::count().per_second().per_second().to_string(), "count / sec^2");
        assert_eq!(Units::milliseconds().per_second(), Units::NONE);
    }

    #[test]
    fn powers_that_do_not_fit_are_refused() {
        assert_eq!(Units::new([8, 0, 0], [0; 3]), Err(Error::PowerOutOfRange(8)));
        assert_eq!(Units::new([0; 3], [16, 0, 0]), Err(Error::PowerOutOfRange(16)));
        assert_eq!(Units::new([0; 3], [0, -1, 0]), Err(Error::PowerOutOfRange(-1)));
    }
}
