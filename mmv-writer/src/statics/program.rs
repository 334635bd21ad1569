//! The program's registry, in which statics are registered when they are first used.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use crate::options::RegistryBuilder;
use crate::registry::Inner;
use crate::{Error, Registry};

/// A static metric that was used before it was registered.
pub(super) trait Late: Sync {
    /// Registers the static, or prints why it cannot be registered.
    fn register_late(&'static self, registry: &Registry);
}

struct Program {
    /// Dangling at first. Keeps neither the file nor its memory alive.
    registry: Weak<Inner>,
    /// Statics that were used while there was no registry.
    waiting: Vec<&'static dyn Late>,
}

static PROGRAM: Mutex<Program> = Mutex::new(Program { registry: Weak::new(), waiting: Vec::new() });

impl Program {
    fn lock() -> MutexGuard<'static, Self> {
        PROGRAM.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the registry, unless it was withdrawn.
    fn registry(&self) -> Option<Registry> {
        Registry::from_weak(&self.registry)
    }
}

/// Registers a static, now or when there is a registry. Calls it under a lock, so the
/// caller holds none that it takes.
pub(super) fn first_use(metric: &'static dyn Late) {
    let mut program = Program::lock();
    match program.registry() {
        Some(registry) => metric.register_late(&registry),
        None => program.waiting.push(metric),
    }
}

/// Makes this the registry of the statics, unless there is one.
fn adopt(registry: &Registry) {
    let mut program = Program::lock();
    if program.registry().is_some() {
        return;
    }
    for metric in std::mem::take(&mut program.waiting) {
        metric.register_late(registry);
    }
    program.registry = registry.weak();
}

impl Registry {
    /// Makes a registry with the file `name` in this machine's MMV directory, with default
    /// options. The first one takes the program's [statics](crate::Static).
    ///
    /// # Errors
    ///
    /// The errors of [`RegistryBuilder::build`].
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        Self::builder(name).build()
    }
}

impl RegistryBuilder {
    /// Creates the file and publishes it, replacing one of this process, or of one that has
    /// ended. A [sealed](Self::sealed) one is published later.
    ///
    /// # Errors
    ///
    /// [`Error::Running`], [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster, or for more room than readers can use, [`Error::Version`] if a version other
    /// than 3 is pinned for a file that grows, and [`Error::Io`].
    pub fn build(self) -> Result<Registry, Error> {
        let takes_statics = !self.sealed;
        let registry = Registry::create(self)?;
        // Unit tests run side by side in one process: each would take the statics of others.
        if takes_statics && !cfg!(test) {
            adopt(&registry);
        }
        Ok(registry)
    }
}
