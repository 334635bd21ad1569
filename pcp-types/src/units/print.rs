//! Units as text (`pmUnitsStr_r`, `src/libpcp/src/units.c`).

use std::fmt;

use super::Units;

const SPACE: [&str; 9] =
    ["byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte", "Pbyte", "Ebyte", "Zbyte", "Ybyte"];
const TIME: [&str; 6] = ["nanosec", "microsec", "millisec", "sec", "min", "hour"];

/// Name of a physical unit and the signs of its scales, from scale 1 on.
pub(super) const EXTRA: [(&str, &[&str]); 4] = [
    ("temperature", &["C", "F", "K"]),
    ("voltage", &["V", "mV", "uV"]),
    ("current", &["A", "mA", "uA"]),
    ("power", &["kW", "W", "mW", "uW"]),
];

/// The text that PCP's programs print: physical unit, space, time, count, the
/// positive powers first, then `/` and the negative ones. A plain number is
/// the empty text (programs print `none`). Two texts have less than the word:
/// a scale of count without its dimension prints as if the dimension were 1,
/// and `count x 10` squared as `count x 10^2`.
impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = side(*self, 1);
        let below = side(*self, -1);
        if !below.is_empty() {
            text.extend(["/".to_owned()].into_iter().chain(below));
        }
        if text.is_empty() && self.count_scale() != 0 {
            text.push(count_name(self.count_scale()));
        }
        f.pad(&text.join(" "))
    }
}

/// Returns the units above (`sign` 1) or below (`sign` -1) the fraction line.
fn side(units: Units, sign: i32) -> Vec<String> {
    let mut words = Vec::new();
    if units.extra_unit() * sign > 0 {
        words.push(extra_name(units.extra_unit().abs(), units.extra_scale()));
    }
    let dimensions = [
        (units.space_dimension(), named(&SPACE, units.space_scale(), "space")),
        (units.time_dimension(), named(&TIME, units.time_scale(), "time")),
        (units.count_dimension(), count_name(units.count_scale())),
    ];
    for (power, name) in dimensions {
        match power * sign {
            1 => words.push(name),
            power if power > 1 => words.push(format!("{name}^{power}")),
            _ => {}
        }
    }
    words
}

fn named(names: &[&str], scale: u32, dimension: &str) -> String {
    match names.get(scale as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("{dimension}-{scale}"),
    }
}

fn count_name(scale: i32) -> String {
    match scale {
        0 => "count".to_owned(),
        1 => "count x 10".to_owned(),
        _ => format!("count x 10^{scale}"),
    }
}

fn extra_name(unit: i32, scale: u32) -> String {
    let Some((name, scales)) = EXTRA.get(unit as usize - 1) else {
        return format!("extra-{unit}");
    };
    match (scale as usize).checked_sub(1).and_then(|at| scales.get(at)) {
        Some(sign) => format!("{name} ({sign})"),
        None => format!("{name} (scale-{scale})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_print_as_pcp_prints_them() {
        for (raw, text) in [
            (0x1f02_3000, "Mbyte / sec"),
            (0x01f0_5600, "hour / count x 10^6"),
            (0x00f0_0300, "/ count x 10^3"),
            (0x0e10_2e00, "count x 10^-2 / millisec^2"),
            (0x2000_0000, "byte^2"),
            (0x0000_0300, "count x 10^3"),
            (0x0010_0100, "count x 10"),
            (0x8000_0000, "/ byte^8"),
            (0x1009_0000, "space-9"),
            (0x100f_0000, "space-15"),
            (0x0100_7000, "time-7"),
            (0x0000_0023, "power (mW)"),
            (0x0000_0009, "temperature (C)"),
            (0x0100_30f8, "sec / temperature (scale-0)"),
            (0x0000_002f, "extra-5"),
            (0x0000_000f, "temperature (scale-7)"),
            (0, ""),
        ] {
            assert_eq!(Units::from_raw(raw).to_string(), text, "{raw:#010x}");
        }
    }
}
