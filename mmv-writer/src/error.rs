//! Errors of registration and publication.

use std::path::PathBuf;
use std::{fmt, io};

use mmv_format::file::{FileError, PublishError};
use mmv_format::layout::{MAX_SERIAL, Version};
use pcp_types::printable;

/// Error of a registration or publication, with the name of the metric, label or file.
///
/// A handle never fails. Printed with `{:?}` it is the same sentence as with `{}`, so
/// that a `main` that returns it prints something to read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be created, allocated, mapped, written or renamed.
    #[error("{path}: {action}: {source}", path = printable::path(path))]
    Io {
        /// The step that failed, as an infinitive: "create".
        action: &'static str,
        /// The path of the directory or file.
        path: PathBuf,
        /// The error of the system call.
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
        /// The path of the file.
        path: PathBuf,
        /// The process; `None` if it has no number here, as one in another container.
        process: Option<u32>,
    },
    /// A file name that readers skip, or that spoils all metric names under it.
    #[error(
        "file name \"{name}\" is not one of letters, digits, '_' and single dots{}",
        file_name_like(name)
    )]
    FileName {
        /// The rejected file name.
        name: String,
    },
    /// A metric name with other characters than letters, digits, `_` and `.`,
    /// that does not start with a letter, or with an empty component.
    #[error(
        "\"{name}\" is not a metric name, which has letters, digits, '_' and single dots, and \
         begins with a letter"
    )]
    MetricName {
        /// The rejected metric name.
        name: String,
    },
    /// A label name that is not a letter and then letters, digits and `_`.
    #[error(
        "\"{name}\" is not a label name, which has letters, digits and '_', and begins with a \
         letter"
    )]
    LabelName {
        /// The rejected label name.
        name: String,
    },
    /// A label value that was given as JSON and is not.
    #[error("label {name}: {json} is not a JSON value")]
    LabelValue {
        /// The name of the label.
        name: String,
        /// The rejected text.
        json: String,
    },
    /// A text that is too short or too long, in bytes.
    #[error("{what} of \"{name}\" has {found} bytes, expected {min} to {max}")]
    Length {
        /// The kind of text: "help".
        what: &'static str,
        /// The name of what the text belongs to.
        name: String,
        /// The length of the text in bytes.
        found: usize,
        /// The least number of bytes.
        min: usize,
        /// The largest number of bytes.
        max: usize,
    },
    /// A NUL inside a text, which would end there for every reader.
    #[error("{what} of {name} contains a NUL")]
    Nul {
        /// The kind of text: "help".
        what: &'static str,
        /// The name of what the text belongs to.
        name: String,
    },
    /// A number outside its range.
    #[error("{what} {found} of {name}, expected {min} to {max}")]
    OutOfRange {
        /// The kind of number: "item".
        what: &'static str,
        /// The name of what the number belongs to.
        name: String,
        /// The rejected number.
        found: i64,
        /// The lower end of the range.
        min: i64,
        /// The upper end of the range.
        max: i64,
    },
    /// A name that is registered already.
    #[error("{what} \"{name}\" is already taken")]
    NameTaken {
        /// The kind of name: "metric name".
        what: &'static str,
        /// The name that is taken.
        name: String,
    },
    /// A number that is registered already.
    #[error("{what} {number} of {name} is already taken")]
    NumberTaken {
        /// The kind of number: "item".
        what: &'static str,
        /// The number that is taken.
        number: i64,
        /// The name of what the number was requested for.
        name: String,
    },
    /// A metric name that is a branch of another one: in PCP's name space a name is
    /// either a leaf or a branch.
    #[error("\"{leaf}\" cannot be both a metric and a branch of \"{longer}\"")]
    LeafAndBranch {
        /// The shorter name, which would be a metric.
        leaf: String,
        /// The longer name, of which that is a branch.
        longer: String,
    },
    /// A registry that was made before a fork, used in the child: it is the
    /// parent's. The child makes one of its own, under another name.
    #[error(
        "{path} belongs to process {created}; process {found} is a fork of it and needs a registry \
         of its own, under another name",
        path = printable::path(path)
    )]
    Forked {
        /// The path of the file.
        path: PathBuf,
        /// The process that made the registry.
        created: u32,
        /// The process that uses it.
        found: u32,
    },
    /// A registry for a forked child, requested in the process that has one.
    #[error(
        "{path} belongs to this process, which is not a forked child",
        path = printable::path(path)
    )]
    NotForked {
        /// The path of the file.
        path: PathBuf,
    },
    /// A registration in a sealed registry that is published.
    #[error(
        "{path}: {name} cannot be registered: the registry is sealed and published; register \
         it before publish(), or build the registry without sealed()",
        path = printable::path(path)
    )]
    Sealed {
        /// The name of the rejected metric, domain or label.
        name: String,
        /// The path of the file.
        path: PathBuf,
    },
    /// A metric whose instances come and go, on a domain with fixed instances.
    #[error(
        "{name} cannot have instances that come and go: those of indom {indom} are fixed, as \
         all are in a sealed registry; use build_instances, or an indom without names in a \
         registry that is not sealed"
    )]
    FixedInstances {
        /// The name of the metric.
        name: String,
        /// The name of its domain.
        indom: String,
    },
    /// An optional value or a histogram, in a registry with
    /// [`no_sentinel`](crate::pcp::RegistryBuilderExt::no_sentinel).
    #[error(
        "{name} can be without a value, which its registry excludes by no_sentinel(): \
         remove that call"
    )]
    NeedsSentinel {
        /// The name of the metric.
        name: String,
    },
    /// More than readers take from one file.
    #[error("{name} does not fit: the file already has {max} {what}, the limit")]
    Full {
        /// The kind of entries.
        what: &'static str,
        /// The limit of readers.
        max: u32,
        /// The name of the rejected entry.
        name: String,
    },
    /// Instance domains in a cluster for which PCP cannot number them.
    #[error(
        "indom {name}: a file with a cluster above {MAX_SERIAL} cannot have instance domains; its cluster is {cluster}"
    )]
    IndomInHighCluster {
        /// The name of the domain.
        name: String,
        /// The cluster of the file.
        cluster: u32,
    },
    /// A file that is one of several of an application, without the cluster that
    /// they share.
    #[error("{name}: files of one application need an explicit cluster, the same in all")]
    NeedsCluster {
        /// The name of the file.
        name: String,
    },
    /// A label of the whole file without a cluster to attach it to: readers
    /// compare it with the cluster they chose, and lose the label.
    #[error("label {name} of the whole file needs an explicit cluster")]
    LabelNeedsCluster {
        /// The name of the label.
        name: String,
    },
    /// A label of an instance that its domain does not have.
    #[error("label {label}: indom {indom} has no instance {instance}")]
    NoInstance {
        /// The name of the label.
        label: String,
        /// The name of the domain.
        indom: String,
        /// The instance's number or name.
        instance: String,
    },
    /// An instance domain of another registry.
    #[error("indom {name} belongs to another registry")]
    OtherRegistry {
        /// The name of the domain.
        name: String,
    },
    /// Something that the pinned version of the format cannot hold.
    #[error(
        "{what} {name} needs version {} of the format, but the file is pinned to version {}",
        needed.code(),
        pinned.code()
    )]
    Version {
        /// The kind of entry that needs it: "label".
        what: &'static str,
        /// The name of that entry.
        name: String,
        /// The lowest version that can hold it.
        needed: Version,
        /// The version that the file is pinned to.
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
        Err(Self::OutOfRange {
            what,
            name: name.to_owned(),
            found: found.into(),
            min: min.into(),
            max: max.into(),
        })
    }

    /// Makes the error for a name that does not fit, as the file has `max` of something already.
    pub(crate) fn full(what: &'static str, max: u32, name: &str) -> Self {
        Self::Full { what, max, name: name.to_owned() }
    }

    /// Returns a function that makes an [`Error::Io`] of a system error, for `map_err`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// Returns the suggestion of a file name with `_` for all that it cannot have; nothing if little
/// would be left.
fn file_name_like(name: &str) -> String {
    let legal = name.replace(|one: char| !one.is_ascii_alphanumeric() && one != '.', "_");
    let parts: Vec<&str> = legal.split('.').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!("; \"{}\" is", parts.join(".")) }
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

    #[test]
    fn a_file_name_that_is_refused_comes_with_one_that_is_not() {
        let text = |name: &str| Error::FileName { name: name.to_owned() }.to_string();
        let rule = "of letters, digits, '_' and single dots";
        assert_eq!(
            text("my-app"),
            format!("file name \"my-app\" is not one {rule}; \"my_app\" is")
        );
        assert!(text(".a..b/c").ends_with("; \"a.b_c\" is"));
        assert!(text("..").ends_with(rule));
    }
}
