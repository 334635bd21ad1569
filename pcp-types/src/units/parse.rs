//! Units from text (`pmParseUnitsStr(3)`, `src/libpcp/src/units.c`).
//!
//! Grammar: at most one `/`; on each side words in any order, each dimension
//! once. A word is a number, a unit with an optional `^power`, `count x 10`,
//! `count x 10^N`, or a physical unit such as `temperature (C)`. Letters in
//! either case.

use std::ops::RangeInclusive;

use super::print::EXTRA;
use super::{AXES, EXTRA_SCALE, EXTRA_UNIT, SIGNED, UNSIGNED, Units};
use crate::Error;

/// Powers in a text: a dimension of -8 prints as `/ byte^8`, of which one side exceeds the field.
const POWERS: RangeInclusive<i32> = -8..=15;

/// Units and the factor of a text such as `2 Mbytes / min`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParsedUnits {
    /// The units that the text means.
    pub units: Units,
    /// By what a value in [`units`](Self::units) is multiplied to be in the
    /// units of the text: the *inverse* of the number written, as PCP has it
    /// (0.5 for `2 Mbytes / min`).
    pub multiplier: f64,
}

impl Units {
    /// Reads units with numbers in them. The empty text is a plain number.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownUnit`] for a word that is none (`none` is not one),
    /// [`Error::RepeatedDimension`] and [`Error::PowerOutOfRange`]; all are
    /// `PM_ERR_CONV` in PCP.
    pub fn parse(text: &str) -> Result<ParsedUnits, Error> {
        let (above, below) = text.split_once('/').unwrap_or((text, ""));
        if below.contains('/') {
            return Err(Error::RepeatedDimension(text.to_owned()));
        }
        let above = Side::parse(above)?;
        let below = Side::parse(below)?;
        let mut units = Units::NONE;
        let mut multiplier = below.multiplier / above.multiplier;
        let sides = above.bases.into_iter().zip(below.bases);
        for ((dimension, (power_field, scale_field)), (above, below)) in
            DIMENSIONS.into_iter().zip(AXES).zip(sides)
        {
            let (base, factor) = quotient(dimension, above, below, text)?;
            units = units.with(power_field, base.power).with(scale_field, base.scale);
            multiplier *= factor;
        }
        match (above.extra, below.extra) {
            (Some(_), Some(_)) => return Err(Error::RepeatedDimension(text.to_owned())),
            (Some((unit, scale)), None) => {
                units = units.with(EXTRA_UNIT, unit).with(EXTRA_SCALE, scale);
            }
            (None, Some((unit, scale))) => {
                units = units.with(EXTRA_UNIT, -unit).with(EXTRA_SCALE, scale);
            }
            (None, None) => {}
        }
        Ok(ParsedUnits { units, multiplier })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Space,
    Time,
    Count,
}

/// In the order of [`AXES`].
const DIMENSIONS: [Dimension; 3] = [Dimension::Space, Dimension::Time, Dimension::Count];

impl Dimension {
    /// Returns scale n in bytes, seconds or counts.
    fn factor(self, scale: i32) -> Option<f64> {
        const SECONDS: [f64; 6] = [1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0];
        match self {
            Self::Space => Some(1024f64.powi(scale)),
            Self::Time => usize::try_from(scale).ok().and_then(|at| SECONDS.get(at)).copied(),
            Self::Count => Some(10f64.powi(scale)),
        }
    }
}

/// A power and a scale of one dimension; power 0 where it does not occur.
#[derive(Clone, Copy, Default)]
struct Base {
    power: i32,
    scale: i32,
}

/// The units on one side of the fraction line.
struct Side {
    multiplier: f64,
    /// In the order of [`DIMENSIONS`].
    bases: [Base; 3],
    extra: Option<(i32, i32)>,
}

/// Returns one dimension of the quotient, and the factor that its scales leave over. Where both
/// sides have the dimension the result is in bytes, seconds or counts.
fn quotient(
    dimension: Dimension,
    above: Base,
    below: Base,
    text: &str,
) -> Result<(Base, f64), Error> {
    let power = above.power - below.power;
    if !SIGNED.contains(&power) {
        return Err(Error::PowerOutOfRange(power));
    }
    let (scale, factor) = if above.power != 0 && below.power != 0 {
        let unknown = || Error::UnknownUnit(text.to_owned());
        let up = dimension.factor(above.scale).ok_or_else(unknown)?;
        let down = dimension.factor(below.scale).ok_or_else(unknown)?;
        let plain = if dimension == Dimension::Time { 3 } else { 0 };
        (plain, up.powi(-above.power) * down.powi(below.power))
    } else {
        (if above.power == 0 { below.scale } else { above.scale }, 1.0)
    };
    let scale = if power == 0 { 0 } else { scale };
    Ok((Base { power, scale }, factor))
}

impl Side {
    fn parse(text: &str) -> Result<Self, Error> {
        let mut side = Self { multiplier: 1.0, bases: Default::default(), extra: None };
        let lower = text.to_ascii_lowercase();
        let mut words = Words { rest: lower.trim_start() };
        while let Some(word) = words.next() {
            side.take(word, &mut words)?;
        }
        Ok(side)
    }

    fn take<'a>(&mut self, word: &'a str, words: &mut Words<'a>) -> Result<(), Error> {
        if let Some((number, rest)) = leading_number(word) {
            self.multiplier *= number;
            return if rest.is_empty() { Ok(()) } else { self.take(rest, words) };
        }
        if let Some(extra) = extra_unit(word, words) {
            if self.extra.replace(extra).is_some() {
                return Err(Error::RepeatedDimension(word.to_owned()));
            }
            return Ok(());
        }
        let (name, power) = match word.split_once('^') {
            Some((name, power)) => (name, parse_power(power, word)?),
            None => (word, 1),
        };
        let (dimension, base) = if name == "count" || name == "counts" {
            let counted = if word == "count" { words.count_scale() } else { None };
            (Dimension::Count, counted.unwrap_or(Base { power, scale: 0 }))
        } else if let Some(scale) = time_scale(name) {
            (Dimension::Time, Base { power, scale })
        } else if let Some(scale) = space_scale(name) {
            (Dimension::Space, Base { power, scale })
        } else {
            return Err(Error::UnknownUnit(word.to_owned()));
        };
        let [space, time, count] = &mut self.bases;
        let slot = match dimension {
            Dimension::Space => space,
            Dimension::Time => time,
            Dimension::Count => count,
        };
        if slot.power != 0 {
            return Err(Error::RepeatedDimension(word.to_owned()));
        }
        *slot = base;
        Ok(())
    }
}

/// The words of a text, with a look ahead.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.split()?;
        self.rest = rest;
        Some(word)
    }

    fn split(&self) -> Option<(&'a str, &'a str)> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        Some((word, rest.trim_start()))
    }

    /// Takes `x 10`, `x 10^N` and `x 10^N^power` after `count`. A single
    /// exponent is the scale where it fits one (-8..=7), else the power of
    /// `count x 10`.
    fn count_scale(&mut self) -> Option<Base> {
        let mut ahead = Words { rest: self.rest };
        if ahead.next()? != "x" {
            return None;
        }
        let mut parts = ahead.next()?.split('^');
        if parts.next()? != "10" {
            return None;
        }
        let exponents: Vec<i32> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
        let base = match *exponents.as_slice() {
            [] => Base { power: 1, scale: 1 },
            [scale] if SIGNED.contains(&scale) => Base { power: 1, scale },
            [power] => Base { power, scale: 1 },
            [scale, power] if SIGNED.contains(&scale) => Base { power, scale },
            _ => return None,
        };
        if !POWERS.contains(&base.power) {
            return None;
        }
        *self = ahead;
        Some(base)
    }
}

fn parse_power(power: &str, word: &str) -> Result<i32, Error> {
    let number: i32 = power.parse().map_err(|_| Error::UnknownUnit(word.to_owned()))?;
    if POWERS.contains(&number) { Ok(number) } else { Err(Error::PowerOutOfRange(number)) }
}

fn leading_number(word: &str) -> Option<(f64, &str)> {
    if !word.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
        return None;
    }
    let likely = word
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e')))
        .unwrap_or(word.len());
    // The longest beginning that is a number: in `2ebytes` that is the 2.
    (1..=likely).rev().find_map(|end| {
        let (number, rest) = word.split_at(end);
        number.parse().ok().map(|number| (number, rest))
    })
}

fn extra_unit(word: &str, words: &mut Words<'_>) -> Option<(i32, i32)> {
    let unit = EXTRA.iter().position(|(name, _)| *name == word)?;
    let (scale, rest) = words.split()?;
    let sign = scale.strip_prefix('(')?.strip_suffix(')')?;
    let at = EXTRA.get(unit)?.1.iter().position(|s| s.eq_ignore_ascii_case(sign))?;
    words.rest = rest;
    Some((unit as i32 + 1, at as i32 + 1))
}

fn time_scale(name: &str) -> Option<i32> {
    Some(match name {
        "nanoseconds" | "nanosecond" | "nanosec" | "ns" => 0,
        "microseconds" | "microsecond" | "microsec" | "us" => 1,
        "milliseconds" | "millisecond" | "millisec" | "ms" => 2,
        "seconds" | "second" | "sec" | "s" => 3,
        "minutes" | "minute" | "min" => 4,
        "hours" | "hour" | "hr" | "h" => 5,
        _ => return numbered_scale(name, "time-"),
    })
}

fn space_scale(name: &str) -> Option<i32> {
    /// First letter, binary and decimal prefix of scale 1, 2, ...
    const PREFIXES: [(&str, &str, &str); 8] = [
        ("k", "kibi", "kilo"),
        ("m", "mebi", "mega"),
        ("g", "gibi", "giga"),
        ("t", "tebi", "tera"),
        ("p", "pebi", "peta"),
        ("e", "exbi", "exa"),
        ("z", "zebi", "zetta"),
        ("y", "yobi", "yotta"),
    ];
    if name == "byte" || name == "bytes" {
        return Some(0);
    }
    let at = PREFIXES.iter().position(|(letter, binary, decimal)| {
        name.strip_prefix(letter).is_some_and(|rest| matches!(rest, "b" | "ib" | "byte" | "bytes"))
            || [binary, decimal].iter().any(|prefix| {
                name.strip_prefix(**prefix).is_some_and(|rest| matches!(rest, "byte" | "bytes"))
            })
    });
    match at {
        Some(at) => Some(at as i32 + 1),
        None => numbered_scale(name, "space-"),
    }
}

fn numbered_scale(name: &str, prefix: &str) -> Option<i32> {
    let scale = name.strip_prefix(prefix)?.parse::<i32>().ok()?;
    UNSIGNED.contains(&scale).then_some(scale)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (u32, f64) {
        let parsed = Units::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (parsed.units.raw(), parsed.multiplier)
    }

    #[test]
    fn long_and_short_names_mean_the_same() {
        for text in ["Kbyte", "kbytes", "KB", "kib", "Kibibyte", "kilobytes", "space-1", "1 KB"] {
            assert_eq!(parsed(text), (Units::kilobytes().raw(), 1.0), "{text}");
        }
        for text in ["YB", "yobibytes", "Yottabyte", "ybyte"] {
            assert_eq!(parsed(text).0, Units::new([1, 0, 0], [8, 0, 0]).unwrap().raw(), "{text}");
        }
        for text in ["s", "sec", "second", "SECONDS", "time-3"] {
            assert_eq!(parsed(text), (Units::seconds().raw(), 1.0), "{text}");
        }
        assert_eq!(parsed("h"), parsed("hours"));
    }

    #[test]
    fn a_number_becomes_the_inverse_multiplier() {
        assert_eq!(parsed("2 Mbytes / min"), (Units::megabytes().raw() | 0x0f00_4000, 0.5));
        assert_eq!(parsed("2Mbytes"), parsed("2 Mbytes"));
        assert_eq!(parsed("2ebytes"), (Units::new([1, 0, 0], [6, 0, 0]).unwrap().raw(), 0.5));
        assert_eq!(parsed("count / 10 sec"), (Units::count().per_second().raw(), 10.0));
        assert_eq!(parsed("0.5"), (0, 2.0));
    }

    #[test]
    fn a_dimension_on_both_sides_is_reduced_to_its_base_scale() {
        assert_eq!(parsed("Kbyte / byte"), (0, 1.0 / 1024.0));
        assert_eq!(parsed("sec^2 / min"), (Units::seconds().raw(), 60.0));
    }

    #[test]
    fn physical_units_stand_on_either_side() {
        assert_eq!(parsed("temperature (c)").0, 0x09);
        assert_eq!(parsed("power (mW) / sec").0, 0x0f00_3023);
        assert_eq!(parsed("count / voltage (uV)").0, 0x0010_00f3);
    }

    #[test]
    fn counts_have_scales_and_powers() {
        assert_eq!(parsed("count x 10^-2").0, 0x0010_0e00);
        assert_eq!(parsed("count x 10^3^2").0, 0x0020_0300);
        assert_eq!(parsed("/ count x 10^8").0, 0x0080_0100);
        assert_eq!(parsed("counts^2").0, 0x0020_0000);
    }

    #[test]
    fn what_is_no_unit_is_refused_by_name() {
        for (text, expected) in [
            ("none", Error::UnknownUnit("none".into())),
            ("byte / sec / sec", Error::RepeatedDimension("byte / sec / sec".into())),
            ("sec min", Error::RepeatedDimension("min".into())),
            ("byte^16", Error::PowerOutOfRange(16)),
            ("byte^8", Error::PowerOutOfRange(8)),
            ("byte^x", Error::UnknownUnit("byte^x".into())),
            ("temperature", Error::UnknownUnit("temperature".into())),
            ("count x 12", Error::UnknownUnit("x".into())),
        ] {
            assert_eq!(Units::parse(text).unwrap_err(), expected, "{text}");
        }
        assert!("2 byte".parse::<Units>().is_err());
    }

    /// Units whose text has all that the word has: no scale without its
    /// dimension, no power of `count x 10`, a physical unit that has a name.
    fn printable() -> impl Strategy<Value = Units> {
        let powers = (-8..=7i32, -8..=7i32, -8..=7i32);
        let scales = (0..=15i32, 0..=15i32, -8..=7i32);
        let extra =
            prop_oneof![Just(None), (1..=4usize, prop::bool::ANY, 0..4usize).prop_map(Some),];
        (powers, scales, extra).prop_map(|(powers, scales, extra)| {
            let used = |power: i32, scale: i32| if power == 0 { 0 } else { scale };
            let ambiguous = scales.2 == 1 && powers.2 != 0 && powers.2.abs() != 1;
            let count_scale = if ambiguous { 2 } else { used(powers.2, scales.2) };
            let units = Units::new(
                [powers.0, powers.1, powers.2],
                [used(powers.0, scales.0), used(powers.1, scales.1), count_scale],
            )
            .unwrap();
            match extra {
                None => units,
                Some((unit, below, scale)) => {
                    let scale = scale % EXTRA[unit - 1].1.len() + 1;
                    let unit = if below { -(unit as i32) } else { unit as i32 };
                    units.with(EXTRA_UNIT, unit).with(EXTRA_SCALE, scale as i32)
                }
            }
        })
    }

    proptest! {
        /// forall u printable: parse(print(u)) = (u, 1)
        #[test]
        fn text_reads_back(units in printable()) {
            let parsed = Units::parse(&units.to_string()).unwrap();
            prop_assert_eq!(parsed.units, units);
            prop_assert_eq!(parsed.multiplier.to_bits(), 1f64.to_bits());
        }

        /// forall words: printing never fails; parsing the text never panics
        #[test]
        fn any_word_prints_and_any_text_parses_or_errs(raw: u32, text in "[ -~]{0,40}") {
            let _ = Units::parse(&Units::from_raw(raw).to_string());
            let _ = Units::parse(&text);
        }
    }
}
