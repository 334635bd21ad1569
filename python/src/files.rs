//! The registries of the program, each with a file for every process that counts in it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mmv_writer::pcp::RegistryBuilderExt as _;
use mmv_writer::{Error, Registry, warn};
use pcp_types::hash_of_name;

use crate::generation::PerProcess;

/// All registries. They stay until the process ends: a child that dropped what it inherited could
/// wait for a lock that a thread of its parent had.
static ALL: Mutex<Vec<Arc<Files>>> = Mutex::new(Vec::new());

/// Automatic clusters are given from 1 on, and a cluster with instances is at most 2047. This half
/// is for names.
const FIRST_CLUSTER: u32 = 1024;

/// A metric that is registered again in each process.
pub(crate) trait Register: Send + Sync {
    fn register(&self, registry: &Registry);
}

/// A registry in this process and in those that it was forked from.
pub(crate) struct Files {
    name: String,
    per_process: bool,
    registry: PerProcess<Registry>,
    /// In the order of their declaration, in which a child registers them, too.
    metrics: Mutex<Vec<Arc<dyn Register>>>,
}

/// The options of a registry.
pub(crate) struct FilesOptions {
    pub(crate) name: String,
    pub(crate) per_process: bool,
    pub(crate) cluster: Option<u32>,
    pub(crate) directory: Option<PathBuf>,
}

impl Files {
    /// Publishes a file. Where the system refuses that, the registry counts without readers, and a
    /// line on standard error gives the reason.
    pub(crate) fn publish(options: FilesOptions) -> Result<Arc<Self>, Error> {
        let FilesOptions { name, per_process, cluster, directory } = options;
        let mut builder = Registry::builder(&name).lenient();
        if let Some(directory) = directory {
            builder = builder.directory(directory);
        }
        if let Some(cluster) = cluster {
            builder = builder.cluster(cluster);
        }
        if per_process {
            builder = builder.cluster(cluster.unwrap_or(cluster_of(&name))).per_process();
        }
        let published = builder.build()?;
        let registry = PerProcess::new();
        registry.get_or_init(|_| published);
        let files = Arc::new(Self { name, per_process, registry, metrics: Mutex::default() });
        lock(&ALL).push(Arc::clone(&files));
        Ok(files)
    }

    /// Returns the registry of this process. In a forked child the first call publishes a file with
    /// all metrics that were declared before.
    pub(crate) fn registry(&self) -> &Registry {
        self.registry.get_or_init(|inherited| {
            let registry = self.child(inherited);
            for metric in lock(&self.metrics).iter() {
                metric.register(&registry);
            }
            registry
        })
    }

    /// Makes the registry of a child.
    fn child(&self, inherited: Option<&Registry>) -> Registry {
        // Never empty: the process that made the registry is the first.
        let Some(inherited) = inherited else {
            unreachable!("registry {} of no process", self.name)
        };
        inherited.after_fork().unwrap_or_else(|error| {
            warn(&format!("metrics of {} are not published: {error}\n", self.name));
            inherited.clone()
        })
    }

    pub(crate) fn add(&self, metric: Arc<dyn Register>) {
        lock(&self.metrics).push(metric);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_per_process(&self) -> bool {
        self.per_process
    }

    /// Removes the file of this process, if it has one.
    pub(crate) fn withdraw(&self) {
        if let Some(registry) = self.registry.get() {
            registry.withdraw();
        }
    }
}

/// Removes all files of this process.
pub(crate) fn withdraw_all() {
    for files in lock(&ALL).iter() {
        files.withdraw();
    }
}

/// Returns the cluster of an application that states none: the same in all of its processes.
fn cluster_of(name: &str) -> u32 {
    FIRST_CLUSTER + hash_of_name(name).cast_unsigned() % FIRST_CLUSTER
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
