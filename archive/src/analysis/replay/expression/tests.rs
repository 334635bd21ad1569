use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use smallvec::smallvec;

use super::{Before, *};
use crate::analysis::replay::Gaps;
use crate::{InDom, InstanceId, MetricDesc, Pmid, Semantics, Units, Value, ValueType};

/// The metrics of the tests: name, type, domain, semantics, units, and their
/// values now and 2 seconds ago. Domain 1 has the instances 1 `a`, 2 `b x` and
/// 3 `c`.
type Row = (&'static str, Value<'static>, Option<u32>, Semantics, &'static str);

const METRICS: [Row; 13] = [
    ("x", Value::U32(0), Some(1), Semantics::Instant, "count"),
    ("y", Value::U32(0), Some(1), Semantics::Instant, "count"),
    ("other", Value::U32(0), Some(2), Semantics::Instant, "count"),
    ("n", Value::U32(0), None, Semantics::Discrete, ""),
    ("ops", Value::U64(0), Some(1), Semantics::Counter, "count"),
    ("bytes", Value::U64(0), None, Semantics::Counter, "byte"),
    ("busy", Value::U32(0), None, Semantics::Counter, "millisec"),
    ("free", Value::U64(0), None, Semantics::Instant, "Kbyte"),
    ("used", Value::U64(0), None, Semantics::Instant, "byte"),
    ("load", Value::Float(0.0), None, Semantics::Instant, ""),
    ("temp", Value::Double(0.0), None, Semantics::Instant, "temperature (C)"),
    ("name", Value::String(b""), None, Semantics::Discrete, ""),
    ("speed", Value::I32(0), None, Semantics::Instant, "byte / sec"),
];

fn value_type(value: Value<'_>) -> ValueType {
    *ValueType::ALL.iter().find(|value_type| value.is_of(**value_type)).unwrap()
}

struct Table;

impl NameResolver for Table {
    fn metric(&mut self, name: &str) -> Option<Operand> {
        let place = METRICS.iter().position(|row| row.0 == name)?;
        let (_, value, indom, semantics, units) = METRICS[place];
        let desc = MetricDesc {
            pmid: Pmid::new(70, 1, place as u32).unwrap(),
            value_type: value_type(value),
            indom: indom.map(|serial| InDom::new(70, serial).unwrap()),
            semantics,
            units: units.parse().unwrap(),
        };
        Some(Operand { place, desc })
    }

    fn limited(&mut self, name: &str, limit: &Limit) -> Result<Option<LimitedOperand>, Problem> {
        let Limit::Ids(ids) = limit else { return Ok(None) };
        Ok(self.metric(name).map(|operand| (operand, Some(ids.clone()))))
    }

    fn desc(&self, name: &str) -> Option<MetricDesc> {
        Table.metric(name).map(|operand| operand.desc)
    }

    fn instances(&self, _: InDom, filter: Option<&Filter>) -> Vec<InstanceId> {
        let names = (1..).map(id).zip(["a", "b x", "c"]);
        let selected = names.filter(|(_, name)| filter.is_none_or(|filter| filter.is_match(name)));
        selected.map(|(id, _)| id).collect()
    }
}

fn id(id: i32) -> InstanceId {
    InstanceId::new(id).unwrap()
}

fn bound(text: &str) -> Result<Bound, ExpressionError> {
    Bound::new(&text.parse()?, &mut Table)
}

fn error(text: &str) -> String {
    let error = bound(text).unwrap_err().to_string();
    error.strip_prefix(&format!("expression \"{text}\", ")).unwrap().to_owned()
}

fn values(rows: &[(&str, &[(i32, Value<'static>)])]) -> Vec<ExpressionValues<'static>> {
    let mut all = vec![ExpressionValues::new(); METRICS.len()];
    for (name, row) in rows {
        let place = Table.metric(name).unwrap().place;
        // 0 means no instance.
        let instance = |number: i32| (number != 0).then(|| id(number));
        all[place] = row.iter().map(|(number, value)| (instance(*number), *value)).collect();
    }
    all
}

fn evaluated(
    text: &str,
    now: &[ExpressionValues<'static>],
    before: &[ExpressionValues<'static>],
) -> Vec<(i32, f64)> {
    let rates: Vec<ExpressionValues<'static>> =
        vec![smallvec![(None, Value::Double(0.5))]; METRICS.len()];
    let places: Vec<usize> = (0..METRICS.len()).collect();
    let before = Before { values: before, rates: &rates, grown: &[], seconds: 2.0 };
    let values = bound(text).unwrap().values(&OperandValues {
        places: &places,
        now,
        before: Some(before),
        of_interval: &|_| ExpressionValues::new(),
        gaps: Gaps::Join,
    });
    values
        .iter()
        .map(|(id, value)| (id.map_or(0, InstanceId::get), value.as_f64().unwrap()))
        .collect()
}

#[test]
fn the_values_are_those_of_the_table_of_the_module() {
    let now = values(&[
        ("x", &[(1, Value::U32(4)), (2, Value::U32(6))]),
        ("y", &[(1, Value::U32(1)), (2, Value::U32(2))]),
        ("n", &[(0, Value::U32(2))]),
    ]);
    for (text, expected) in [
        ("x + y", vec![(1, 5.0), (2, 8.0)]),
        ("x > 5 ? y : x", vec![(1, 4.0), (2, 2.0)]),
        ("x / n", vec![(1, 2.0), (2, 3.0)]),
        ("sum(x) - n", vec![(0, 8.0)]),
        ("avg(y)", vec![(0, 1.5)]),
        ("min(x)", vec![(0, 4.0)]),
        ("max(x)", vec![(0, 6.0)]),
        ("count(x)", vec![(0, 2.0)]),
        ("x[b x]", vec![(2, 6.0)]),
        ("(x + y)[a]", vec![(1, 5.0)]),
        ("x[absent]", vec![]),
        ("scalar(x[a]) + scalar(x[b x])", vec![(0, 10.0)]),
        ("-x", vec![(1, -4.0), (2, -6.0)]),
        ("10 - 2 * 3", vec![(0, 4.0)]),
        ("x + other", vec![]),
    ] {
        if text == "x + other" {
            assert_eq!(
                error(text),
                "column 3: different instance domains on the two sides of +: 70.1 and 70.2"
            );
        } else {
            assert_eq!(evaluated(text, &now, &[]), expected, "{text}");
        }
    }
}

#[test]
fn missing_values_are_replaced_and_the_largest_kept() {
    let now = values(&[
        ("x", &[(1, Value::U32(4)), (3, Value::U32(6))]),
        ("y", &[(1, Value::U32(1)), (2, Value::U32(2))]),
        ("free", &[(0, Value::U64(3))]),
        ("temp", &[]),
    ]);
    for (text, expected) in [
        ("x or y", vec![(1, 4.0), (2, 2.0), (3, 6.0)]),
        // All instances that the domain ever had.
        ("x or 0", vec![(1, 4.0), (2, 0.0), (3, 6.0)]),
        // All that were selected.
        ("x[b x] or 0", vec![(2, 0.0)]),
        ("-x[a] or 0", vec![(1, -4.0)]),
        ("(x + y)[b x] * 2 or 7", vec![(2, 7.0)]),
        ("topk(1, x[b x]) or x[a]", vec![(1, 4.0)]),
        ("free or 0", vec![(0, 3.0)]),
        ("temp or 7", vec![(0, 7.0)]),
        // In the larger unit.
        ("used or free", vec![(0, 3.0)]),
        ("sum(x or y)", vec![(0, 12.0)]),
        ("topk(1, x)", vec![(3, 6.0)]),
        ("topk(2, x or y)", vec![(1, 4.0), (3, 6.0)]),
        ("topk(5, x) * 2", vec![(1, 8.0), (3, 12.0)]),
        ("free > 2 ? topk(1, y) : x", vec![(2, 2.0)]),
    ] {
        assert_eq!(evaluated(text, &now, &[]), expected, "{text}");
    }
    let expected = "column 6: cannot use + between units \"temperature (C)\" and \"byte\"";
    assert_eq!(error("temp or used"), expected);
    assert_eq!(error("ops or 0"), "column 5: or cannot be used with a counter; write rate(NAME)");
    assert_eq!(
        error("topk(1, ops)"),
        "column 1: topk cannot be used with a counter; write rate(NAME)"
    );
    assert_eq!(error("topk(1, n)"), "column 1: topk: these values have no instances");
    let expected = "column 3: the left side of or: these values have no instances";
    assert_eq!(error("n or x"), expected);
    assert_eq!(
        error("below(n, x)"),
        "column 7: the first argument of below() must be a number such as 100ms or 0.5"
    );
}

#[test]
fn the_quotient_of_counters_is_that_of_their_growth() {
    let before = values(&[
        ("bytes", &[(0, Value::U64(1000))]),
        ("ops", &[(1, Value::U64(10)), (2, Value::U64(5))]),
    ]);
    let now = values(&[
        ("bytes", &[(0, Value::U64(3000))]),
        ("ops", &[(1, Value::U64(50)), (2, Value::U64(5))]),
    ]);
    assert_eq!(evaluated("bytes / bytes", &now, &before), [(0, 1.0)]);
    assert_eq!(evaluated("bytes / sum(ops)", &now, &before), [(0, 50.0)]);
    assert_eq!(evaluated("ops[a] / ops", &now, &before), [(1, 1.0)]);
    assert!(error("rate(bytes / bytes)").contains("cannot use / between a counter and a counter"));
}

#[test]
fn a_number_may_have_a_unit_of_time() {
    let now = values(&[("busy", &[(0, Value::U32(1500))])]);
    for (text, expected) in [
        ("instant(busy) > 1.4 s", 1.0),
        ("instant(busy) > 1600ms", 0.0),
        ("instant(busy) < 1h", 1.0),
        ("2min + 500 ms", 120.5 / 60.0),
    ] {
        let [(0, found)] = evaluated(text, &now, &[])[..] else { panic!("{text}") };
        assert!((found - expected).abs() < 1e-9, "{text}: {found}");
    }
}

#[test]
fn comparisons_are_0_or_1_by_instance() {
    let now = values(&[
        ("x", &[(1, Value::U32(4)), (2, Value::U32(6))]),
        ("y", &[(2, Value::U32(6)), (3, Value::U32(9))]),
        ("speed", &[(0, Value::I32(-3))]),
        ("free", &[(0, Value::U64(2))]),
        ("used", &[(0, Value::U64(2048))]),
        ("bytes", &[(0, Value::U64(2048))]),
    ]);
    for (text, expected) in [
        ("x < 5", vec![(1, 1.0), (2, 0.0)]),
        ("5 <= x", vec![(1, 0.0), (2, 1.0)]),
        ("x == y", vec![(2, 1.0)]),
        ("x != 4.0", vec![(1, 0.0), (2, 1.0)]),
        ("x >= 4", vec![(1, 1.0), (2, 1.0)]),
        ("speed < 0", vec![(0, 1.0)]),
        ("speed > -3", vec![(0, 0.0)]),
        ("free == used", vec![(0, 1.0)]),
        ("free > mkconst(2047, units=byte)", vec![(0, 1.0)]),
        ("bytes == used && bytes > 7", vec![(0, 1.0)]),
        ("x > 5 || x < 5", vec![(1, 1.0), (2, 1.0)]),
        ("x > 5 && speed < 0", vec![(1, 0.0), (2, 1.0)]),
        ("!x > 5", vec![(1, 1.0), (2, 0.0)]),
        ("!speed", vec![(0, 0.0)]),
        ("!(used - used)", vec![(0, 1.0)]),
        ("x > n", vec![]),
        ("x > n || speed", vec![]),
    ] {
        if text.ends_with("speed") && text.starts_with('x') {
            assert_eq!(
                error(text),
                "column 7: cannot use || between units \"\" and \"byte / sec\""
            );
        } else {
            assert_eq!(evaluated(text, &now, &[]), expected, "{text}");
        }
    }
}

#[test]
fn a_choice_is_made_by_instance() {
    let now = values(&[
        ("x", &[(1, Value::U32(4)), (2, Value::U32(6)), (3, Value::U32(0))]),
        ("y", &[(2, Value::U32(20)), (3, Value::U32(30))]),
        ("n", &[(0, Value::U32(1))]),
        ("load", &[(0, Value::Float(0.5))]),
        ("free", &[(0, Value::U64(3))]),
    ]);
    for (text, expected) in [
        ("x > 5 ? x : y", vec![(2, 6.0), (3, 30.0)]),
        ("x > 5 ? y : x", vec![(1, 4.0), (2, 20.0), (3, 0.0)]),
        ("n ? x : y", vec![(1, 4.0), (2, 6.0), (3, 0.0)]),
        ("n > 1 ? x : y", vec![(2, 20.0), (3, 30.0)]),
        ("n == 1 ? mkconst(7, meta=sum.x, indom=null) : x", vec![]),
        ("n == 1 ? sum(x) : x", vec![(1, 10.0), (2, 10.0), (3, 10.0)]),
        ("x < 5 ? sum(x) : x", vec![(1, 10.0), (2, 6.0), (3, 10.0)]),
        ("x < 5 ? novalue() : x", vec![(2, 6.0)]),
        ("x < 5 ? x : novalue()", vec![(1, 4.0), (3, 0.0)]),
        ("n ? free : novalue()", vec![(0, 3.0)]),
        ("n > 1 ? free : novalue()", vec![]),
        ("load == 0.5 ? 1 : 2", vec![(0, 1.0)]),
        ("x == 0 ? mkconst(0, meta=x) : x", vec![(1, 4.0), (2, 6.0), (3, 0.0)]),
        ("y == 20 ? mkconst(9, meta=x) : x", vec![(2, 9.0), (3, 0.0)]),
        // Neither alternative may lack values, even if the other one is selected.
        ("n ? x : mkconst(1, meta=x) * other", vec![]),
        ("n ? free : used", vec![]),
        // As in PCP the alternatives group from the left, unlike in C.
        ("n > 1 ? 5 : 0 ? 6 : 7", vec![(0, 7.0)]),
        ("n == 1 ? 5 : 0 ? 6 : 7", vec![(0, 6.0)]),
    ] {
        match bound(text) {
            Ok(_) => assert_eq!(evaluated(text, &now, &[]), expected, "{text}"),
            Err(error) => assert_eq!(expected, [], "{error}"),
        }
    }
    assert_eq!(
        error("n ? x : other"),
        "column 3: different instance domains on the two sides of ?:: 70.1 and 70.2"
    );
}

#[test]
fn a_decided_condition_checks_one_alternative_only() {
    let now = values(&[("n", &[(0, Value::U32(3))])]);
    for (text, expected) in [
        ("defined(n) ? n : absent", vec![(0, 3.0)]),
        ("defined(absent) ? absent : n", vec![(0, 3.0)]),
        ("!defined(absent) || defined(n) ? n : absent", vec![(0, 3.0)]),
        ("defined(n) && defined(absent) ? absent : n", vec![(0, 3.0)]),
        ("defined(absent) && absent > 5 ? absent : n", vec![(0, 3.0)]),
        ("1 ? n : name + free", vec![(0, 3.0)]),
        ("0 ? absent : (defined(n) ? n : absent)", vec![(0, 3.0)]),
        ("defined(absent) ? absent : novalue(type=double)", vec![]),
        ("defined(n) + defined(absent)", vec![(0, 1.0)]),
    ] {
        assert_eq!(evaluated(text, &now, &[]), expected, "{text}");
    }
    assert_eq!(error("n > defined(n) ? absent : n"), "column 18: no metric absent in the archive");
    assert_eq!(error("defined(absent) * absent"), "column 19: no metric absent in the archive");
}

#[test]
fn instances_are_selected_by_name_and_by_pattern() {
    let now = values(&[("x", &[(1, Value::U32(4)), (2, Value::U32(6)), (3, Value::U32(8))])]);
    for (text, expected) in [
        ("matchinst(/^[ab]/, x)", vec![(1, 4.0), (2, 6.0)]),
        ("matchinst(!/^[ab]/, x)", vec![(3, 8.0)]),
        ("matchinst(/a|c/, x + 1)", vec![(1, 5.0), (3, 9.0)]),
        ("sum(matchinst(/./, x))", vec![(0, 18.0)]),
        ("matchinst(/absent/, x)", vec![]),
        ("mkconst(2, indom=70.1) * x", vec![(1, 8.0), (2, 12.0), (3, 16.0)]),
        ("count(mkconst(2, indom=70.1))", vec![(0, 3.0)]),
        ("mkconst(2.75, meta=x) * x", vec![(1, 8.0), (2, 12.0), (3, 16.0)]),
        ("mkconst(4294967297.5, meta=x)", vec![(1, 1.0), (2, 1.0), (3, 1.0)]),
    ] {
        assert_eq!(evaluated(text, &now, &[]), expected, "{text}");
    }
    assert_eq!(error("matchinst(/a/, free)"), "column 1: /a/: these values have no instances");
}

#[test]
fn an_instance_that_one_side_lacks_has_no_value() {
    let now = values(&[
        ("x", &[(1, Value::U32(4)), (3, Value::U32(6))]),
        ("y", &[(2, Value::U32(1)), (3, Value::U32(2))]),
    ]);
    assert_eq!(evaluated("x + y", &now, &[]), [(3, 8.0)]);
    assert_eq!(evaluated("x * n", &now, &[]), [], "n has no value");
    assert_eq!(evaluated("n * x", &now, &[]), []);
}

#[test]
fn nothing_has_a_count_and_no_sum() {
    let now = values(&[]);
    for text in ["sum(x)", "avg(x)", "min(x)", "max(x)", "scalar(x)", "x + 1"] {
        assert_eq!(evaluated(text, &now, &[]), [], "{text}");
    }
    assert_eq!(evaluated("count(x)", &now, &[]), [(0, 0.0)]);
    let with_nan = values(&[("temp", &[(0, Value::Double(f64::NAN))])]);
    assert_eq!(evaluated("max(temp)", &with_nan, &[]), []);
}

#[test]
fn delta_and_rate_compare_two_moments() {
    let before = values(&[
        ("x", &[(1, Value::U32(10)), (2, Value::U32(6))]),
        ("bytes", &[(0, Value::U64(1000))]),
        ("busy", &[(0, Value::U32(500))]),
    ]);
    let now = values(&[
        ("x", &[(1, Value::U32(4)), (3, Value::U32(6))]),
        ("bytes", &[(0, Value::U64(3000))]),
        ("busy", &[(0, Value::U32(1500))]),
    ]);
    for (text, expected) in [
        ("delta(x)", vec![(1, -6.0)]),
        ("rate(x)", vec![(1, -3.0)]),
        ("delta(bytes) / delta(busy)", vec![(0, 2.0)]),
        ("rate(bytes + bytes)", vec![(0, 2000.0)]),
        // Milliseconds in seconds are a part of the time.
        ("rate(busy * 1)", vec![(0, 0.5)]),
        ("rate(bytes)", vec![(0, 0.5)]),
        ("delta(7)", vec![(0, 0.0)]),
    ] {
        assert_eq!(evaluated(text, &now, &before), expected, "{text}");
    }
    // A counter that went down has no rate, but a difference.
    assert_eq!(evaluated("rate(bytes + bytes)", &before, &now), []);
    assert_eq!(evaluated("delta(bytes + bytes)", &before, &now), [(0, -4000.0)]);
    let places: Vec<usize> = (0..METRICS.len()).collect();
    let alone = OperandValues {
        places: &places,
        now: &now,
        before: None,
        of_interval: &|_| ExpressionValues::new(),
        gaps: Gaps::Join,
    };
    assert!(bound("delta(bytes)").unwrap().values(&alone).is_empty());
}

#[test]
fn different_scales_are_brought_to_the_larger_one() {
    let now = values(&[
        ("free", &[(0, Value::U64(3))]),
        ("used", &[(0, Value::U64(512))]),
        ("load", &[(0, Value::Float(0.5))]),
    ]);
    assert_eq!(evaluated("free + used", &now, &[]), [(0, 3.5)]);
    assert_eq!(evaluated("used / free", &now, &[]), [(0, 0.5 / 3.0)]);
    assert_eq!(evaluated("rescale(free, \"byte\")", &now, &[]), [(0, 3072.0)]);
    assert_eq!(evaluated("rescale(used, \"Kbyte\")", &now, &[]), [(0, 1.0)], "rounded");
    assert_eq!(evaluated("rescale(1.0 * used, \"Kbyte\")", &now, &[]), [(0, 0.5)]);
}

/// Type, semantics, units and domain of a result, as `pminfo -d` prints them.
fn described(text: &str) -> String {
    let desc = bound(text).unwrap().desc(Pmid::new(511, 0, 1).unwrap());
    let indom = desc.indom.map_or(String::new(), |indom| indom.to_string());
    format!("{}, {}, {}, {indom}", desc.value_type, desc.semantics, desc.units)
}

#[test]
fn results_have_the_metadata_that_pcp_gives_them() {
    for (text, expected) in [
        ("7", "32-bit unsigned int, discrete, , "),
        ("0.5", "double, discrete, , "),
        ("name", "string, discrete, , "),
        ("x + y", "32-bit unsigned int, instant, count, 70.1"),
        ("x + 1", "32-bit unsigned int, instant, count, 70.1"),
        ("n * 2", "32-bit unsigned int, discrete, , "),
        ("n + load", "float, instant, , "),
        ("free + used", "double, instant, Kbyte, "),
        ("bytes + bytes", "64-bit unsigned int, counter, byte, "),
        ("ops * n", "64-bit unsigned int, counter, count, 70.1"),
        ("n * ops", "64-bit unsigned int, counter, count, 70.1"),
        ("ops / n", "double, counter, count, 70.1"),
        ("x * x", "32-bit unsigned int, instant, count^2, 70.1"),
        ("free / used", "double, instant, , "),
        ("-used", "64-bit int, instant, byte, "),
        ("-speed", "32-bit int, instant, byte / sec, "),
        ("rate(bytes)", "double, instant, byte / sec, "),
        ("rate(busy)", "double, instant, , "),
        ("delta(busy)", "64-bit int, instant, millisec, "),
        ("delta(ops)", "double, instant, count, 70.1"),
        ("delta(bytes) / delta(ops)", "double, instant, byte / count, 70.1"),
        ("sum(ops)", "64-bit unsigned int, counter, count, "),
        ("max(ops)", "64-bit unsigned int, instant, count, "),
        ("avg(x)", "float, instant, count, "),
        ("count(x)", "32-bit unsigned int, instant, count, "),
        ("count(name)", "32-bit unsigned int, instant, count, "),
        ("instant(ops)", "64-bit unsigned int, instant, count, 70.1"),
        ("instant(n)", "32-bit unsigned int, discrete, , "),
        ("scalar(ops[a])", "64-bit unsigned int, counter, count, "),
        ("rescale(free, \"Gbyte\")", "64-bit unsigned int, instant, Gbyte, "),
        ("temp * 2", "double, instant, temperature (C), "),
        ("x > y", "32-bit unsigned int, instant, , 70.1"),
        ("ops > 0", "32-bit unsigned int, instant, , 70.1"),
        ("free > used", "32-bit unsigned int, instant, , "),
        ("n == 3", "32-bit unsigned int, discrete, , "),
        ("n > 1 && load", "32-bit unsigned int, instant, , "),
        ("!bytes", "32-bit unsigned int, instant, , "),
        ("!n", "32-bit unsigned int, discrete, , "),
        ("x > 1 ? x : y", "32-bit unsigned int, instant, count, 70.1"),
        ("n ? novalue() : bytes", "64-bit unsigned int, counter, byte, "),
        ("n ? ops : novalue(type=double)", "64-bit unsigned int, counter, count, 70.1"),
        ("1 ? novalue() : ops", "32-bit int, discrete, , "),
        ("defined(n)", "32-bit unsigned int, discrete, , "),
        ("matchinst(/a/, ops)", "64-bit unsigned int, counter, count, 70.1"),
        ("mkconst(1, type=64, semantics=counter, units=Kbyte)", "64-bit int, counter, Kbyte, "),
        ("mkconst(0.5, type=float)", "float, discrete, , "),
        ("mkconst(1, meta=ops)", "64-bit unsigned int, counter, count, 70.1"),
        ("mkconst(1, meta=ops, indom=NULL, type=32)", "32-bit int, counter, count, "),
        ("novalue(meta=speed, units=\"\")", "32-bit int, instant, , "),
    ] {
        assert_eq!(described(text), expected, "{text}");
    }
}

#[test]
fn errors_are_reported_with_their_column() {
    for (text, expected) in [
        ("x + absent", "column 5: no metric absent in the archive"),
        (
            "ops * ops",
            "column 5: cannot use * between a counter and a counter; use rate(NAME) of a counter",
        ),
        (
            "ops + 1",
            "column 5: cannot use + between a counter and a plain value; use rate(NAME) of a counter",
        ),
        (
            "1 / ops",
            "column 3: cannot use / between a plain value and a counter; use rate(NAME) of a counter",
        ),
        (
            "ops / free",
            "column 5: cannot divide a counter by something in Kbyte; use a plain number, or rate(NAME)",
        ),
        (
            "x * ops",
            "column 3: cannot multiply a counter by something in count; use a plain number, or rate(NAME)",
        ),
        ("used + x", "column 6: cannot use + between units \"byte\" and \"count\""),
        ("used + 1", "column 6: cannot use + between units \"byte\" and \"\""),
        ("1 + name", "column 5: string is not a number"),
        ("sum(name)", "column 5: string is not a number"),
        ("name ? 1 : 2", "column 1: string is not a number"),
        ("!name", "column 2: string is not a number"),
        ("used > x", "column 6: cannot use > between units \"byte\" and \"count\""),
        ("x && n", "column 3: cannot use && between units \"count\" and \"\""),
        (
            "n ? x : 1",
            "column 3: different semantics on the two sides of \":\": \"instant\" and \"discrete\"",
        ),
        (
            "n ? 1 : 0.5",
            "column 3: different types on the two sides of \":\": \"32-bit unsigned int\" and \"double\"",
        ),
        (
            "n ? used : free",
            "column 3: different units on the two sides of \":\": \"byte\" and \"Kbyte\"",
        ),
        ("x ? 1 : 2", "column 3: the condition has instances, but its alternatives have none"),
        (
            "other ? x : y",
            "column 7: different instance domains on the two sides of ?:: 70.1 and 70.2",
        ),
        (
            "mkconst(0.5, type=32)",
            "column 1: a constant with this value cannot have type 32-bit int",
        ),
        (
            "mkconst(0.5, meta=x, type=u64)",
            "column 1: a constant with this value cannot have type 64-bit unsigned int",
        ),
        ("mkconst(1, meta=name)", "column 1: a constant with this value cannot have type string"),
        ("mkconst(0.5, meta=name)", "column 1: a constant with this value cannot have type string"),
        ("mkconst(1, meta=absent)", "column 1: no metric absent in the archive"),
        ("rate(speed)", "column 1: rate() cannot be used with units \"byte / sec\""),
        ("rate(delta(x))", "column 6: delta() cannot be used within rate() or delta()"),
        ("rescale(x, \"Mbyte\")", "column 1: \"count\" cannot be converted to \"Mbyte\""),
        (
            "rate(x[5m])",
            "column 7: 5m is not an instance; a rate covers the interval between samples: write \
             rate(NAME), and take a sample every 5m",
        ),
        ("p99(x)", "column 1: x is not a histogram, which a quantile or below() needs"),
        ("free[a]", "column 5: [a]: these values have no instances"),
        (
            "temp * temp",
            "column 6: cannot use * between units \"temperature (C)\" and \"temperature (C)\"",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    assert!(bound("absent").unwrap_err().is_unknown_metric());
    assert!(!bound("used + 1").unwrap_err().is_unknown_metric());
    assert!(!"+".parse::<Expression>().unwrap_err().is_unknown_metric());
}

#[test]
fn instances_of_a_result_are_those_that_can_have_values() {
    let of = |text: &str| -> Vec<i32> {
        let instances = |place: usize| match METRICS[place].0 {
            "x" => BTreeSet::from([1, 2].map(|n| Some(id(n)))),
            "y" => BTreeSet::from([2, 3].map(|n| Some(id(n)))),
            _ => BTreeSet::from([None]),
        };
        let found = bound(text).unwrap().instances(&instances);
        found.iter().map(|id| id.map_or(0, InstanceId::get)).collect()
    };
    assert_eq!(of("x + y"), [2]);
    assert_eq!(of("2 * x / n"), [1, 2]);
    assert_eq!(of("sum(x)"), [0]);
    assert_eq!(of("-rate(x[a])"), [1]);
    assert_eq!(of("7"), [0]);
    assert_eq!(of("n ? x : y"), [1, 2, 3]);
    assert_eq!(of("n ? sum(x) : y"), [2, 3]);
    assert_eq!(of("n ? novalue() : y"), [2, 3]);
    assert_eq!(of("!x > 5"), [1, 2]);
    assert_eq!(of("matchinst(!/a/, x)"), [2]);
    assert_eq!(of("mkconst(1, indom=70.1)"), [1, 2, 3]);
}

proptest! {
    /// forall values: the sum over instances of x + y is sum(x) + sum(y), their
    /// mean is between min and max, and the order of operands does not matter.
    #[test]
    fn aggregates_agree_with_each_other(numbers in vec((0u32..1 << 20, 0u32..1 << 20), 1..9)) {
        let row = |pick: fn(&(u32, u32)) -> u32| -> Vec<(i32, Value<'static>)> {
            (1..).zip(&numbers).map(|(id, pair)| (id, Value::U32(pick(pair)))).collect()
        };
        let now = values(&[("x", &row(|pair| pair.0)), ("y", &row(|pair| pair.1))]);
        let value = |text| evaluated(text, &now, &[]);
        prop_assert_eq!(value("sum(x + y)"), value("sum(x) + sum(y)"));
        prop_assert_eq!(value("x + y"), value("y + x"));
        prop_assert_eq!(value("x - y + y"), value("x"));
        prop_assert_eq!(value("count(x)"), vec![(0, numbers.len() as f64)]);
        let one = |text| value(text)[0].1;
        let rounding = one("max(x)") * 1e-7;
        prop_assert!(one("min(x)") <= one("avg(x)") + rounding);
        prop_assert!(one("avg(x)") <= one("max(x)") + rounding);
    }

    /// forall expressions of the language's tokens: bound or rejected, and what
    /// is bound has a value for no more instances than it names.
    #[test]
    fn every_expression_is_rejected_or_has_values(words in vec(0usize..28, 1..24)) {
        let all = [
            "x", "y", "n", "ops", "bytes", "free", "load", "2", "0.5", "+", "-", "*", "/", "(", ")",
            "sum(", "rate(", "[a]", "<", "==", "&&", "!", "?", ":", "novalue()",
            "mkconst(1, meta=x)", "matchinst(/a/,", "defined(x)",
        ];
        let text: Vec<&str> = words.iter().map(|word| all[*word]).collect();
        if let Ok(bound) = bound(&text.join(" ")) {
            let now = values(&[
                ("x", &[(1, Value::U32(4)), (2, Value::U32(6))]),
                ("n", &[(0, Value::U32(2))]),
                ("ops", &[(2, Value::U64(4)), (3, Value::U64(6))]),
            ]);
            let places: Vec<usize> = (0..METRICS.len()).collect();
            let found = bound.values(&OperandValues { places: &places, now: &now, before: None, of_interval: &|_| ExpressionValues::new(), gaps: Gaps::Join });
            let of = |place: usize| now[place].iter().map(|(id, _)| *id).collect();
            let named = bound.instances(&of);
            let is_named = found.iter().all(|(id, _)| named.contains(id));
            let is_typed = found.iter().all(|(_, value)| value.is_of(bound.root.value_type));
            prop_assert!(is_named && is_typed);
            prop_assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}

#[test]
fn units_are_those_of_the_examples_in_the_manual() {
    // network.interface.speed - delta(network.interface.in.bytes) / delta(milliseconds)
    assert_eq!(
        described("rescale(1.0 * speed, \"Mbyte / sec\") - delta(bytes) / delta(busy)"),
        "double, instant, Mbyte / sec, "
    );
    assert_eq!(Units::megabytes().per_second().to_string(), "Mbyte / sec");
}
