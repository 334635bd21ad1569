//! The rules, on observations alone.

use super::*;

fn seen<V>(at: f64, value: V) -> ObservedValue<V> {
    ObservedValue { at, value }
}

fn ask<'a>(
    semantics: Semantics,
    observations: &[ObservedValue<Value<'a>>],
    at: f64,
    decrease: Decrease,
) -> Option<Value<'a>> {
    let prior = observations.iter().rev().find(|o| o.at <= at).copied();
    let next = observations.iter().find(|o| o.at >= at).copied();
    value_at(semantics, prior, next, at, decrease)
}

fn u32s(pairs: &[(f64, u32)]) -> Vec<ObservedValue<Value<'static>>> {
    pairs.iter().map(|&(at, value)| seen(at, Value::U32(value))).collect()
}

/// The archive of "Explaining Value Interpolation with PCP Archives".
fn paper(values: [u32; 9]) -> Vec<ObservedValue<Value<'static>>> {
    values.iter().enumerate().map(|(i, &v)| seen(10.0 * (i + 1) as f64, Value::U32(v))).collect()
}

#[test]
fn counter_of_the_paper_replayed_every_25_seconds() {
    let counter = paper([610, 720, 1020, 1020, 1020, 1050, 1100, 1200, 1210]);
    let at = |t| ask(Semantics::Counter, &counter, t, Decrease::Reset);
    assert_eq!(at(0.0), None);
    assert_eq!(at(25.0), Some(Value::U32(870)));
    assert_eq!(at(50.0), Some(Value::U32(1020)));
    assert_eq!(at(75.0), Some(Value::U32(1150)));
    assert_eq!(at(100.0), None);
}

#[test]
fn counter_of_the_paper_replayed_every_3_seconds() {
    let counter = paper([610, 720, 1020, 1020, 1020, 1050, 1100, 1200, 1210]);
    let at = |t| ask(Semantics::Counter, &counter, t, Decrease::Reset);
    let answers: Vec<_> = [9.0, 12.0, 15.0, 18.0, 21.0, 24.0, 27.0, 30.0, 33.0, 90.0, 93.0]
        .map(at)
        .into_iter()
        .map(|v| if let Some(Value::U32(v)) = v { Some(v) } else { None })
        .collect();
    let expected = [632, 665, 698, 750, 840, 930, 1020, 1020].map(Some);
    assert_eq!(answers[0], None, "before the first observation");
    assert_eq!(answers[1..9], expected);
    assert_eq!(answers[9..], [Some(1210), None], "the last observation, and after it");
}

#[test]
fn instant_of_the_paper_replayed_every_15_seconds() {
    let instant = paper([400, 880, 650, 1120, 1120, 940, 580, 1200, 850]);
    let at = |t| ask(Semantics::Instant, &instant, t, Decrease::Reset);
    let expected = [
        (0.0, None),
        (15.0, Some(400)),
        (30.0, Some(650)),
        (45.0, Some(1120)),
        (60.0, Some(940)),
        (75.0, Some(580)),
        (90.0, Some(850)),
        (105.0, None),
    ];
    for (t, value) in expected {
        assert_eq!(at(t), value.map(Value::U32), "t = {t}");
    }
}

#[test]
fn discrete_example_of_the_paper_goes_on_after_90() {
    let discrete = paper([400, 880, 650, 1120, 1120, 940, 580, 1200, 850]);
    let at = |t| ask(Semantics::Discrete, &discrete, t, Decrease::Reset);
    let expected = [
        (8.0, None),
        (12.0, Some(400)),
        (16.0, Some(880)),
        (24.0, Some(880)),
        (28.0, Some(650)),
        (84.0, Some(1200)),
        (88.0, Some(850)),
        (92.0, Some(850)),
        (96.0, Some(850)),
    ];
    for (t, value) in expected {
        assert_eq!(at(t), value.map(Value::U32), "t = {t}");
    }
}

#[test]
fn a_counter_that_went_down_is_a_reset_or_a_wrap() {
    let counter = u32s(&[(10.0, 203), (20.0, 50)]);
    let at = |decrease| ask(Semantics::Counter, &counter, 15.0, decrease);
    assert_eq!(at(Decrease::Reset), Some(Value::U32(127)));
    assert_eq!(at(Decrease::Wrap), Some(Value::U32(2_147_483_775)));
}

/// Observations at 0 s and 4 s, a moment, and the answers to a reset and to a
/// wrap. Of a difference near 2^64 the last bits are lost in a double.
#[test]
fn the_four_integer_types_wrap_at_their_own_end() {
    use crate::raw::AnyValue::{Double, Float, I32, I64, U32, U64};
    const TWO_63: u64 = 1 << 63;
    for (prior, next, at, reset, wrap) in [
        // Across the end of the type, in steps of one, and half a step up.
        (U32(u32::MAX - 1), U32(2), 1.0, U32(3_221_225_471), U32(u32::MAX)),
        (U32(u32::MAX - 1), U32(2), 2.0, U32(1 << 31), U32(0)),
        (U32(u32::MAX - 1), U32(2), 3.0, U32(1_073_741_825), U32(1)),
        (U32(u32::MAX), U32(1), 1.0, U32(3_221_225_472), U32(0)),
        (I32(i32::MAX - 1), I32(i32::MIN + 2), 1.0, I32(1_073_741_823), I32(i32::MAX)),
        (I32(i32::MAX - 1), I32(i32::MIN + 2), 2.0, I32(0), I32(i32::MIN)),
        (I32(i32::MAX - 1), I32(i32::MIN + 2), 3.0, I32(-1_073_741_822), I32(i32::MIN + 1)),
        (U64(u64::MAX - 1), U64(2), 1.0, U64(TWO_63 / 2 * 3), U64(u64::MAX)),
        (U64(u64::MAX - 1), U64(2), 2.0, U64(TWO_63), U64(0)),
        (U64(u64::MAX - 1), U64(2), 3.0, U64(TWO_63 / 2), U64(1)),
        (I64(i64::MAX - 1), I64(i64::MIN + 2), 1.0, I64(1 << 62), I64(i64::MAX)),
        (I64(i64::MAX - 1), I64(i64::MIN + 2), 2.0, I64(0), I64(i64::MIN)),
        (I64(i64::MAX - 1), I64(i64::MIN + 2), 3.0, I64(-(1 << 62)), I64(i64::MIN + 1)),
        // From one less: nearly a whole turn.
        (U32(203), U32(50), 2.0, U32(127), U32(2_147_483_775)),
        (I32(-3), I32(-7), 2.0, I32(-4), I32(i32::MAX - 4)),
        (U64(203), U64(50), 2.0, U64(127), U64(TWO_63)),
        (I64(-3), I64(-7), 2.0, I64(-4), I64(i64::MAX - 2)),
        // From end to end.
        (U32(u32::MAX), U32(0), 1.0, U32(3_221_225_471), U32(u32::MAX)),
        (I32(i32::MAX), I32(i32::MIN), 2.0, I32(0), I32(i32::MIN)),
        (U64(u64::MAX), U64(0), 2.0, U64(TWO_63), U64(0)),
        (I64(i64::MAX), I64(i64::MIN), 2.0, I64(0), I64(i64::MIN)),
        // What does not go down does not wrap, and a fraction has no end.
        (U32(0), U32(u32::MAX), 2.0, U32(1 << 31), U32(1 << 31)),
        (I64(i64::MIN), I64(i64::MAX), 2.0, I64(0), I64(0)),
        (Float(4.0), Float(2.0), 2.0, Float(3.0), Float(3.0)),
        (Double(4.0), Double(2.0), 2.0, Double(3.0), Double(3.0)),
    ] {
        for (decrease, expected) in [(Decrease::Reset, reset), (Decrease::Wrap, wrap)] {
            let found = |at| on_the_line(seen(0.0, prior), seen(4.0, next), at, decrease);
            let context = format!("{prior:?} to {next:?} at {at}: {decrease:?}");
            assert_eq!(found(at), Some(expected), "{context}");
            assert_eq!([found(0.0), found(4.0)], [Some(prior), Some(next)], "{context}");
        }
    }
}

/// As PCP, which adds the earlier value before it cuts the fraction: 10^18 + 1 and a
/// quarter of a turn to 5 is 5 361 686 018 427 387 904 in a double, not ...905.
#[test]
fn an_unsigned_counter_that_wraps_is_rounded_once() {
    for (prior, next, at, expected) in [
        (1_000_000_000_000_000_001, 5, 1.0, 5_361_686_018_427_387_904),
        (1_000_000_000_000_000_001, 7, 3.0, 14_085_058_055_282_163_712),
        (9_007_199_254_740_001, 1, 0.000_000_000_1, 9_007_199_715_683_424),
    ] {
        let line = (seen(0.0, Value::U64(prior)), seen(4.0, Value::U64(next)));
        assert_eq!(on_the_line(line.0, line.1, at, Decrease::Wrap), Some(Value::U64(expected)));
    }
}

#[test]
fn counter_beyond_a_double_stays_between_neighbours() {
    use crate::raw::AnyValue::{I64, U64};
    const LARGE: u64 = 1 << 60;
    for (prior, next, middle) in [
        (U64(LARGE + 100), U64(LARGE + 120), U64(LARGE + 100)),
        (U64(LARGE + 200), U64(LARGE + 220), U64(LARGE + 220)),
        (U64(LARGE + 120), U64(LARGE + 100), U64(LARGE + 100)),
        (U64(LARGE), U64(LARGE + 4096), U64(LARGE + 2048)),
        (U64(u64::MAX - 10), U64(u64::MAX - 5), U64(u64::MAX - 5)),
        (I64(i64::MAX - 10), I64(i64::MAX - 5), I64(i64::MAX - 5)),
        (I64(i64::MIN + 5), I64(i64::MIN + 10), I64(i64::MIN + 5)),
    ] {
        let found = on_the_line(seen(0.0, prior), seen(2.0, next), 1.0, Decrease::Reset);
        assert_eq!(found, Some(middle), "{prior:?} to {next:?}");
    }
}

#[test]
fn negative_integers_round_upwards() {
    let third = |prior, next| on_the_line(seen(0.0, prior), seen(3.0, next), 1.0, Decrease::Reset);
    assert_eq!(third(Value::I32(-10), Value::I32(-20)), Some(Value::I32(-12)));
    assert_eq!(third(Value::I64(-10), Value::I64(-20)), Some(Value::I64(-12)));
}

#[test]
fn differences_wider_than_the_type_do_not_overflow() {
    let middle = |prior, next| on_the_line(seen(0.0, prior), seen(2.0, next), 1.0, Decrease::Reset);
    assert_eq!(middle(Value::I32(i32::MIN), Value::I32(i32::MAX)), Some(Value::I32(0)));
    assert_eq!(middle(Value::U64(0), Value::U64(u64::MAX)), Some(Value::U64(1 << 63)));
    assert_eq!(middle(Value::I64(i64::MIN), Value::I64(i64::MAX)), Some(Value::I64(0)));
}

#[test]
fn floats_are_not_rounded_to_integers() {
    let middle = |prior, next| on_the_line(seen(0.0, prior), seen(2.0, next), 1.0, Decrease::Reset);
    assert_eq!(middle(Value::Float(1.0), Value::Float(1.5)), Some(Value::Float(1.25)));
    assert_eq!(middle(Value::Double(1.0), Value::Double(1.5)), Some(Value::Double(1.25)));
}

#[test]
fn strings_hold_until_the_next_one_is_due() {
    let text = [seen(0.0, Value::String(b"v100")), seen(10.0, Value::String(b"v203"))];
    let at = |semantics, t| ask(semantics, &text, t, Decrease::Reset);
    assert_eq!(at(Semantics::Instant, 7.0), Some(Value::String(b"v100")));
    assert_eq!(at(Semantics::Instant, 10.0), Some(Value::String(b"v203")));
    assert_eq!(at(Semantics::Instant, 10.5), None);
    assert_eq!(at(Semantics::Discrete, 10.5), Some(Value::String(b"v203")));
    assert_eq!(at(Semantics::Counter, 5.0), None);
}

#[test]
fn the_middle_belongs_to_the_earlier_observation() {
    let instant = u32s(&[(0.0, 100), (10.0, 203)]);
    let at = |t| ask(Semantics::Instant, &instant, t, Decrease::Reset);
    assert_eq!(at(5.0), Some(Value::U32(100)));
    assert_eq!(at(5.000_000_001), Some(Value::U32(203)));
}
