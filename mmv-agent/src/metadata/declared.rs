//! Which metadata was declared in an archive.
//!
//! In come catalogs; out go declarations of what is new in them. Invariant: no record
//! is written before the descriptors of its metrics.

use std::sync::Arc;

use hashbrown::HashMap;
use pcp_archive::{ArchiveWriter, Error, LabelSet, LabelTarget, MetricDesc};
use pcp_types::Pmid;

use super::Catalog;

/// The metadata of one archive.
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
    /// Whether a metric of `catalog` has another name in this archive. The catalog that
    /// was declared last is not compared again.
    pub(crate) fn renames(&self, catalog: &Catalog) -> bool {
        let renamed = |(desc, name): &(MetricDesc, Arc<str>)| {
            self.names.get(&desc.pmid).is_some_and(|known| known != name)
        };
        self.catalog != Some(catalog.id) && catalog.metrics.iter().any(renamed)
    }

    /// Whether the host has other labels in `catalog`: pmproxy identifies the source of
    /// an archive by them.
    pub(crate) fn relabels(&self, catalog: &Catalog) -> bool {
        let differ = || self.host.is_some() && self.host.as_ref() != labels_of_host(catalog);
        self.catalog != Some(catalog.id) && differ()
    }

    /// Whether there is such a metric.
    pub(crate) fn knows(&self, pmid: Pmid) -> bool {
        self.names.contains_key(&pmid)
    }

    /// Declares what is new in a catalog, in an order that suits pmproxy, which reads an
    /// archive while it grows:
    ///
    /// | first | since |
    /// |---|---|
    /// | labels of the host | they identify the source; what is read before belongs to another one |
    /// | descriptors | if one does not fit, only labels of the host were declared |
    /// | other labels | those that it knows by then are part of the identity of an instance |
    /// | instances, texts | |
    ///
    /// Each is charged to the user who pays for it.
    ///
    /// # Errors
    ///
    /// From the writer; those that [`needs_new_archive`] need a new archive.
    pub(crate) fn declare(
        &mut self,
        catalog: &Catalog,
        writer: &mut ArchiveWriter,
    ) -> Result<(), Error> {
        if self.catalog == Some(catalog.id) {
            return Ok(());
        }
        let payers = &catalog.payers;
        if let Some(sets) = labels_of_host(catalog) {
            writer.charge_to(payers.of_labels(LabelTarget::Context));
            writer.declare_labels(LabelTarget::Context, sets)?;
            self.host.get_or_insert_with(|| sets.clone());
        }
        for (desc, name) in &catalog.metrics {
            writer.charge_to(payers.of_metric(desc.pmid));
            writer.declare_metric(desc, &[name])?;
            self.names.entry(desc.pmid).or_insert_with(|| Arc::clone(name));
        }
        for (target, sets) in &catalog.labels {
            // Those of the host again, which makes no difference.
            writer.charge_to(payers.of_labels(*target));
            writer.declare_labels(*target, sets)?;
        }
        for (indom, instances) in &catalog.indoms {
            writer.charge_to(payers.of_indom(*indom));
            writer.declare_indom(*indom, instances)?;
        }
        for (target, kind, text) in &catalog.texts {
            writer.charge_to(payers.of_text(*target));
            writer.declare_text(*target, *kind, text.as_str())?;
        }
        self.catalog = Some(catalog.id);
        Ok(())
    }
}

fn labels_of_host(catalog: &Catalog) -> Option<&Vec<LabelSet>> {
    let mut all = catalog.labels.iter();
    all.find(|(target, _)| *target == LabelTarget::Context).map(|(_, sets)| sets)
}

/// Whether a metric differs from the one that the archive has: within an archive it
/// cannot change.
pub(crate) fn needs_new_archive(error: &Error) -> bool {
    matches!(
        error,
        Error::MetricChanged { .. } | Error::NameTaken { .. } | Error::LeafAndBranch { .. }
    )
}
