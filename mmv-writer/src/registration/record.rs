//! Plain records of registrations, which exist only if they passed the checks.

use std::sync::Arc;

use mmv_format::layout::{
    LABEL_INDOM, LABEL_INSTANCES, LABEL_OPTIONAL, LabelEntry, MetricV2, NAME_BYTES, Version,
    nul_padded,
};
use pcp_types::{InstanceId, Semantics, Units};

use super::check;
use crate::metric::Members;
use crate::{Error, Label};

/// The help texts of a metric or domain.
#[derive(Debug, Default, Clone)]
pub(crate) struct Help {
    pub(crate) short: Option<String>,
    pub(crate) long: Option<String>,
}

impl Help {
    /// Checks both texts of `name`.
    pub(super) fn check(&self, name: &str) -> Result<(), Error> {
        check::help("help", name, self.short.as_deref().unwrap_or_default())?;
        check::help("long help", name, self.long.as_deref().unwrap_or_default())
    }
}

/// The serial that a program wants for a domain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum SerialChoice {
    /// The lowest free serial.
    #[default]
    Lowest,
    /// This serial or none.
    Stated(u32),
    /// This serial or, if it is taken, the next free one.
    From(u32),
}

/// An instance domain as the program describes it.
#[derive(Debug, Default)]
pub(crate) struct IndomSpec {
    pub(crate) name: String,
    pub(crate) serial: SerialChoice,
    pub(crate) help: Help,
    /// Fixed instances, each with the number that the program states, if any; empty in a
    /// domain whose instances come and go.
    pub(crate) instances: Vec<(Option<i32>, String)>,
    pub(crate) labels: Vec<Label>,
    /// Labels of fixed instances, with the names of the instances.
    pub(crate) instance_labels: Vec<(String, Label)>,
}

impl IndomSpec {
    pub(crate) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Adds instances whose numbers follow from their names.
    pub(crate) fn add_names<N: Into<String>>(&mut self, names: impl IntoIterator<Item = N>) {
        self.instances.extend(names.into_iter().map(|name| (None, name.into())));
    }

    /// Adds instances whose numbers are their positions.
    pub(crate) fn add_numbered(&mut self, names: impl IntoIterator<Item = String>) {
        let numbers = (0..=i32::MAX).map(Some);
        self.instances.extend(numbers.zip(names));
    }
}

/// An instance domain, which may be in several files.
#[derive(Debug)]
pub(crate) struct IndomRecord {
    pub(crate) name: String,
    /// The requested serial, or the one in the first of its files.
    pub(crate) serial: u32,
    pub(crate) help: Help,
    pub(crate) labels: Vec<Label>,
    pub(crate) instance_labels: Vec<(InstanceId, Label)>,
    /// The fixed instances.
    pub(crate) members: Arc<Members>,
}

impl IndomRecord {
    /// Returns the labels of the domain and its instances, for a file where it has this serial.
    pub(super) fn label_records(&self, serial: u32) -> Result<Vec<LabelRecord>, Error> {
        let of_indom = self.labels.iter().map(|label| (LABEL_INDOM, None, label));
        let of_instances = self.instance_labels.iter();
        let of_instances = of_instances.map(|(id, label)| (LABEL_INSTANCES, Some(*id), label));
        let all = of_indom.chain(of_instances);
        all.map(|(class, id, label)| LabelRecord::new(class, serial, id, label.clone())).collect()
    }
}

/// A metric as the program describes it.
#[derive(Debug, Clone)]
pub(crate) struct MetricSpec {
    pub(crate) name: String,
    pub(crate) type_code: i32,
    pub(crate) semantics: Semantics,
    pub(crate) item: Option<u32>,
    pub(crate) units: Units,
    pub(crate) help: Help,
    pub(crate) labels: Vec<Label>,
    /// True if a value may be absent, as it is at first.
    pub(crate) optional: bool,
    /// True if each value has a cache line of its own.
    pub(crate) isolated: bool,
}

/// A checked metric, with its complete name and its numbers in a file.
#[derive(Debug)]
pub(crate) struct MetricRecord {
    pub(crate) name: String,
    pub(crate) item: u32,
    pub(crate) type_code: i32,
    pub(crate) semantics: Semantics,
    pub(crate) units: Units,
    /// The domain's serial; `None` for a singular metric.
    pub(crate) indom: Option<u32>,
    pub(crate) help: Help,
}

impl MetricRecord {
    /// Returns the entry in a file of version 2 or 3, with the offsets of its name and its
    /// help texts.
    pub(crate) fn entry(&self, name: u64, (short_help, long_help): (u64, u64)) -> MetricV2 {
        MetricV2 {
            name,
            item: self.item,
            type_code: self.type_code,
            semantics: self.semantics.code(),
            units: self.units.raw(),
            indom: self.indom.unwrap_or(u32::MAX),
            padding: 0,
            short_help,
            long_help,
        }
    }
}

/// A checked label, and what it is attached to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LabelRecord {
    pub(super) class: u32,
    optional: bool,
    pub(super) identity: u32,
    pub(super) instance: Option<InstanceId>,
    pub(crate) name: String,
    /// The JSON text `{"name":value}`.
    json: String,
}

impl LabelRecord {
    /// Checks a label and attaches it to a target.
    pub(crate) fn new(
        class: u32,
        identity: u32,
        instance: Option<InstanceId>,
        label: Label,
    ) -> Result<Self, Error> {
        check::label(&label)?;
        let json = label.text();
        let Label { name, optional, .. } = label;
        Ok(Self { class, optional, identity, instance, name, json })
    }

    /// Returns the label's entry.
    pub(crate) fn entry(&self) -> LabelEntry {
        LabelEntry {
            flags: self.class | if self.optional { LABEL_OPTIONAL } else { 0 },
            identity: self.identity,
            instance: self.instance.map_or(-1, InstanceId::get),
            json: padded(&self.json),
        }
    }

    /// Returns whether two labels of one name are attached to the same target.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && (self.class, self.identity, self.instance)
                == (other.class, other.identity, other.instance)
    }
}

/// Returns a text whose length was checked, padded with NULs.
pub(crate) fn padded<const N: usize>(text: &str) -> [u8; N] {
    nul_padded(text.as_bytes()).unwrap_or([0; N])
}

/// Returns the lowest version whose entries hold a name of this length.
pub(crate) fn version_for_name(name: &str) -> Version {
    if name.len() < NAME_BYTES { Version::V1 } else { Version::V2 }
}
