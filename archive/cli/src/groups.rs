//! Metrics that are read in one pass.

use hashbrown::HashSet;
use pcp_archive::Pmid;
use pcp_archive::scan::Selection;

use crate::page::series::count_of;

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
        let cells = count_of(selection, metric).saturating_mul(columns as usize);
        match groups.last_mut() {
            Some((have, group)) if *have + cells <= most => {
                *have += cells;
                group.insert(metric.desc.pmid);
            }
            _ => groups.push((cells, HashSet::from([metric.desc.pmid]))),
        }
    }
    let of = |(_, group): (usize, HashSet<Pmid>)| {
        let mut chosen = selection.clone();
        chosen.retain(|metric| group.contains(&metric.desc.pmid));
        chosen
    };
    groups.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use pcp_archive::{
        Archive, ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
        Units, ValueSet, ValueType, WriterLabel, WriterOptions,
    };

    use super::*;
    use crate::page::series::count;

    #[test]
    fn metrics_are_read_in_groups_of_which_none_has_too_many_columns() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let label = WriterLabel {
            pid: 1,
            hostname: "host".into(),
            timezone: "UTC".into(),
            zoneinfo: "".into(),
        };
        let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default()).unwrap();
        let mut value_sets = Vec::new();
        for item in 0..300 {
            let desc = MetricDesc {
                pmid: Pmid::new(70, 1, item).unwrap(),
                value_type: ValueType::U32,
                indom: None,
                semantics: Semantics::Instant,
                units: Units::NONE,
            };
            writer.declare_metric(&desc, &[&format!("many.m{item}")]).unwrap();
            let values = Ok(vec![(None, OwnedValue::U32(item))]);
            value_sets.push(ValueSet { pmid: desc.pmid, values });
        }
        let timestamp = Timestamp::new(1, 0).unwrap();
        writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
        writer.finish().unwrap();
        let archive = Archive::open(&base).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("");
        let names = |selection: &Selection<'_>| -> Vec<String> {
            selection.metrics().iter().map(|metric| metric.name.clone()).collect()
        };
        let found = groups(&selection, 2048, 1 << 18);
        assert_eq!(found.iter().map(count).collect::<Vec<_>>(), [128, 128, 44]);
        assert_eq!(found.iter().flat_map(names).collect::<Vec<_>>(), names(&selection));
        assert_eq!(groups(&selection, 16, 1 << 18).len(), 1);
        // One metric is never divided.
        assert_eq!(groups(&selection, 1 << 19, 1 << 18).len(), 300);
    }
}
