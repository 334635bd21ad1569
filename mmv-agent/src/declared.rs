//! What an archive was told of the metrics in it.

use std::sync::Arc;

use hashbrown::HashMap;
use mmv_archive::{ArchiveWriter, Error, LabelSet, LabelTarget, MetricDesc};
use pcp_types::Pmid;

use crate::catalog::Catalog;

/// What one archive knows.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    /// The catalog that was declared last.
    catalog: Option<u64>,
    /// The name each metric has.
    names: HashMap<Pmid, Arc<str>>,
    /// The labels of the host.
    host: Option<Vec<LabelSet>>,
}

impl Declared {
    /// Whether a metric of `catalog` has another name in this archive. The
    /// catalog that was declared last is not looked at again.
    pub(crate) fn renames(&self, catalog: &Catalog) -> bool {
        let renamed = |(desc, name): &(MetricDesc, Arc<str>)| {
            self.names.get(&desc.pmid).is_some_and(|known| known != name)
        };
        self.catalog != Some(catalog.id) && catalog.metrics.iter().any(renamed)
    }

    /// Whether the host has other labels in `catalog`. By them pmproxy tells whose
    /// values an archive has: of a host with others it knows no metric.
    pub(crate) fn relabels(&self, catalog: &Catalog) -> bool {
        let differ = || self.host.is_some() && self.host.as_ref() != labels_of_host(catalog);
        self.catalog != Some(catalog.id) && differ()
    }

    /// Whether there is such a metric.
    pub(crate) fn knows(&self, pmid: Pmid) -> bool {
        self.names.contains_key(&pmid)
    }

    /// Tells the archive what it does not know yet; nothing if it was told of this
    /// catalog last. The order is one that pmproxy understands, which reads an
    /// archive as it grows:
    ///
    /// | first | since |
    /// |---|---|
    /// | labels of the host | by them it tells sources apart; what it read before them is another's |
    /// | descriptors | they are what may not fit, and then nothing else has been said |
    /// | other labels | those it knows then are part of the identity of an instance |
    /// | instances, texts | |
    ///
    /// # Errors
    ///
    /// As the writer's; those that [`is_other_meaning`] knows need a new archive.
    pub(crate) fn declare(
        &mut self,
        catalog: &Catalog,
        writer: &mut ArchiveWriter,
    ) -> Result<(), Error> {
        if self.catalog == Some(catalog.id) {
            return Ok(());
        }
        if let Some(sets) = labels_of_host(catalog) {
            writer.declare_labels(LabelTarget::Context, sets)?;
            self.host.get_or_insert_with(|| sets.clone());
        }
        for (desc, name) in &catalog.metrics {
            writer.declare_metric(desc, &[name])?;
            self.names.entry(desc.pmid).or_insert_with(|| Arc::clone(name));
        }
        for (target, sets) in &catalog.labels {
            // Those of the host again, which makes no difference.
            writer.declare_labels(*target, sets)?;
        }
        for (indom, instances) in &catalog.indoms {
            writer.declare_indom(*indom, instances)?;
        }
        for (target, kind, text) in &catalog.texts {
            writer.declare_text(*target, *kind, text)?;
        }
        self.catalog = Some(catalog.id);
        Ok(())
    }
}

fn labels_of_host(catalog: &Catalog) -> Option<&Vec<LabelSet>> {
    let mut all = catalog.labels.iter();
    all.find(|(target, _)| *target == LabelTarget::Context).map(|(_, sets)| sets)
}

/// Whether a metric means something else than it did: within an archive it cannot.
pub(crate) fn is_other_meaning(error: &Error) -> bool {
    matches!(
        error,
        Error::MetricChanged { .. } | Error::NameTaken { .. } | Error::LeafAndFolder { .. }
    )
}
