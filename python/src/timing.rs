//! Times of blocks and functions.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pyo3::prelude::*;

use crate::histogram::PyHistogram;

/// The time from which times of starts count.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Records the time of a `with` block, or of each call of the function that it decorates.
#[pyclass(frozen, name = "Timing", module = "mmv")]
pub(crate) struct Timing {
    histogram: Py<PyHistogram>,
    /// Start of the block in nanoseconds.
    started: AtomicU64,
}

impl Timing {
    pub(crate) fn new(histogram: Py<PyHistogram>) -> Self {
        Self { histogram, started: AtomicU64::new(now()) }
    }
}

#[pymethods]
impl Timing {
    fn __enter__(&self) {
        self.started.store(now(), Ordering::Relaxed);
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _exception_type: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let nanoseconds = now().saturating_sub(self.started.load(Ordering::Relaxed));
        self.histogram.get().record_time(py, nanoseconds)
    }

    /// Decorate a function, which may be a coroutine.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        function: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        py.import("mmv._timed")?.call_method1("timed", (&self.histogram, function))
    }
}

fn now() -> u64 {
    ORIGIN.elapsed().as_nanos() as u64
}
