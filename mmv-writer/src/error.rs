//! Errors of registration and publication.

use std::path::PathBuf;
use std::{fmt, io};

use mmv_format::file::{FileError, PublishError};
use mmv_format::layout::{MAX_SERIAL, Version};
use pcp_types::printable;

/// Why a registration or a publication failed, with the name that it is about.
///
/// A handle never fails. Printed with `{:?}` it is the same sentence as with `{}`, so
/// that a `main` that returns it prints something to read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be created, allocated, mapped, written or renamed.
    #[error("{path}: {action}: {source}", path = printable::path(path))]
    Io {
        /// What failed.
        action: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process that is running publishes the file.
    #[error(
        "{path}: {holder} publishes this file and is running; end it first, use another name, a \
         file for each process (RegistryBuilder::per_process), or take its place \
         (RegistryBuilder::replace_running)",
        path = printable::path(path),
        holder = process.map_or_else(
            || "a process of another PID namespace".to_owned(),
            |process| format!("process {process}"),
        )
    )]
    Running {
        /// The file.
        path: PathBuf,
        /// The process; `None` if it has no number here, as one in another container.
        process: Option<u32>,
    },
    /// A file name that readers skip, or that spoils all metric names under it.
    #[error(
        "file name \"{name}\" must not start with a dot or contain a slash or NUL and, unless \
         metric names carry no prefix, must be of letters, digits, '_' and single dots"
    )]
    FileName {
        /// The name.
        name: String,
    },
    /// A metric name with other characters than letters, digits, `_` and `.`,
    /// that does not start with a letter, or with an empty component.
    #[error(
        "\"{name}\" is not a metric name, which has letters, digits, '_' and single dots, and \
         begins with a letter"
    )]
    MetricName {
        /// The name.
        name: String,
    },
    /// A label name that is not a letter and then letters, digits and `_`.
    #[error(
        "\"{name}\" is not a label name, which has letters, digits and '_', and begins with a \
         letter"
    )]
    LabelName {
        /// The name.
        name: String,
    },
    /// A label value that was given as JSON and is not.
    #[error("label {name}: {json} is not a JSON value")]
    LabelValue {
        /// The label's name.
        name: String,
        /// The text.
        json: String,
    },
    /// A text that is too short or too long, in bytes.
    #[error("{what} of \"{name}\" has {found} bytes, not {min}..={max}")]
    Length {
        /// Which text.
        what: &'static str,
        /// Whose.
        name: String,
        /// Its length.
        found: usize,
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// A NUL inside a text, which would end there for every reader.
    #[error("{what} of {name} contains a NUL")]
    Nul {
        /// Which text.
        what: &'static str,
        /// Whose.
        name: String,
    },
    /// A number outside its range.
    #[error("{what} {found} of {name} is not within {min}..={max}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Whose.
        name: String,
        /// The number.
        found: i64,
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// A name that is registered already.
    #[error("{what} \"{name}\" is already taken")]
    NameTaken {
        /// What kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number that is registered already.
    #[error("{what} {number} of {name} is already taken")]
    NumberTaken {
        /// What kind of number.
        what: &'static str,
        /// The number.
        number: i64,
        /// What it was requested for.
        name: String,
    },
    /// A metric name that is a branch of another one: in PCP's name space a name is
    /// either a leaf or a branch.
    #[error("\"{leaf}\" cannot be both a metric and a branch of \"{longer}\"")]
    LeafAndBranch {
        /// The shorter name.
        leaf: String,
        /// The longer one.
        longer: String,
    },
    /// A registry that was made before a fork, used in the child: it is the
    /// parent's. The child makes one of its own, under another name.
    #[error("{path} belongs to process {created}, which forked {found}", path = printable::path(path))]
    Forked {
        /// The file.
        path: PathBuf,
        /// The process that made it.
        created: u32,
        /// This process.
        found: u32,
    },
    /// A registry for a forked child, requested in the process that has one.
    #[error("{path} is of this process, which is not a forked child", path = printable::path(path))]
    NotForked {
        /// The file.
        path: PathBuf,
    },
    /// A registration in a sealed registry that is published.
    #[error(
        "{path}: {name} cannot be registered: the registry is sealed and published; register \
         it before publish(), or build the registry without sealed()",
        path = printable::path(path)
    )]
    Sealed {
        /// What was to be registered.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// A metric whose instances come and go, on a domain with fixed instances.
    #[error(
        "{name} cannot have instances that come and go: those of indom {indom} are fixed, as \
         all are in a sealed registry; use build_instances, or an indom without names in a \
         registry that is not sealed"
    )]
    FixedInstances {
        /// The metric.
        name: String,
        /// Its domain.
        indom: String,
    },
    /// An optional value or a histogram, in a registry with
    /// [`no_sentinel`](crate::RegistryBuilder::no_sentinel).
    #[error(
        "{name} can be without a value, which no_sentinel() of its registry rules out: \
             leave that call out"
    )]
    NeedsSentinel {
        /// The metric.
        name: String,
    },
    /// A striped counter on a domain without instances.
    #[error("{name}: a striped counter needs at least one stripe")]
    NoStripes {
        /// The metric.
        name: String,
    },
    /// More than readers take from one file.
    #[error("{name} does not fit: the file has {max} {what} already")]
    Full {
        /// The kind of entries.
        what: &'static str,
        /// The most.
        max: u32,
        /// What does not fit.
        name: String,
    },
    /// Instance domains in a cluster for which PCP cannot number them.
    #[error("indom {name}: a file of cluster {cluster}, above {MAX_SERIAL}, cannot have one")]
    IndomInHighCluster {
        /// The domain.
        name: String,
        /// The cluster.
        cluster: u32,
    },
    /// A file that is one of several of an application, without the cluster that
    /// they share.
    #[error("{name}: files of one application need an explicit cluster, the same in all")]
    NeedsCluster {
        /// The file.
        name: String,
    },
    /// A label of the whole file without a cluster to attach it to: readers
    /// compare it with the cluster they chose, and lose the label.
    #[error("label {name} of the whole file needs an explicit cluster")]
    LabelNeedsCluster {
        /// The label.
        name: String,
    },
    /// A label of an instance that its domain does not have.
    #[error("label {label}: indom {indom} has no instance {instance}")]
    NoInstance {
        /// The label.
        label: String,
        /// The domain.
        indom: String,
        /// The instance's number or name.
        instance: String,
    },
    /// An instance domain of another registry.
    #[error("indom {name} belongs to another registry")]
    OtherRegistry {
        /// The domain.
        name: String,
    },
    /// Something that the pinned version of the format cannot hold.
    #[error("{what} {name} needs version {needed:?}, but the file is pinned to {pinned:?}")]
    Version {
        /// What needs it.
        what: &'static str,
        /// Which one.
        name: String,
        /// The lowest version that can hold it.
        needed: Version,
        /// The pinned version.
        pinned: Version,
    },
}

impl From<FileError> for Error {
    fn from(FileError { action, path, source }: FileError) -> Self {
        Self::Io { action, path, source }
    }
}

impl From<PublishError> for Error {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::File(error) => error.into(),
            PublishError::Running { path, process } => Self::Running { path, process },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Checks that a number is within `min..=max`.
    pub(crate) fn check_range(
        what: &'static str,
        name: &str,
        found: u32,
        min: u32,
        max: u32,
    ) -> Result<(), Self> {
        if (min..=max).contains(&found) {
            return Ok(());
        }
        let (found, min, max) = (i64::from(found), i64::from(min), i64::from(max));
        Err(Self::OutOfRange { what, name: name.to_owned(), found, min, max })
    }

    /// `name` does not fit a file that has `max` of something.
    pub(crate) fn full(what: &'static str, max: u32, name: &str) -> Self {
        Self::Full { what, max, name: name.to_owned() }
    }

    /// Makes an [`Error::Io`] out of a system error.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_main_returns_can_be_read() {
        let error = Error::MetricName { name: "http-requests".to_owned() };
        let text = format!("{error:?}");
        assert!(text.starts_with("\"http-requests\" is not a metric name, which has"), "{text}");
    }
}
