//! Domains whose instances are sets of label values.

#![expect(clippy::needless_pass_by_value, reason = "values are written where they are used")]

mod name;

use std::fmt;
use std::sync::Arc;

use pcp_types::names::is_label_name;

use super::LiveRegistry;
use super::family::{Family, LiveIndom};
use crate::builder::{IndomBuilder, MetricBuilder};
use crate::metric::Handle;
use crate::{Error, Label};
use name::InstanceName;

/// A [`LiveIndom`] whose instances are sets of values of the same `N` labels. Any number
/// of metrics can be on it. Clones are the same domain.
///
/// ```
/// use mmv_writer::{Counter, Gauge, LabelledFamily, LabelledIndom, Registry, Units};
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// let registry = Registry::builder("web").directory(directory.path()).live().build()?;
/// let requests: LabelledIndom<2> =
///     registry.indom("requests").build_labelled(["method", "code"])?;
/// let count: LabelledFamily<Counter<u64>, 2> =
///     registry.counter("requests").units(Units::count()).build_labelled(&requests)?;
/// let in_flight: LabelledFamily<Gauge<u64>, 2> =
///     registry.gauge("in_flight").build_labelled(&requests)?;
///
/// count.with(["GET", "200"], Counter::inc)?; // the instance "method=GET,code=200"
/// let _guard = in_flight.with(["GET", "200"], Gauge::guard)?;
/// requests.remove(["GET", "200"]);
/// # Ok(())
/// # }
/// ```
///
/// An instance is named by its labels in the order of the domain, with a backslash
/// before `,`, `=` and `\` in a value and `\0` for a NUL, so that no two sets of values have
/// the same name.
/// A name of more than 255 bytes is cut, with a checksum at its end. The labels are
/// also attached to the instance, as [`LiveIndom::label`], as long as the file has
/// room: it takes 255 labels of all instances together.
#[derive(Clone)]
#[must_use]
pub struct LabelledIndom<const N: usize> {
    indom: LiveIndom,
    labels: Arc<[String; N]>,
}

/// A metric on a [`LabelledIndom`]: a handle for each set of label values, made when it
/// is first requested. Clones are the same metric.
#[must_use]
pub struct LabelledFamily<H, const N: usize> {
    family: Family<H>,
    labels: Arc<[String; N]>,
}

impl IndomBuilder<'_, LiveRegistry> {
    /// Registers a domain whose instances are sets of values of these labels.
    ///
    /// # Errors
    ///
    /// As [`IndomBuilder::build`], [`Error::LabelName`], and [`Error::NameTaken`] for a
    /// name that is there twice.
    pub fn build_labelled<const N: usize>(
        self,
        labels: [impl Into<String>; N],
    ) -> Result<LabelledIndom<N>, Error> {
        const { assert!(N > 0, "an instance has at least one label") };
        let labels = labels.map(Into::into);
        for (index, label) in labels.iter().enumerate() {
            if !is_label_name(label) {
                return Err(Error::LabelName { name: label.clone() });
            }
            if labels.iter().take(index).any(|other| other == label) {
                return Err(Error::NameTaken { what: "label", name: label.clone() });
            }
        }
        Ok(LabelledIndom { indom: self.build()?, labels: Arc::new(labels) })
    }
}

impl<const N: usize> LabelledIndom<N> {
    /// Removes an instance, as [`LiveIndom::remove`]; returns whether it existed.
    pub fn remove(&self, values: [impl AsRef<str>; N]) -> bool {
        self.indom.remove(InstanceName::new(&self.labels, &values).as_str())
    }

    /// The domain with its instances by their names.
    pub fn indom(&self) -> &LiveIndom {
        &self.indom
    }
}

impl<const N: usize> fmt::Debug for LabelledIndom<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LabelledIndom");
        debug.field("indom", &self.indom).field("labels", &self.labels).finish()
    }
}

impl<H: Handle + Clone, const N: usize> LabelledFamily<H, N> {
    /// The handle of a set of label values; the instance and its value are created if
    /// they do not exist. Keep the handle where you can, and use
    /// [`LabelledFamily::with`] where you cannot.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::Forked`] in a forked child whose parent made the registry, and
    /// [`Error::Io`] when the disk is full; never for a present instance.
    pub fn get_or_create(&self, values: [impl AsRef<str>; N]) -> Result<H, Error> {
        self.with(values, H::clone)
    }

    /// Calls `borrow` with the handle of a set of label values, as [`Family::with`]. For
    /// a present instance nothing is allocated.
    ///
    /// # Errors
    ///
    /// As [`LabelledFamily::get_or_create`].
    pub fn with<R>(
        &self,
        values: [impl AsRef<str>; N],
        borrow: impl FnOnce(&H) -> R,
    ) -> Result<R, Error> {
        let label = |(name, value): (&String, &_)| Label::new(name.as_str(), AsRef::as_ref(value));
        let labels = || self.labels.iter().zip(&values).map(label).collect();
        let name = InstanceName::new(&self.labels, &values);
        self.family.with_labels(name.as_str(), &labels, borrow)
    }

    /// The handle of a present instance with a value.
    pub fn get(&self, values: [impl AsRef<str>; N]) -> Option<H> {
        self.family.get(InstanceName::new(&self.labels, &values).as_str())
    }
}

impl<H, const N: usize> Clone for LabelledFamily<H, N> {
    fn clone(&self) -> Self {
        Self { family: self.family.clone(), labels: Arc::clone(&self.labels) }
    }
}

impl<H, const N: usize> fmt::Debug for LabelledFamily<H, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LabelledFamily");
        debug.field("family", &self.family).field("labels", &self.labels).finish()
    }
}

impl<H: Handle + Clone> MetricBuilder<'_, H, LiveRegistry> {
    /// Registers the metric on a domain of label values.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build_family`].
    pub fn build_labelled<const N: usize>(
        self,
        indom: &LabelledIndom<N>,
    ) -> Result<LabelledFamily<H, N>, Error> {
        let family = self.build_family(&indom.indom)?;
        Ok(LabelledFamily { family, labels: Arc::clone(&indom.labels) })
    }
}

#[cfg(test)]
mod tests;
