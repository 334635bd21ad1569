//! Instance domains.

use std::sync::Arc;

use pcp_types::InstanceId;

use super::Registry;
use super::model::Help;
use crate::{Error, Label};

/// The instances of a domain, in order.
#[derive(Debug)]
pub(crate) struct Members {
    list: Vec<(InstanceId, String)>,
}

impl Members {
    pub(super) fn new(list: Vec<(InstanceId, String)>) -> Self {
        Self { list }
    }

    /// Number and name of each.
    pub(crate) fn list(&self) -> &[(InstanceId, String)] {
        &self.list
    }
}

/// A registered instance domain: what metrics with instances are registered on.
#[derive(Debug, Clone)]
#[must_use]
pub struct Indom {
    /// Which registry it is of.
    pub(super) registry: u64,
    /// Its index there.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) serial: u32,
    pub(super) members: Arc<Members>,
}

impl Indom {
    /// The domain's number within the file.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Number and name of each instance, in order.
    pub fn instances(&self) -> &[(InstanceId, String)] {
        self.members.list()
    }
}

/// A domain being described; see [`Registry::indom`].
#[derive(Debug)]
#[must_use = "a domain is registered by build()"]
pub struct IndomBuilder<'r> {
    registry: &'r Registry,
    pub(super) name: String,
    pub(super) serial: Option<u32>,
    pub(super) help: Help,
    pub(super) instances: Vec<(i32, String)>,
    pub(super) labels: Vec<Label>,
    pub(super) instance_labels: Vec<(i32, Label)>,
}

impl<'r> IndomBuilder<'r> {
    pub(super) fn new(registry: &'r Registry, name: String) -> Self {
        Self {
            registry,
            name,
            serial: None,
            help: Help::default(),
            instances: Vec::new(),
            labels: Vec::new(),
            instance_labels: Vec::new(),
        }
    }

    /// Sets the domain's number, 1..=2047; without this, the lowest that is
    /// free.
    pub fn serial(mut self, serial: u32) -> Self {
        self.serial = Some(serial);
        self
    }

    /// Adds an instance: a number of 0 or more and a name of 1..=255 bytes, each
    /// unique in the domain.
    pub fn instance(mut self, id: i32, name: impl Into<String>) -> Self {
        self.instances.push((id, name.into()));
        self
    }

    /// Adds instances numbered from the count of those already there.
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        for name in names {
            let id = i32::try_from(self.instances.len()).unwrap_or(i32::MAX);
            self.instances.push((id, name.into()));
        }
        self
    }

    /// Sets the one-line help text, at most 255 bytes.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.short = Some(text.into());
        self
    }

    /// Sets the long help text, at most 255 bytes.
    pub fn long_help(mut self, text: impl Into<String>) -> Self {
        self.help.long = Some(text.into());
        self
    }

    /// Attaches a label to the domain.
    pub fn label(mut self, label: Label) -> Self {
        self.labels.push(label);
        self
    }

    /// Attaches a label to the instance of a number.
    pub fn instance_label(mut self, id: i32, label: Label) -> Self {
        self.instance_labels.push((id, label));
        self
    }

    /// Registers the domain. It may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NumberTaken`], [`Error::NameTaken`],
    /// [`Error::Length`], [`Error::Nul`], [`Error::Full`],
    /// [`Error::IndomInHighCluster`], [`Error::Version`], and what is wrong with
    /// a label.
    pub fn build(self) -> Result<Indom, Error> {
        self.registry.state().add_indom(self)
    }
}
