//! One file of a live registry, and what is registered in it.

use std::sync::Arc;

use zerocopy::IntoBytes;

use super::file::LiveFile;
use super::room::Room;
use crate::layout::{SectionKind, Version};
use crate::mapping::Lease;
use crate::plan::{encode_label, metric_v2};
use crate::publish::{Identity, Published, unless_refused};
use crate::registry::MetricSpec;
use crate::registry::catalog::{Catalog, Checked, Need};
use crate::registry::model::{Help, LabelRecord, MetricRecord};
use crate::{Error, Label};

/// A file, and what is registered in it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) catalog: Catalog,
    pub(super) file: LiveFile,
    /// `None` once it is withdrawn.
    pub(super) published: Option<Published>,
    /// Of all values that stay.
    pub(super) lease: Arc<Lease>,
}

/// What a registration adds to a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wants {
    serials: usize,
    /// By [`SectionKind`].
    entries: [usize; 6],
}

impl Wants {
    /// The same and so many entries of a section.
    pub(super) fn and(mut self, kind: SectionKind, count: usize) -> Self {
        self.entries[kind as usize] += count;
        self
    }

    /// Both.
    pub(super) fn plus(mut self, other: Self) -> Self {
        self.serials += other.serials;
        for (entries, more) in self.entries.iter_mut().zip(other.entries) {
            *entries += more;
        }
        self
    }

    /// What a domain needs, with instances that are stated with it.
    pub(super) fn of_indom(stated: usize, labels: usize) -> Self {
        Self { serials: 1, ..Self::default() }
            .and(SectionKind::Indoms, 1 + stated)
            .and(SectionKind::Instances, stated)
            // Two help texts; a name and perhaps a text for each instance.
            .and(SectionKind::Strings, 2 + 2 * stated)
            .and(SectionKind::Labels, labels)
    }

    /// What a metric needs, without its values.
    pub(super) fn of_metric(spec: &MetricSpec) -> Self {
        // Name and two help texts.
        Self::default()
            .and(SectionKind::Metrics, 1)
            .and(SectionKind::Strings, 3)
            .and(SectionKind::Labels, spec.labels.len())
    }

    fn need(&self) -> Need {
        Need {
            metrics: self.entries[SectionKind::Metrics as usize],
            indoms: self.serials,
            labels: self.entries[SectionKind::Labels as usize],
        }
    }
}

impl Part {
    /// Creates the file and publishes it, empty.
    pub(super) fn create(identity: &Identity, room: Room, lenient: bool) -> Result<Self, Error> {
        let created = unless_refused(LiveFile::create(identity, room), lenient)?;
        let (file, published) = created.map_or_else(|| LiveFile::unseen(identity, room), Ok)?;
        let catalog = Catalog::new(identity, Some(Version::V3));
        let lease = Lease::new(file.segment());
        Ok(Self { catalog, file, published: Some(published), lease })
    }

    /// Whether there is room for all of this.
    pub(super) fn has_room(&self, wants: &Wants) -> bool {
        let fits = |kind| self.file.has_room(kind, wants.entries[kind as usize]);
        self.catalog.has_room(wants.need()) && SectionKind::ALL.into_iter().all(fits)
    }

    /// Makes sure of room and disk space for all of this.
    pub(super) fn ensure(&mut self, wants: &Wants, name: &str) -> Result<(), Error> {
        for kind in SectionKind::ALL {
            self.file.ensure(kind, wants.entries[kind as usize], name)?;
        }
        Ok(())
    }

    /// Adds a label of the whole file.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let record = self.catalog.check_file_label(label)?;
        self.file.ensure(SectionKind::Labels, 1, &record.name)?;
        self.append_labels(vec![record]);
        Ok(())
    }

    /// Appends a metric that was checked; where it is, and its record.
    pub(super) fn append_metric(&mut self, checked: Checked) -> (u64, MetricRecord) {
        let Checked { record, labels, .. } = checked;
        let name_at = self.file.take_string(&record.name);
        let help = self.append_help(&record.help);
        let at = self.file.take(SectionKind::Metrics);
        self.file.write(at, metric_v2(&record, name_at, help).as_bytes());
        self.catalog.take_metric(&record);
        self.append_labels(labels);
        (at, record)
    }

    /// Appends help texts; where they are, or 0.
    pub(super) fn append_help(&mut self, help: &Help) -> (u64, u64) {
        let mut append =
            |text: &Option<String>| text.as_ref().map_or(0, |text| self.file.take_string(text));
        (append(&help.short), append(&help.long))
    }

    /// Adds labels that were checked; where they are.
    pub(super) fn append_labels(&mut self, labels: Vec<LabelRecord>) -> Vec<u64> {
        let places = labels.iter().map(|label| self.file.add_label(&encode_label(label)));
        let places = places.collect();
        self.catalog.take_labels(labels);
        places
    }
}

#[cfg(test)]
mod tests;
