//! The program's registry, in which statics are registered when they are first used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, LiveRegistry};

/// A static metric that was used before it was registered.
pub(super) trait Late: Sync {
    /// Registers it, or says why not.
    fn register_late(&'static self, registry: &LiveRegistry);
}

struct Program {
    registry: Option<Arc<LiveRegistry>>,
    /// Statics that were used while there was no registry.
    waiting: Vec<&'static dyn Late>,
}

static PROGRAM: Mutex<Program> = Mutex::new(Program { registry: None, waiting: Vec::new() });

fn program() -> MutexGuard<'static, Program> {
    PROGRAM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a static, now or when there is a registry. Calls it under a lock, so the
/// caller holds none that it takes.
pub(super) fn first_use(metric: &'static dyn Late) {
    let mut program = program();
    match &program.registry {
        Some(registry) => metric.register_late(registry),
        None => program.waiting.push(metric),
    }
}

/// The program's registry. Dropping it withdraws the file, unless the program has cloned
/// the registry; handles and statics stay valid after that, but no reader sees them.
#[derive(Debug)]
#[must_use = "dropping this withdraws the file"]
pub struct Installed {
    registry: Arc<LiveRegistry>,
}

impl Installed {
    /// The registry, for other metrics. What clones it keeps the file.
    pub fn registry(&self) -> &Arc<LiveRegistry> {
        &self.registry
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let registry = program().registry.take();
        drop(registry);
    }
}

impl LiveRegistry {
    /// Makes this the registry of the program's [statics](crate::Static): registers those
    /// that were used, with what they have counted, and each other one at its first use.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyInstalled`] if the program has one.
    pub fn install(self) -> Result<Installed, Error> {
        let mut program = program();
        if let Some(registry) = &program.registry {
            let path = registry.published().path().to_owned();
            return Err(Error::AlreadyInstalled { path });
        }
        let registry = Arc::new(self);
        program.registry = Some(Arc::clone(&registry));
        for metric in std::mem::take(&mut program.waiting) {
            metric.register_late(&registry);
        }
        Ok(Installed { registry })
    }
}
