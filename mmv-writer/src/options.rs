//! Options of registries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mmv_format::directory::MmvDirectory;
use mmv_format::layout::{Flags, MAX_CLUSTER, Version};

use crate::Error;
use crate::capacity::Capacity;
use crate::identity::{Absent, FileIdentity};
use crate::overflow::Clusters;
use crate::registration::check;
use crate::system::process_id;

/// Options for a registry; see [`Registry::builder`](crate::Registry::builder).
#[derive(Debug, Clone)]
#[must_use = "a registry is made by build()"]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct RegistryBuilder {
    pub(crate) name: String,
    /// The name without the number of a process, see [`RegistryBuilder::per_process`].
    application: String,
    directory: Option<PathBuf>,
    pub(crate) cluster: u32,
    flags: Flags,
    /// The rule for the sentinel flag.
    pub(crate) absent: Absent,
    pub(crate) pinned: Option<Version>,
    pub(crate) lenient: bool,
    per_process: bool,
    replace_running: bool,
    pub(crate) overflow_cluster: Option<u32>,
    pub(crate) sealed: bool,
    pub(crate) capacity: Capacity,
    pub(crate) announce_interval: Duration,
}

/// Default interval between announcements of changes to readers: each makes PCP's reader read all
/// files again.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);

impl RegistryBuilder {
    pub(crate) fn new(name: String) -> Self {
        Self {
            application: name.clone(),
            name,
            directory: None,
            cluster: 0,
            flags: Flags::PROCESS,
            absent: Absent::default(),
            pinned: None,
            lenient: false,
            per_process: false,
            replace_running: false,
            overflow_cluster: None,
            sealed: false,
            capacity: Capacity::default(),
            announce_interval: ANNOUNCE_INTERVAL,
        }
    }

    /// Makes the file as small as its content and final: it is published by
    /// [`Registry::publish`](crate::Registry::publish), once all metrics are registered, and
    /// takes none after that.
    ///
    /// For programs that know all of their metrics when they start. Instances cannot come and
    /// go; everything else is as in a registry that grows.
    pub fn sealed(mut self) -> Self {
        self.sealed = true;
        self
    }

    /// Sets the limit on the instances of all domains together, in each file; 65 536 by
    /// default, 4 192 256 at most. A sealed file has no limit of its own.
    pub fn max_instances(mut self, most: u32) -> Self {
        self.capacity.instances = most;
        self
    }

    /// Sets the limit on the values of all metrics together, in each file; 262 144 by default.
    /// An isolated value counts for two or three. With all of its room a file has to be
    /// smaller than 4 GiB.
    pub fn max_values(mut self, most: u32) -> Self {
        self.capacity.values = most;
        self
    }

    /// Sets the limit on the values that are texts, in each file; 65 536 by default.
    pub fn max_texts(mut self, most: u32) -> Self {
        self.capacity.texts = most;
        self
    }

    /// Sets the minimum time between two announcements of changes; 100 ms by default.
    /// Each makes PCP's reader read all files again.
    pub fn announce_interval(mut self, interval: Duration) -> Self {
        self.announce_interval = interval;
        self
    }

    /// Puts the file into this directory, which must exist; the default is what
    /// [`MmvDirectory::choose`] gives: the system's, or the user's own, which is then
    /// created. [`Registry::path`](crate::Registry::path) is the result.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Leaves the file's name out of metric names. The name may then be any that
    /// does not start with a dot.
    pub fn no_prefix(mut self) -> Self {
        self.flags = self.flags.with(Flags::NO_PREFIX);
        self
    }

    /// Sets whether readers ignore the file when this process has ended; true by default.
    pub fn process(mut self, process: bool) -> Self {
        let others = Flags::from_raw(self.flags.raw() & !Flags::PROCESS.raw());
        self.flags = if process { others.with(Flags::PROCESS) } else { others };
        self
    }

    /// Continues without a file when the system refuses one: no directory, no
    /// permission, no space, a limit on file sizes ([`Error::Io`]); and when another running
    /// process has the file ([`Error::Running`]). Handles then count without readers, one
    /// line on standard error gives the reason (once in the life of the process), and
    /// [`Registry::is_published`](crate::Registry::is_published) is false. Errors in
    /// registrations stay errors.
    pub fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    /// Makes the file one of several of the same application, one for each process:
    /// its name is that of the application, a dot and the process's number. All
    /// need the same explicit cluster, and metrics on the domain that
    /// [`Registry::process`](crate::pcp::RegistryExt::process) gives, or families with a label
    /// of the process. Readers then find each metric once, with an instance for each process.
    ///
    /// Items and domains have numbers that follow from the names of metrics, so that processes
    /// may register them in any order. Of two names with the same number, which one of six
    /// applications with 20 metrics has, the one that is registered later gets the next:
    /// register what all processes have in one order.
    ///
    /// The file of a process that was killed stays for readers. The next process of the application
    /// that starts removes it, once its file is older than an hour.
    ///
    /// The file's name is left out of metric names, so let these start with the
    /// application's: `app.requests`.
    pub fn per_process(mut self) -> Self {
        self.name = format!("{}.{}", self.name, process_id());
        self.per_process = true;
        self.no_prefix()
    }

    /// Replaces the file of another process that is running, which no reader sees then, and
    /// which does not get its file back. By default that is [`Error::Running`]; the file of
    /// a process that has ended, and one of this process, is always replaced.
    ///
    /// For programs whose next instance takes over before the last one has ended. Where
    /// several are to be seen at once, give each [a file](Self::per_process).
    pub fn replace_running(mut self) -> Self {
        self.replace_running = true;
        self
    }

    /// Returns the name of the application if each of its processes has a file.
    pub(crate) fn per_process_application(&self) -> Option<&str> {
        self.per_process.then_some(&self.application)
    }

    /// Returns the same options with a file name for this process, a forked child.
    pub(crate) fn for_this_process(&self) -> Self {
        let process = process_id();
        let mut child = self.clone();
        if self.per_process {
            child.name = format!("{}.{process}", self.application);
        } else {
            child.name = format!("{}_{process}", self.application);
            child.cluster = 0;
            child.overflow_cluster = None;
        }
        child
    }

    /// Checks the options. Returns the identity of the first file, and the clusters of overflow
    /// files.
    pub(crate) fn identity(&self) -> Result<(FileIdentity, Clusters), Error> {
        check::file_name(&self.name, !self.flags.contains(Flags::NO_PREFIX))?;
        Error::check_range("cluster", &self.name, self.cluster, 0, MAX_CLUSTER)?;
        if self.per_process && self.cluster == 0 {
            return Err(Error::NeedsCluster { name: self.name.clone() });
        }
        let chosen = self.directory.is_none().then(MmvDirectory::choose);
        let chosen_path = chosen.as_ref().map(MmvDirectory::path);
        let directory = self.directory.as_deref().or(chosen_path).unwrap_or(Path::new(""));
        let clusters = match self.overflow_cluster {
            Some(cluster) => {
                Error::check_range("cluster", &self.name, cluster, 1, MAX_CLUSTER)?;
                Clusters::From(cluster)
            }
            // Readers would choose a cluster for each process, and use one process only.
            None if self.per_process => Clusters::None,
            None => Clusters::Chosen,
        };
        let flags = match self.absent {
            Absent::Always => self.flags.with(Flags::SENTINEL),
            Absent::ByNeed | Absent::Never => self.flags,
        };
        let path = directory.join(&self.name);
        let mut identity = FileIdentity {
            name: self.name.clone(),
            path,
            chosen,
            cluster: self.cluster,
            replace_running: self.replace_running,
            per_process: self.per_process,
            flags,
            absent: self.absent,
            prefix: String::new(),
            attempts: 0,
        };
        identity.leave_taken_name(None);
        Ok((identity, clusters))
    }
}
