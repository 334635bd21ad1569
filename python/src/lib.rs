//! Metrics of Python programs: a thin layer on `mmv_writer`.
//!
//! Read the modules in this order: `generation` (values that each process makes for itself) ->
//! `files` (a registry in all processes) -> `unit`, `metric` (a metric in the file of each process)
//! -> `registry`, `labelled` (registry, metrics and their labels as Python sees them) -> `counter`,
//! `gauge`, `histogram`, `timing`.
//!
//! Nothing here releases the GIL or depends on it. Whatever waits for a lock or a file is done while
//! the thread is attached to the interpreter, so that no thread is in the middle of it when another
//! one forks: with the GIL it is alone, and without it a fork waits until all others pause.

mod counter;
mod files;
mod gauge;
mod generation;
mod histogram;
mod labelled;
mod metric;
mod registry;
mod timing;
mod unit;

use pyo3::prelude::*;

/// Begin the life of a forked child, in which each metric counts in a file of its own.
#[pyfunction]
fn after_fork() {
    generation::begin();
}

/// Remove the files of this process.
#[pyfunction]
fn withdraw() {
    files::withdraw_all();
}

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::counter::PyCounter;
    #[pymodule_export]
    use super::gauge::PyGauge;
    #[pymodule_export]
    use super::histogram::PyHistogram;
    #[pymodule_export]
    use super::registry::{PyRegistry, default_registry};
    #[pymodule_export]
    use super::{after_fork, withdraw};
}
