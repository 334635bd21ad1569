//! Times as tests write them.

/// A number of seconds, whole or not.
pub trait Seconds {
    /// Returns it in nanoseconds.
    fn nanos(self) -> i128;
}

impl Seconds for f64 {
    fn nanos(self) -> i128 {
        (self * 1e9).round() as i128
    }
}

macro_rules! whole_seconds {
    ($($integer:ty),*) => {
        $(impl Seconds for $integer {
            fn nanos(self) -> i128 {
                i128::from(self) * 1_000_000_000
            }
        })*
    };
}

whole_seconds!(i32, u32, i64, u64);
