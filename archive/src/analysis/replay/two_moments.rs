//! The values of a replay at two moments: what rates, differences and quantiles
//! are computed from.

use super::expression::ExpressionValues;
use crate::{InstanceId, Timestamp, Value};

/// All tracks of a replay at a moment, and at one before it.
pub(super) struct TwoMoments<'r> {
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    pub(super) now: Vec<ExpressionValues<'r>>,
    /// Without counters if there is a mark or a boundary of runs in between; `None` if this
    /// moment is not before the other, or outside of the archive.
    pub(super) before: Option<Vec<ExpressionValues<'r>>>,
    /// `now`, but counters as their rates.
    pub(super) rates: Vec<ExpressionValues<'r>>,
    /// For each counter of which a run ended or began in between, what it counted as far as it
    /// was observed.
    pub(super) grown: Vec<Option<ExpressionValues<'r>>>,
}

pub(super) fn value_of<'v>(
    values: &[(Option<InstanceId>, Value<'v>)],
    instance: Option<InstanceId>,
) -> Option<Value<'v>> {
    let place = values.binary_search_by_key(&instance, |(instance, _)| *instance).ok()?;
    values.get(place).map(|(_, value)| *value)
}
