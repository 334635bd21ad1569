//! Plain records of registrations, which exist only if they passed the checks.

use std::sync::Arc;

use mmv_format::content;
use mmv_format::layout::{
    LABEL_BYTES, LABEL_INDOM, LABEL_INSTANCES, LABEL_OPTIONAL, LabelEntry, NAME_BYTES, Version,
    nul_padded,
};
use pcp_types::{InstanceId, Semantics, Units};

use super::check;
use crate::metric::Members;
use crate::{Error, Label};

pub(crate) type Help = content::Help<String>;

/// A checked metric, with its complete name and its numbers in a file.
pub(crate) type MetricRecord = content::MetricContent<String>;

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
    pub(crate) fn add_names<N: AsRef<str>>(&mut self, names: impl IntoIterator<Item = N>) {
        self.instances.extend(names.into_iter().map(|name| (None, name.as_ref().to_owned())));
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

    pub(crate) fn entry(&self) -> LabelEntry {
        LabelEntry {
            flags: self.class | if self.optional { LABEL_OPTIONAL } else { 0 },
            identity: self.identity,
            instance: self.instance.map_or(-1, InstanceId::get),
            json: nul_padded(self.json.as_bytes()).unwrap_or([0; LABEL_BYTES]),
        }
    }

    /// Returns whether two labels of one name are attached to the same target.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && (self.class, self.identity, self.instance)
                == (other.class, other.identity, other.instance)
    }
}

/// Returns the lowest version whose entries hold a name of this length.
pub(crate) fn version_for_name(name: &str) -> Version {
    if name.len() < NAME_BYTES { Version::V1 } else { Version::V2 }
}
