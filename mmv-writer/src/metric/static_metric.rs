//! Metrics in statics, which are registered when the program makes its registry.
//!
//! A handle in a static counts in private memory, under a lock, until it is registered; then what
//! it has counted is stored in the registered place, which replaces the private one for
//! good. The lock decides for each update whether it comes before that or after it, so
//! none is lost. Afterwards an update is that of any handle, after two loads that find the place.
//!
//! Statics are not collected by the linker or before `main` (as by `linkme` or
//! `inventory`): unused metrics of all linked libraries would fill the file.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pcp_types::{Semantics, Units};

use super::Buckets;
use crate::Error;
use crate::mapping::{Cell, CellStrip};
use crate::published::warn;

/// Limit of the format on names and help texts, in bytes.
const MAX_TEXT: usize = 255;

/// A metric that its first use registers. Clones count in the same place.
pub(crate) struct StaticMetric<P: StaticPlace> {
    pub(crate) description: StaticDescription,
    pub(crate) options: P::Options,
    /// Made at the first use, as a constant has no memory that clones could share.
    state: OnceLock<Arc<StaticState<P>>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticDescription {
    pub(crate) name: &'static str,
    pub(crate) help: Option<&'static str>,
    pub(crate) units: Option<Units>,
}

/// The storage of a handle: a cell, or the cells of a histogram.
pub(crate) trait StaticPlace: Sized + Send + Sync + 'static {
    /// The options that only metrics of this kind have.
    type Options: Copy + Send + Sync;

    /// Makes a place that no reader sees.
    fn private(description: &StaticDescription, options: Self::Options) -> Self;

    fn register(
        registry: &dyn StaticRegistry,
        description: &StaticDescription,
        options: Self::Options,
    ) -> Result<Self, Error>;

    /// Adds what a private place has counted to this new one.
    fn take_over(&self, private: &Self);
}

struct StaticState<P: StaticPlace> {
    description: StaticDescription,
    options: P::Options,
    registered: OnceLock<P>,
    before: Mutex<Before<P>>,
}

struct Before<P> {
    private: P,
    /// True if the program's registry, if there is one, knows the metric.
    is_known: bool,
}

impl<P: StaticPlace> StaticMetric<P> {
    pub(crate) const fn new(name: &'static str, options: P::Options) -> Self {
        let description = StaticDescription { name: checked_name(name), help: None, units: None };
        Self { description, options, state: OnceLock::new() }
    }

    /// Calls `work` with the place to count in. A call of its own, so that what counts through a
    /// registered handle has only the test in line.
    #[inline(never)]
    pub(super) fn with<R>(&self, work: impl FnOnce(&P) -> R) -> R {
        match self.state.get().and_then(|state| state.registered.get()) {
            Some(place) => work(place),
            None => self.with_late(work),
        }
    }

    /// Calls `work` with the private place, or with the registered one if there is one by now: the
    /// first use may register the metric.
    #[cold]
    #[inline(never)]
    fn with_late<R>(&self, work: impl FnOnce(&P) -> R) -> R {
        let state = self.state();
        let is_first = !std::mem::replace(&mut state.before().is_known, true);
        if is_first {
            register_first_use(Arc::clone(state) as Arc<dyn UnregisteredMetric>);
        }
        let before = state.before();
        match state.registered.get() {
            Some(place) => {
                drop(before);
                work(place)
            }
            None => work(&before.private),
        }
    }

    /// Registers the metric with what it has counted; does nothing if it is registered.
    pub(crate) fn register(&self, registry: &dyn StaticRegistry) -> Result<(), Error> {
        self.state().register(registry)
    }

    fn state(&self) -> &Arc<StaticState<P>> {
        self.state.get_or_init(|| Arc::new(StaticState::new(self.description, self.options)))
    }
}

impl<P: StaticPlace> StaticState<P> {
    fn new(description: StaticDescription, options: P::Options) -> Self {
        let private = P::private(&description, options);
        let before = Mutex::new(Before { private, is_known: false });
        Self { description, options, registered: OnceLock::new(), before }
    }

    fn before(&self) -> MutexGuard<'_, Before<P>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: StaticPlace> Clone for StaticMetric<P> {
    fn clone(&self) -> Self {
        let state = OnceLock::from(Arc::clone(self.state()));
        Self { description: self.description, options: self.options, state }
    }
}

impl<P: StaticPlace> fmt::Debug for StaticMetric<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticMetric").field("name", &self.description.name).finish_non_exhaustive()
    }
}

/// Checks a name when it is compiled: as `pcp_types::names::is_metric_name`.
const fn checked_name(name: &'static str) -> &'static str {
    let bytes = name.as_bytes();
    assert!(!bytes.is_empty() && bytes.len() <= MAX_TEXT, "a metric name has 1 to 255 bytes");
    assert!(bytes[0].is_ascii_alphabetic(), "a metric name begins with a letter");
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'.' {
            let is_inside = at + 1 < bytes.len();
            assert!(
                is_inside && bytes[at + 1] != b'.',
                "a metric name has single dots inside of it"
            );
        } else {
            let is_legal = byte.is_ascii_alphanumeric() || byte == b'_';
            assert!(is_legal, "a metric name has letters, digits, `_` and dots");
        }
        at += 1;
    }
    name
}

/// Checks a help text when it is compiled.
pub(super) const fn checked_help(text: &'static str) -> &'static str {
    assert!(text.len() <= MAX_TEXT, "a help text has at most 255 bytes");
    text
}

pub(crate) trait StaticRegistry {
    fn add_value(&self, description: &StaticDescription, kind: StaticKind) -> Result<Cell, Error>;

    fn add_histogram(
        &self,
        description: &StaticDescription,
        buckets: Buckets,
    ) -> Result<RegisteredHistogram, Error>;
}

/// The properties of a kind of handle that its registration needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticKind {
    pub(crate) type_code: i32,
    pub(crate) semantics: Semantics,
    /// The units, unless the program chose others.
    pub(crate) units: Units,
}

pub(crate) struct RegisteredHistogram {
    pub(crate) buckets: Buckets,
    pub(crate) counts: CellStrip,
    pub(crate) sum: Cell,
}

/// A reference that keeps neither a registry's files nor its memory.
pub(crate) trait WeakRegistry: Send {
    /// Returns the registry, unless it is gone or its files were withdrawn.
    fn upgrade(&self) -> Option<Box<dyn StaticRegistry>>;
}

/// A metric that was used before it was registered.
trait UnregisteredMetric: Send + Sync {
    fn name(&self) -> &'static str;

    fn register(&self, registry: &dyn StaticRegistry) -> Result<(), Error>;
}

impl<P: StaticPlace> UnregisteredMetric for StaticState<P> {
    fn name(&self) -> &'static str {
        self.description.name
    }

    fn register(&self, registry: &dyn StaticRegistry) -> Result<(), Error> {
        let mut before = self.before();
        if self.registered.get().is_none() {
            let place = P::register(registry, &self.description, self.options)?;
            place.take_over(&before.private);
            before.is_known = true;
            // The lock is held, so no other thread has set it.
            let _ = self.registered.set(place);
        }
        Ok(())
    }
}

/// The program's registry, in which statics are registered when they are first used.
struct ProgramRegistry {
    registry: Option<Box<dyn WeakRegistry>>,
    /// Metrics that were used while there was no registry.
    waiting: Vec<Arc<dyn UnregisteredMetric>>,
}

static PROGRAM: Mutex<ProgramRegistry> =
    Mutex::new(ProgramRegistry { registry: None, waiting: Vec::new() });

impl ProgramRegistry {
    fn lock() -> MutexGuard<'static, Self> {
        PROGRAM.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry(&self) -> Option<Box<dyn StaticRegistry>> {
        self.registry.as_ref()?.upgrade()
    }
}

/// Registers a metric, now or when there is a registry. Registration takes locks, of which the
/// caller holds none.
fn register_first_use(metric: Arc<dyn UnregisteredMetric>) {
    let mut program = ProgramRegistry::lock();
    match program.registry() {
        Some(registry) => register_or_warn(&*metric, &*registry),
        None => program.waiting.push(metric),
    }
}

/// Makes this the registry of the program's statics, unless there is one.
pub(crate) fn adopt_statics(registry: &dyn StaticRegistry, weak: Box<dyn WeakRegistry>) {
    let mut program = ProgramRegistry::lock();
    if program.registry().is_some() {
        return;
    }
    for metric in std::mem::take(&mut program.waiting) {
        register_or_warn(&*metric, registry);
    }
    program.registry = Some(weak);
}

fn register_or_warn(metric: &dyn UnregisteredMetric, registry: &dyn StaticRegistry) {
    if let Err(error) = metric.register(registry) {
        warn(&format!("static metric {}: {error}\n", metric.name()));
    }
}
