//! Metrics that are read in one pass, and the number of their series.

use hashbrown::HashSet;
use pcp_archive::Pmid;
use pcp_archive::scan::{SelectedMetric, Selection};

/// Splits the metrics of a selection into groups, which are read one after the other to keep
/// few columns of a picture in memory: `most` of all series of a group together, unless a single
/// metric has more.
pub(crate) fn groups<'a>(
    selection: &Selection<'a>,
    columns: u32,
    most: usize,
) -> Vec<Selection<'a>> {
    let mut groups: Vec<(usize, HashSet<Pmid>)> = Vec::new();
    for metric in selection.metrics() {
        let cells = max_series_of_metric(selection, metric).saturating_mul(columns as usize);
        match groups.last_mut() {
            Some((have, group)) if *have + cells <= most => {
                *have += cells;
                group.insert(metric.desc.pmid);
            }
            _ => groups.push((cells, HashSet::from([metric.desc.pmid]))),
        }
    }
    let mut selections = Vec::new();
    for (_, group) in groups {
        let mut chosen = selection.clone();
        chosen.retain(|metric| group.contains(&metric.desc.pmid));
        selections.push(chosen);
    }
    selections
}

/// Returns an upper bound on the series of a selection.
pub(crate) fn max_series(selection: &Selection<'_>) -> usize {
    selection.metrics().iter().map(|metric| max_series_of_metric(selection, metric)).sum()
}

/// Returns an upper bound on the series of a metric.
fn max_series_of_metric(selection: &Selection<'_>, metric: &SelectedMetric) -> usize {
    let metadata = selection.source().metadata();
    let history = metric.desc.indom.and_then(|indom| metadata.identities(indom));
    history.map_or(1, |history| history.union().len())
}

#[cfg(test)]
mod tests {
    use pcp_archive::Archive;
    use test_archives::Builder;

    use super::*;

    #[test]
    fn metrics_are_read_in_groups_of_limited_columns() {
        let names: Vec<_> = (0..300).map(|item| format!("many.m{item}")).collect();
        let mut builder = Builder::new();
        for name in &names {
            builder = builder.metric(name, "u32 instant");
        }
        let archive = builder.row(0, names.iter().zip(0..)).finish();
        let archive = Archive::open(&archive).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("");
        let names = |selection: &Selection<'_>| -> Vec<String> {
            selection.metrics().iter().map(|metric| metric.name.clone()).collect()
        };
        let found = groups(&selection, 2048, 1 << 18);
        assert_eq!(found.iter().map(max_series).collect::<Vec<_>>(), [128, 128, 44]);
        assert_eq!(found.iter().flat_map(names).collect::<Vec<_>>(), names(&selection));
        assert_eq!(groups(&selection, 16, 1 << 18).len(), 1);
        // One metric is never divided.
        assert_eq!(groups(&selection, 1 << 19, 1 << 18).len(), 300);
    }
}
