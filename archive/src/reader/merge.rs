//! The metadata of several archives of one host, as one.

use hashbrown::{HashMap, HashSet};

use crate::{Archive, ByteText, Error, Metadata, Metric, Pmid};

/// What archives in the order of time have in common.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// A metric has the same descriptor in all archives, and a name the same metric.
    pub(super) metadata: Metadata,
    /// [`Error::DescDiffers`] once for each metric that is left out because its descriptors
    /// differ; [`Error::PmidDiffers`] once for each name that earlier archives have for
    /// another metric than the last one that has it.
    pub(super) left_out: Vec<Error>,
    contradicted: HashSet<Pmid>,
    moved: HashSet<ByteText>,
}

/// The metadata of all archives, which are in the order of time.
pub(super) fn merge(archives: &[Archive]) -> Merged {
    let mut merged = Merged::default();
    for (at, archive) in archives.iter().enumerate() {
        let before = archives.get(..at).unwrap_or_default();
        for metric in archive.metadata().metrics() {
            merged.add_metric(metric, archive, before);
        }
        let (metadata, later) = (&mut merged.metadata, archive.metadata());
        for (indom, history) in &later.indoms {
            metadata.indoms.entry(*indom).or_default().extend(history);
        }
        for (target, history) in &later.labels {
            metadata.labels.entry(*target).or_default().extend(history);
        }
        let texts = later.texts.iter().map(|(key, text)| (*key, text.clone()));
        metadata.texts.extend(texts);
    }
    if !merged.contradicted.is_empty() {
        merged.remove_contradicted();
    }
    merged
}

impl Merged {
    /// `before` are the archives that were added.
    fn add_metric(&mut self, metric: &Metric, archive: &Archive, before: &[Archive]) {
        let (metadata, pmid) = (&mut self.metadata, metric.desc.pmid);
        let at = *metadata.by_pmid.entry(pmid).or_insert_with(|| {
            metadata.metrics.push(Metric { desc: metric.desc, names: Vec::new() });
            metadata.metrics.len() - 1
        });
        let known = metadata.metrics.get(at).map(|metric| metric.desc);
        let field = known.and_then(|known| known.difference(&metric.desc));
        if let Some(field) = field
            && self.contradicted.insert(pmid)
        {
            let (file, name) = (archive.base().to_owned(), metric.display_name());
            let has = |archive: &&Archive| archive.metadata().metric(pmid).is_some();
            let other = before.iter().find(has).unwrap_or(archive).base().to_owned();
            self.left_out.push(Error::DescDiffers { file, name, pmid, other, field });
        }
        for name in &metric.names {
            self.add_name(name, at, archive, before);
        }
    }

    /// The last archive that has a name decides whose it is.
    fn add_name(&mut self, name: &ByteText, at: usize, archive: &Archive, before: &[Archive]) {
        let (metadata, pmid) = (&mut self.metadata, |archive: &Archive| {
            Some(archive.metadata().metric_by_name(name)?.desc.pmid)
        });
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

    /// Removes the metrics whose descriptors differ.
    fn remove_contradicted(&mut self) {
        let metadata = &mut self.metadata;
        let mut places = HashMap::new();
        let mut kept = Vec::with_capacity(metadata.metrics.len());
        for (at, metric) in std::mem::take(&mut metadata.metrics).into_iter().enumerate() {
            if !self.contradicted.contains(&metric.desc.pmid) {
                places.insert(at, kept.len());
                kept.push(metric);
            }
        }
        metadata.metrics = kept;
        metadata.by_pmid.retain(|pmid, _| !self.contradicted.contains(pmid));
        metadata.by_name.retain(|_, at| places.contains_key(at));
        for at in metadata.by_pmid.values_mut().chain(metadata.by_name.values_mut()) {
            *at = places.get(at).copied().unwrap_or(*at);
        }
    }
}
