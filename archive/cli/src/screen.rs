//! Chooses the columns that are shown first where a screen has no room for all.
//!
//! In: columns by rank, each with the name of its metric or histogram. Out: the same columns in the
//! order in which a screen shows them.

use hashbrown::{HashMap, HashSet};

use crate::columns::Column;
use crate::order::branch;

/// A column, and the name of its metric or histogram.
pub(crate) type NamedColumn<C> = (String, C);

/// Puts the p99 of histograms with several instances directly after their rates: together they fit
/// into a screen.
pub(crate) fn put_p99_next_to_rate<C: AsRef<Column>>(columns: &mut [NamedColumn<C>]) {
    for own in columns.chunk_by_mut(|(one, _), (next, _)| one == next) {
        let first = own.first().and_then(|(_, column)| column.as_ref().instance);
        if own.iter().any(|(_, column)| column.as_ref().instance != first) {
            own.sort_by_key(|(name, column)| place_in_histogram(column.as_ref(), name));
        }
    }
}

/// Returns 0 for the rate of a histogram and for other metrics, 1 for a p99, 2 for other numbers of
/// a histogram.
fn place_in_histogram(column: &Column, name: &str) -> usize {
    match column.name.strip_prefix(name) {
        Some("") | None => 0,
        Some(".p99") => 1,
        Some(_) => 2,
    }
}

/// Moves the first metric of each program before the second metric of any program, and numbers of
/// histograms other than rate and p99 to the end.
pub(crate) fn put_first_numbers_first<C: AsRef<Column>>(columns: &mut Vec<NamedColumn<C>>) {
    let mut seen: HashMap<String, Vec<String>> = HashMap::new();
    let mut keyed = Vec::new();
    for (name, column) in std::mem::take(columns) {
        let of_program = seen.entry(branch(&name).to_owned()).or_default();
        if of_program.last() != Some(&name) {
            of_program.push(name.clone());
        }
        let is_secondary = place_in_histogram(column.as_ref(), &name) > 1;
        keyed.push(((is_secondary, of_program.len()), (name, column)));
    }
    keyed.sort_by_key(|(key, _)| *key);
    columns.extend(keyed.into_iter().map(|(_, column)| column));
}

/// Names the metrics of columns that were left out, given by their places, which ascend.
pub(crate) fn left_out(names: &[String], places: &[usize]) -> Vec<String> {
    let is_shown = |name: &String| {
        let mut own = names.iter().enumerate().filter(|(_, other)| *other == name);
        own.any(|(place, _)| places.binary_search(&place).is_err())
    };
    let mut seen = HashSet::new();
    let left_out = places.iter().filter_map(|place| names.get(*place));
    let left_out = left_out.filter(|name| seen.insert(*name));
    left_out
        .map(|name| if is_shown(name) { format!("more of {name}") } else { name.clone() })
        .collect()
}
