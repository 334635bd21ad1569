//! The metadata of several archives of one host, as one.

use hashbrown::hash_map::Entry;

use crate::{Archive, Error, Metadata, Metric, Result};

/// The metadata of archives in the order of time. A metric must have the same
/// descriptor in all of them, and a name the same metric.
pub(super) fn merge(archives: &[Archive]) -> Result<Metadata> {
    let mut merged = Metadata::default();
    for (at, archive) in archives.iter().enumerate() {
        let before = archives.get(..at).unwrap_or_default();
        for metric in archive.metadata().metrics() {
            add_metric(&mut merged, metric, archive, before)?;
        }
        let later = archive.metadata();
        for (indom, history) in &later.indoms {
            merged.indoms.entry(*indom).or_default().extend(history);
        }
        for (target, history) in &later.labels {
            merged.labels.entry(*target).or_default().extend(history);
        }
        let texts = later.texts.iter().map(|(key, text)| (*key, text.clone()));
        merged.texts.extend(texts);
    }
    Ok(merged)
}

/// `before` are the archives that `merged` is from.
fn add_metric(
    merged: &mut Metadata,
    metric: &Metric,
    archive: &Archive,
    before: &[Archive],
) -> Result<()> {
    let pmid = metric.desc.pmid;
    let at = match merged.by_pmid.entry(pmid) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(new) => {
            merged.metrics.push(Metric { desc: metric.desc, names: Vec::new() });
            *new.insert(merged.metrics.len() - 1)
        }
    };
    let Some(known) = merged.metrics.get_mut(at) else { return Ok(()) };
    let file = || archive.base().to_owned();
    let first = |has: &dyn Fn(&Metadata) -> bool| {
        let first = before.iter().find(|archive| has(archive.metadata()));
        first.unwrap_or(archive).base().to_owned()
    };
    if let Some(field) = known.desc.difference(&metric.desc) {
        let other = first(&|metadata| metadata.metric(pmid).is_some());
        let name = metric.display_name();
        return Err(Error::DescDiffers { file: file(), name, pmid, other, field });
    }
    for name in &metric.names {
        match merged.by_name.get(name) {
            None => {
                known.names.push(name.clone());
                merged.by_name.insert(name.clone(), at);
            }
            Some(owner) if *owner == at => {}
            Some(_) => {
                let of = |metadata: &Metadata| Some(metadata.metric_by_name(name)?.desc.pmid);
                let expected = before.iter().find_map(|archive| of(archive.metadata()));
                return Err(Error::PmidDiffers {
                    file: file(),
                    name: name.to_string(),
                    pmid,
                    other: first(&|metadata| of(metadata).is_some()),
                    expected: expected.unwrap_or(pmid),
                });
            }
        }
    }
    Ok(())
}
