//! Declares metadata in an archive.
//!
//! Input: catalogs. Output: declarations of what is new in them. Invariant: the descriptors of a
//! record's metrics are written before the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::internal::{charge_to, declared_instances};
use pcp_archive::raw::{LabelSet, LabelTarget};
use pcp_archive::{ArchiveWriter, Error};
use pcp_types::{InDom, InstanceId, Pmid, Timestamp};

use super::Catalog;

#[derive(Debug, Default)]
pub(crate) struct ArchiveDeclarations {
    /// Catalog that was declared last.
    catalog: Option<u64>,
    names: HashMap<Pmid, Arc<str>>,
    host: Option<Vec<LabelSet>>,
}

impl ArchiveDeclarations {
    /// Returns true if a metric of `catalog` has another name in this archive. The catalog that
    /// was declared last is not compared again.
    pub(crate) fn renames(&self, catalog: &Catalog) -> bool {
        if self.catalog == Some(catalog.id) {
            return false;
        }
        catalog
            .metrics
            .iter()
            .any(|(desc, name)| self.names.get(&desc.pmid).is_some_and(|known| known != name))
    }

    /// Returns true if the host has other labels in `catalog`: they identify the source of an
    /// archive to pmproxy.
    pub(crate) fn relabels(&self, catalog: &Catalog) -> bool {
        self.catalog != Some(catalog.id)
            && self.host.is_some()
            && self.host.as_ref() != labels_of_host(catalog)
    }

    pub(crate) fn knows(&self, pmid: Pmid) -> bool {
        self.names.contains_key(&pmid)
    }

    /// Declares what is new in a catalog, in an order that suits pmproxy, which reads an archive
    /// while it grows:
    ///
    /// | order | reason |
    /// |---|---|
    /// | labels of the host | they identify the source; anything read before them belongs to
    /// another source |
    /// | descriptors | if one conflicts, only labels of the host were declared |
    /// | other labels | the labels known when instances are read become part of their identity |
    /// | instances, texts | |
    ///
    /// Each record is charged to the user who pays for it.
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
            charge_to(writer, payers.of_labels(LabelTarget::Context));
            writer.declare_labels(LabelTarget::Context, sets)?;
            self.host.get_or_insert_with(|| sets.clone());
        }
        for (desc, name) in &catalog.metrics {
            charge_to(writer, payers.of_metric(desc.pmid));
            writer.declare_metric(desc, &[name])?;
            self.names.entry(desc.pmid).or_insert_with(|| Arc::clone(name));
        }
        for (target, sets) in &catalog.labels {
            // The host's labels are among them; declaring them twice does no harm.
            charge_to(writer, payers.of_labels(*target));
            writer.declare_labels(*target, sets)?;
        }
        for (indom, instances) in &catalog.indoms {
            charge_to(writer, payers.of_indom(*indom));
            writer.declare_indom(*indom, instances)?;
        }
        for (target, kind, text) in &catalog.texts {
            charge_to(writer, payers.of_text(*target));
            writer.declare_text(*target, *kind, text.as_str())?;
        }
        self.catalog = Some(catalog.id);
        Ok(())
    }

    /// Declares that the instances of this archive were removed at `time`, after the last record,
    /// in whose place a catalog has later ones. Otherwise a counter that was created again, and is
    /// above its former value, would look continuous.
    ///
    /// # Errors
    ///
    /// From the writer.
    pub(crate) fn declare_removals(
        &self,
        catalog: &Catalog,
        time: Timestamp,
        writer: &mut ArchiveWriter,
    ) -> Result<(), Error> {
        let replaced = self.replaced(catalog, writer);
        if replaced.is_empty() {
            return Ok(());
        }
        for (indom, removed) in replaced {
            let mut others = declared_instances(writer, indom).to_vec();
            others.retain(|instance| !removed.contains(&instance.id));
            charge_to(writer, catalog.payers.of_indom(indom));
            writer.declare_indom(indom, &others)?;
        }
        writer.date_metadata(time)
    }

    /// Returns the instances of this archive in whose place a catalog has later ones.
    pub(crate) fn replaced(
        &self,
        catalog: &Catalog,
        writer: &ArchiveWriter,
    ) -> BTreeMap<InDom, HashSet<InstanceId>> {
        let mut replaced: BTreeMap<InDom, HashSet<InstanceId>> = BTreeMap::new();
        let Some(last) = self.catalog.filter(|last| *last != catalog.id) else { return replaced };
        for ((indom, id), birth) in &catalog.births {
            let declared = declared_instances(writer, *indom);
            if *birth > last && declared.binary_search_by_key(id, |known| known.id).is_ok() {
                replaced.entry(*indom).or_default().insert(*id);
            }
        }
        replaced
    }
}

fn labels_of_host(catalog: &Catalog) -> Option<&Vec<LabelSet>> {
    let mut all = catalog.labels.iter();
    all.find(|(target, _)| *target == LabelTarget::Context).map(|(_, sets)| sets)
}

/// Returns true if the error means that a metric differs from the one in the archive, where it
/// cannot change.
pub(crate) fn needs_new_archive(error: &Error) -> bool {
    matches!(
        error,
        Error::MetricChanged { .. } | Error::NameTaken { .. } | Error::LeafAndBranch { .. }
    )
}
