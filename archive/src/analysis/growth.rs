//! The growth of a counter from one of its values to the next.
//!
//! Reports, summaries and pictures share these rules: the difference of two values (`number`),
//! where values do not continue and where counters began at 0 (`walls`), what each value of an
//! instance follows (`strand`), and when the instance exists (`lifetime`).

pub(crate) mod lifetime;
pub(crate) mod number;
pub(crate) mod strand;
pub(crate) mod walls;

use crate::scan::{SelectedMetric, Selection, programs};

pub(crate) use number::growth;

/// The meaning of a decrease of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decrease {
    /// The counter was reset: values between the two observations decrease linearly,
    /// as in PCP by default.
    #[default]
    Reset,
    /// It overflowed its integer type and continued from zero, as PCP assumes
    /// where `PCP_COUNTER_WRAP` is set. Floating point counters do not wrap.
    Wrap,
}

/// The meaning of a time without values between others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// A metric has no values while its program was away.
    #[default]
    Keep,
    /// Values are interpolated over it as in PCP, which knows marks only.
    Join,
}

/// Returns the metrics with numbers of a selection, and the agent's events where these make gaps.
pub(crate) fn numbers<'a>(selection: &Selection<'a>, gaps: Gaps) -> Selection<'a> {
    let mut selection = selection.clone();
    selection.retain(SelectedMetric::has_numbers);
    match gaps {
        Gaps::Keep => programs::select_events(&mut selection),
        Gaps::Join => selection.mark_archives(),
    }
    selection
}
