//! The rules that compute a value from the two observations around it.
//!
//! Pure functions of two neighbouring observations and a moment; the
//! [timeline](super) and its marks decide which observations are neighbours.
//! Times are `f64` seconds since the archive's start, because PCP compares and
//! divides them in that form and results have to agree with PCP's to the last
//! bit (`src/libpcp/src/interp.c`, 7.2.1).
//!
//! | semantics | a value exists with | value |
//! |---|---|---|
//! | counter | both neighbours | on the line between them: [`on_the_line`] |
//! | instant | both neighbours | the nearer in time: [`nearer`] |
//! | discrete | the earlier one | the nearer in time, or the only one |
//!
//! Strings, aggregates and event arrays cannot be interpolated: where a value exists
//! it is always the earlier one. At the exact time of an observation every rule
//! returns that observation.

use crate::analysis::growth::Decrease;
use crate::{Semantics, Value};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ObservedValue<V> {
    /// Seconds since the archive's start.
    pub(crate) at: f64,
    pub(crate) value: V,
}

/// Returns the value at `at` between the neighbouring observations `prior` (not after `at`) and
/// `next` (not before), or `None` where the semantics give none.
///
/// A counter whose type is not a number has no value.
///
/// Worked example, PCP 7.2.1, observations 100 at 0 s and 203 at 10 s:
///
/// | at | counter | instant | discrete | instant string |
/// |---|---|---|---|---|
/// | 0 | 100 | 100 | 100 | 100 |
/// | 5 | 152 | 100 | 100 | 100 |
/// | 7 | 172 | 203 | 203 | 100 |
/// | 10 | 203 | 203 | 203 | 203 |
///
/// and where the observation at 10 s is missing only discrete has a value, 100.
pub(crate) fn value_at<'a>(
    semantics: Semantics,
    prior: Option<ObservedValue<Value<'a>>>,
    next: Option<ObservedValue<Value<'a>>>,
    at: f64,
    decrease: Decrease,
) -> Option<Value<'a>> {
    let prior = prior?;
    let next = match (next, semantics) {
        (Some(next), _) => next,
        (None, Semantics::Discrete) => return Some(prior.value),
        (None, _) => return None,
    };
    if semantics == Semantics::Counter {
        return on_the_line(prior, next, at, decrease);
    }
    if prior.value.as_f64().is_some() {
        return Some(nearer(prior, next, at));
    }
    Some(prior_or_exact(prior, next, at))
}

/// Returns the earlier value, except at the exact time of the later one.
fn prior_or_exact<V>(prior: ObservedValue<V>, next: ObservedValue<V>, at: f64) -> V {
    if prior.at < at && next.at <= at { next.value } else { prior.value }
}

/// Returns the value of the observation nearer to `at`; of the earlier one at equal distance.
///
/// Observations at 0 s and 10 s: the first up to and including 5 s, then the
/// second. (Releases before 6.3.2 returned the first up to 10 s.)
pub(crate) fn nearer<V>(prior: ObservedValue<V>, next: ObservedValue<V>, at: f64) -> V {
    if prior.at < at && (next.at <= at || at > f64::midpoint(prior.at, next.at)) {
        next.value
    } else {
        prior.value
    }
}

/// Returns a counter on the straight line between two observations.
///
/// Integers have one half added and their fraction cut: 720 at 20 s and 1020
/// at 30 s give 870 at 25 s; 100 and 203 give 152 (151.5 + 0.5) in the middle.
pub(crate) fn on_the_line<'a>(
    prior: ObservedValue<Value<'a>>,
    next: ObservedValue<Value<'a>>,
    at: f64,
    decrease: Decrease,
) -> Option<Value<'a>> {
    prior.value.as_f64()?;
    if prior.at >= at {
        return Some(prior.value);
    }
    if next.at <= at {
        return Some(next.value);
    }
    let part = Fraction { elapsed: at - prior.at, whole: next.at - prior.at };
    let wraps = decrease == Decrease::Wrap;
    Some(match (prior.value, next.value) {
        (Value::I32(a), Value::I32(b)) => Value::I32(counter_i32(a, b, part, wraps)),
        (Value::U32(a), Value::U32(b)) => Value::U32(counter_u32(a, b, part, wraps)),
        (Value::I64(a), Value::I64(b)) => Value::I64(counter_i64(a, b, part, wraps)),
        (Value::U64(a), Value::U64(b)) => Value::U64(counter_u64(a, b, part, wraps)),
        (Value::Float(a), Value::Float(b)) => Value::Float(counter_f32(a, b, part)),
        (Value::Double(a), Value::Double(b)) => Value::Double(counter_f64(a, b, part)),
        _ => return None,
    })
}

/// The position of a moment between two observations.
#[derive(Debug, Clone, Copy)]
struct Fraction {
    elapsed: f64,
    whole: f64,
}

impl Fraction {
    /// Returns this fraction of a difference. PCP multiplies before it divides, and the last bit of
    /// the answer depends on it.
    fn scale(self, difference: f64) -> f64 {
        self.elapsed * difference / self.whole
    }
}

/// Interpolates as PCP: -10 to -20 gives -12 at a third of the way: -13.3 + 0.5, truncated towards
/// zero.
fn counter_i32(prior: i32, next: i32, part: Fraction, wraps: bool) -> i32 {
    if wraps && next < prior {
        let distance = next.wrapping_sub(prior) as u32;
        return prior.wrapping_add((0.5 + part.scale(f64::from(distance))) as u32 as i32);
    }
    let difference = f64::from(next) - f64::from(prior);
    (0.5 + f64::from(prior) + part.scale(difference)) as i32
}

/// Interpolates as PCP: 203 to 50 gives 127 in the middle after a reset (203.5 - 76.5), and 2 147
/// 483 775 if the counter wrapped: 203 + (2^32 - 153) / 2.
fn counter_u32(prior: u32, next: u32, part: Fraction, wraps: bool) -> u32 {
    if next >= prior {
        return (0.5 + f64::from(prior) + part.scale(f64::from(next - prior))) as u32;
    }
    if wraps {
        return prior.wrapping_add((0.5 + part.scale(f64::from(next.wrapping_sub(prior)))) as u32);
    }
    (0.5 + f64::from(prior) - part.scale(f64::from(prior - next))) as u32
}

/// Interpolates as [`counter_i32`]; the difference is exact, the other steps have the 53 bits of a
/// double. The result for larger counters is kept between the two observations: of `2^60 + 100` and
/// `2^60 + 120` it is `2^60 + 100` in the middle. PCP gives `2^60`, from which a rate would conclude
/// that the counter was reset.
fn counter_i64(prior: i64, next: i64, part: Fraction, wraps: bool) -> i64 {
    if wraps && next < prior {
        let distance = next.wrapping_sub(prior) as u64;
        return prior.wrapping_add((0.5 + part.scale(distance as f64)) as u64 as i64);
    }
    let difference = i128::from(next) - i128::from(prior);
    let value = (0.5 + prior as f64 + part.scale(difference as f64)) as i64;
    let is_held = prior.unsigned_abs().max(next.unsigned_abs()) <= EXACT;
    if is_held { value } else { value.clamp(prior.min(next), prior.max(next)) }
}

/// Interpolates as [`counter_u32`] and, beyond the 53 bits of a double, [`counter_i64`]. PCP
/// handles unsigned 64-bit counters as signed, so its results are wrong if one observation is below
/// 2^63 and the other above; here they are unsigned.
fn counter_u64(prior: u64, next: u64, part: Fraction, wraps: bool) -> u64 {
    if next >= prior {
        let value = (0.5 + prior as f64 + part.scale((next - prior) as f64)) as u64;
        return value.clamp(prior, next);
    }
    if wraps {
        let risen = part.scale(next.wrapping_sub(prior) as f64);
        let value = 0.5 + prior as f64 + risen;
        // The cast is undefined in C from 2^64 on; the counter has wrapped there.
        let is_past_the_end = value >= 2.0 * (1u64 << 63) as f64;
        return if is_past_the_end {
            prior.wrapping_add((0.5 + risen) as u64)
        } else {
            (value as u64).max(prior)
        };
    }
    let value = (0.5 + prior as f64 - part.scale((prior - next) as f64)) as u64;
    value.clamp(next, prior)
}

/// Up to here a double holds every integer.
const EXACT: u64 = 1 << 53;

/// Interpolates as C does with `float` operands: the difference is rounded to single precision
/// before it is multiplied, and the answer once more.
fn counter_f32(prior: f32, next: f32, part: Fraction) -> f32 {
    (f64::from(prior) + part.scale(f64::from(next - prior))) as f32
}

fn counter_f64(prior: f64, next: f64, part: Fraction) -> f64 {
    prior + part.scale(next - prior)
}

#[cfg(test)]
mod tests;
