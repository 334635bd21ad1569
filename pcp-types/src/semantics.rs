//! Semantics: the meaning of a metric's values over time (`PM_SEM_*`, `<pcp/pmapi.h>`).

use std::fmt;

use crate::Error;

/// The meaning of a metric's values over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Semantics {
    /// A count that only grows; the difference of two values is the news
    /// (`PM_SEM_COUNTER`, 1).
    Counter = 1,
    /// A value that varies continuously and is meant for the moment of its
    /// observation (`PM_SEM_INSTANT`, 3).
    Instant = 3,
    /// A value that holds until it is changed (`PM_SEM_DISCRETE`, 4).
    Discrete = 4,
}

impl Semantics {
    /// Returns the `PM_SEM_*` code.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Returns the semantics of a code; 2 was never assigned.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownSemantics`] for other codes than 1, 3 and 4.
    pub const fn from_code(code: i32) -> Result<Self, Error> {
        match code {
            1 => Ok(Self::Counter),
            3 => Ok(Self::Instant),
            4 => Ok(Self::Discrete),
            _ => Err(Error::UnknownSemantics(code)),
        }
    }
}

/// As pminfo prints it: `counter`, `instant`, `discrete` (`pmSemStr(3)`).
impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Counter => "counter",
            Self::Instant => "instant",
            Self::Discrete => "discrete",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_others_are_refused() {
        for code in -2..10 {
            match Semantics::from_code(code) {
                Ok(semantics) => assert_eq!(semantics.code(), code),
                Err(error) => {
                    assert_eq!(error, Error::UnknownSemantics(code));
                    assert!(![1, 3, 4].contains(&code));
                }
            }
        }
    }
}
