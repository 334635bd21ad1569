//! The registry as Python sees it, and the one that metrics have which state none.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::files::{Files, FilesOptions};

/// The registry of metrics that state none.
static DEFAULT: Mutex<Option<Arc<Files>>> = Mutex::new(None);

/// A file of metrics, or one for each process.
#[pyclass(frozen, name = "Registry", module = "mmv")]
pub(crate) struct PyRegistry {
    files: Arc<Files>,
}

impl PyRegistry {
    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }
}

#[pymethods]
impl PyRegistry {
    #[new]
    #[pyo3(signature = (name, *, per_process=false, cluster=None, directory=None))]
    fn new(
        name: String,
        per_process: bool,
        cluster: Option<u32>,
        directory: Option<PathBuf>,
    ) -> PyResult<Self> {
        let files = publish(FilesOptions { name, per_process, cluster, directory })?;
        Ok(Self { files })
    }

    /// The path of this process's file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.files.registry().path().to_owned()
    }

    /// Whether readers see the file.
    #[getter]
    fn is_published(&self) -> bool {
        self.files.registry().is_published()
    }

    /// Remove this process's file; its metrics count on, without readers.
    fn withdraw(&self) {
        self.files.withdraw();
    }

    fn __repr__(&self) -> String {
        let per_process = if self.files.is_per_process() { ", per_process=True" } else { "" };
        format!("Registry({:?}{per_process})", self.files.name())
    }
}

/// Return the registry of the metrics that state none. It has the name of the program.
#[pyfunction]
pub(crate) fn default_registry(py: Python<'_>) -> PyResult<PyRegistry> {
    Ok(PyRegistry { files: default_files(py)? })
}

/// Returns the registry that metrics have which state none; the first call publishes its file.
pub(crate) fn default_files(py: Python<'_>) -> PyResult<Arc<Files>> {
    let name = program_name(py)?;
    let mut default = DEFAULT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(files) = &*default {
        return Ok(Arc::clone(files));
    }
    let options = FilesOptions { name, per_process: false, cluster: None, directory: None };
    let files = publish(options)?;
    Ok(Arc::clone(default.insert(files)))
}

fn publish(options: FilesOptions) -> PyResult<Arc<Files>> {
    Files::publish(options).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the name of the program as the first part of metric names: `shop` for `shop.py`, and for
/// `python -m shop`.
fn program_name(py: Python<'_>) -> PyResult<String> {
    let arguments: Vec<PathBuf> = py.import("sys")?.getattr("argv")?.extract()?;
    let program = arguments.first().cloned().unwrap_or_default();
    let mut stem = program.file_stem();
    if stem.is_some_and(|stem| stem == "__main__") {
        stem = program.parent().and_then(|directory| directory.file_name());
    }
    let Some(stem) = stem.filter(|stem| *stem != "-c") else {
        // A command or an interactive session.
        return Ok("python".to_owned());
    };
    let legal = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = stem.to_string_lossy().chars().map(legal).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        Ok(name)
    } else {
        Ok(format!("python{name}"))
    }
}
