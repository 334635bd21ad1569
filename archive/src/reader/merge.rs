//! The metadata of several archives of one host, as one.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use crate::format::{Adaptation, Adaptations, adaptation, common_desc};
use crate::{Archive, ByteText, Error, Metadata, Metric, MetricDesc, Pmid};

/// The metadata of archives in the order of time, merged.
#[derive(Debug, Default)]
pub(super) struct MergedMetadata {
    /// A metric has one descriptor, and a name one metric.
    pub(super) metadata: Metadata,
    /// [`Error::DescDiffers`] for each archive whose values of a metric are left out;
    /// [`Error::PmidDiffers`] once for each name that earlier archives have for
    /// another metric than the last one that has it.
    pub(super) left_out: Vec<Error>,
    /// For each archive the changes that make its values those of the timeline.
    pub(super) adaptations: Vec<Adaptations>,
    differing: BTreeSet<Pmid>,
    moved: HashSet<ByteText>,
}

/// Merges the metadata of all archives, which are in the order of time.
pub(super) fn merge(archives: &[Archive]) -> MergedMetadata {
    let mut merged = MergedMetadata::default();
    merged.adaptations.resize_with(archives.len(), Adaptations::default);
    for (at, archive) in archives.iter().enumerate() {
        let before = archives.get(..at).unwrap_or_default();
        for metric in archive.metadata().metrics() {
            merged.add_metric(metric, archive, before);
        }
        let metadata = &mut merged.metadata;
        let later = archive.metadata();
        for (indom, history) in &later.indoms {
            metadata.indoms.entry(*indom).or_default().extend(history);
        }
        for (target, history) in &later.labels {
            metadata.labels.entry(*target).or_default().extend(history);
        }
        let texts = later.texts.iter().map(|(key, text)| (*key, text.clone()));
        metadata.texts.extend(texts);
    }
    // What is left out comes before names that have moved.
    let moved = std::mem::take(&mut merged.left_out);
    for pmid in std::mem::take(&mut merged.differing) {
        merged.adapt(pmid, archives);
    }
    merged.left_out.extend(moved);
    merged
}

impl MergedMetadata {
    /// Adds a metric of an archive. `before` are the archives that were merged earlier.
    fn add_metric(&mut self, metric: &Metric, archive: &Archive, before: &[Archive]) {
        let metadata = &mut self.metadata;
        let pmid = metric.desc.pmid;
        let at = *metadata.by_pmid.entry(pmid).or_insert_with(|| {
            metadata.metrics.push(Metric { desc: metric.desc, names: Vec::new() });
            metadata.metrics.len() - 1
        });
        if metadata.metrics.get(at).is_some_and(|known| known.desc != metric.desc) {
            self.differing.insert(pmid);
        }
        for name in &metric.names {
            self.add_name(name, at, archive, before);
        }
    }

    /// Gives a name to a metric. The last archive that has a name decides whose it is.
    fn add_name(&mut self, name: &ByteText, at: usize, archive: &Archive, before: &[Archive]) {
        let metadata = &mut self.metadata;
        let pmid = |archive: &Archive| Some(archive.metadata().metric_by_name(name)?.desc.pmid);
        let owner = metadata.by_name.insert(name.clone(), at);
        if owner == Some(at) {
            return;
        }
        if let Some(metric) = metadata.metrics.get_mut(at) {
            metric.names.push(name.clone());
        }
        let Some(former) = owner.and_then(|former| metadata.metrics.get_mut(former)) else {
            return;
        };
        former.names.retain(|other| other != name);
        let expected = former.desc.pmid;
        if self.moved.insert(name.clone()) {
            let last = before.iter().rev().find(|archive| pmid(archive) == Some(expected));
            self.left_out.push(Error::PmidDiffers {
                file: archive.base().to_owned(),
                name: name.to_string(),
                pmid: pmid(archive).unwrap_or(expected),
                other: last.unwrap_or(archive).base().to_owned(),
                expected,
            });
        }
    }

    /// Gives a metric one descriptor: one to which the values of all archives can be converted, or
    /// else that of the archives that are the largest part of the time.
    fn adapt(&mut self, pmid: Pmid, archives: &[Archive]) {
        let having = archives.iter().enumerate();
        let having = having.filter_map(|(at, one)| Some((at, one.metadata().metric(pmid)?.desc)));
        let having: Vec<(usize, MetricDesc)> = having.collect();
        let descs: Vec<MetricDesc> = having.iter().map(|(_, desc)| *desc).collect();
        let Some(desc) = common_desc(&descs).or_else(|| largest_part(&having, archives)) else {
            return;
        };
        let place = self.metadata.by_pmid.get(&pmid).copied();
        if let Some(metric) = place.and_then(|at| self.metadata.metrics.get_mut(at)) {
            metric.desc = desc;
        }
        let kept: Vec<&Archive> = having
            .iter()
            .filter(|(_, own)| adaptation(own, &desc) != Some(Adaptation::LeftOut))
            .filter_map(|(at, _)| archives.get(*at))
            .collect();
        self.remove_names_of_others(pmid, &kept);
        for (at, own) in &having {
            let Some(adaptation) = adaptation(own, &desc) else { continue };
            if adaptation == Adaptation::LeftOut
                && let Some(archive) = archives.get(*at)
                && let Some(difference) = own.difference(&desc)
            {
                let other = kept.first().copied().unwrap_or(archive);
                self.left_out.push(Error::DescDiffers {
                    file: archive.base().to_owned(),
                    name: archive
                        .metadata()
                        .metric(pmid)
                        .map(Metric::display_name)
                        .unwrap_or_default(),
                    pmid,
                    other: other.base().to_owned(),
                    difference: Box::new(difference),
                });
            }
            if let Some(adaptations) = self.adaptations.get_mut(*at) {
                adaptations.insert(pmid, adaptation);
            }
        }
    }
}

impl MergedMetadata {
    /// Removes the names that a metric has only in archives whose values of it are left out: what
    /// had them is another metric.
    fn remove_names_of_others(&mut self, pmid: Pmid, kept: &[&Archive]) {
        let Some(place) = self.metadata.by_pmid.get(&pmid).copied() else { return };
        let Some(metric) = self.metadata.metrics.get_mut(place) else { return };
        let by_name = &mut self.metadata.by_name;
        metric.names.retain(|name| {
            let mut metrics = kept.iter().filter_map(|archive| archive.metadata().metric(pmid));
            let is_kept = metrics.any(|metric| metric.names.contains(name));
            if !is_kept {
                by_name.remove(name);
            }
            is_kept
        });
    }
}

/// Returns the descriptor for the archives that are together the longest, of two that are as long
/// for the later one, and for those whose values can be converted to theirs.
fn largest_part(having: &[(usize, MetricDesc)], archives: &[Archive]) -> Option<MetricDesc> {
    let largest = having.iter().map(|(_, desc)| *desc).max_by_key(|desc| -> i128 {
        let same = having.iter().filter(|(_, own)| own == desc);
        let same = same.filter_map(|(at, _)| archives.get(*at));
        same.map(|archive| archive.end().nanos_since(archive.label().start)).sum()
    })?;
    let alike = having.iter().map(|(_, own)| *own);
    let alike = alike.filter(|own| common_desc(&[*own, largest]).is_some());
    common_desc(&alike.chain([largest]).collect::<Vec<_>>())
}
