//! What a counter, a gauge and a histogram of the program have in common: a metric with the values
//! of its labels, and the metrics with values that were derived from it.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::generation::PerProcess;
use crate::metric::{Declaration, Kind, Metric, PROCESS};
use crate::registry::{self, PyRegistry};
use crate::unit::Unit;

/// A metric with the values of its labels. One that has labels has no values at first, and counts
/// nothing.
pub(crate) struct Labelled<H: Kind> {
    metric: Arc<Metric<H>>,
    /// `None` if the metric has labels and these are not given.
    values: Option<Vec<String>>,
    handle: PerProcess<H>,
    /// The objects with values, by these, so that each exists once.
    children: Py<PyDict>,
}

/// What a program states of a metric.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
    pub(crate) labels: Vec<String>,
    pub(crate) unit: Unit,
    pub(crate) registry: Option<&'a Bound<'py, PyRegistry>>,
    /// A name that no label may have.
    pub(crate) reserved: Option<&'static str>,
}

impl<H: Kind> Labelled<H> {
    /// Registers a metric.
    pub(crate) fn declare(py: Python<'_>, arguments: Arguments<'_, '_>) -> PyResult<Self> {
        let Arguments { name, help, labels, unit, registry, reserved } = arguments;
        let files = match registry {
            Some(registry) => Arc::clone(registry.get().files()),
            None => registry::default_files(py)?,
        };
        let own = files.is_per_process().then_some(PROCESS);
        check_labels(&labels, [reserved, own])?;
        let name = if files.is_per_process() {
            format!("{}.{name}", files.name())
        } else {
            name.to_owned()
        };
        let values = labels.is_empty().then(Vec::new);
        let declaration = Declaration { name, help: help.to_owned(), unit, labels };
        let metric = Metric::declare(&files, declaration)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let labelled = Self::new(py, metric, values);
        // Counted from 0, from now on.
        labelled.handle();
        Ok(labelled)
    }

    fn new(py: Python<'_>, metric: Arc<Metric<H>>, values: Option<Vec<String>>) -> Self {
        Self { metric, values, handle: PerProcess::new(), children: PyDict::new(py).unbind() }
    }

    /// Returns the handle of this process; `None` for a metric whose labels are not given.
    #[inline]
    pub(crate) fn handle(&self) -> Option<&H> {
        if let Some(handle) = self.handle.get() {
            return Some(handle);
        }
        let values = self.values.as_ref()?;
        Some(self.handle.get_or_init(|_| self.metric.handle(values)))
    }

    pub(crate) fn unit(&self) -> Unit {
        self.metric.declaration.unit
    }

    pub(crate) fn name(&self) -> &str {
        &self.metric.declaration.name
    }

    /// Returns the object for these values of the labels.
    pub(crate) fn labels<'py, C>(
        &self,
        py: Python<'py>,
        positional: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        C: From<Self> + pyo3::PyClass + Into<pyo3::PyClassInitializer<C>>,
    {
        let children = self.children.bind(py);
        let key = self.key(py, positional, keywords)?;
        if let Some(child) = children.get_item(&key)? {
            return Ok(child);
        }
        let values = texts(&key)?;
        let child = Self::new(py, Arc::clone(&self.metric), Some(values.clone()));
        child.handle();
        let child = Bound::new(py, C::from(child))?.into_any();
        if self.metric.has_series(&values) {
            // Another thread may have come first.
            children.call_method1("setdefault", (key, child))
        } else {
            // Not kept: there may be any number of them.
            Ok(child)
        }
    }

    /// Removes the series of these values of the labels.
    pub(crate) fn remove(&self, py: Python<'_>, positional: &Bound<'_, PyTuple>) -> PyResult<()> {
        let key = self.key(py, positional, None)?;
        self.children.bind(py).call_method1("pop", (&key, py.None()))?;
        self.metric.remove(&texts(&key)?);
        Ok(())
    }

    /// Returns the texts of the values of the labels in the order of their declaration. Equal texts are
    /// equal values; equal numbers, as 1 and True, are not.
    fn key<'py>(
        &self,
        py: Python<'py>,
        positional: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let names = &self.metric.declaration.labels;
        let given = positional.len() + keywords.map_or(0, PyDictMethods::len);
        if self.values.is_some() || given != names.len() {
            return Err(self.other_labels());
        }
        if keywords.is_none() && positional.iter().all(|value| is_text(&value)) {
            return Ok(positional.clone());
        }
        let mut key = Vec::with_capacity(names.len());
        for value in positional {
            key.push(text(value)?);
        }
        for name in names.iter().skip(positional.len()) {
            let value = keywords.map_or(Ok(None), |keywords| keywords.get_item(name))?;
            key.push(text(value.ok_or_else(|| self.other_labels())?)?);
        }
        PyTuple::new(py, key)
    }

    fn other_labels(&self) -> PyErr {
        let name = self.name();
        PyValueError::new_err(match &self.values {
            None => {
                format!("metric {name} has the labels {:?}", self.metric.declaration.labels)
            }
            Some(values) if values.is_empty() => format!("metric {name} has no labels"),
            Some(values) => format!("the labels of metric {name} are already {values:?}"),
        })
    }

    /// Warns that something is not counted, as a mistake in one request must not fail it.
    #[cold]
    pub(crate) fn not_counted(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        let message = format!("metric {}: {what} is not counted", self.name());
        let message = std::ffi::CString::new(message).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)
    }

    /// Warns that a metric with labels was used without them.
    #[cold]
    pub(crate) fn needs_labels(&self, py: Python<'_>) -> PyResult<()> {
        self.not_counted(py, "what has no values of its labels")
    }
}

fn is_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
}

/// Returns the text of a value of a label.
fn text(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if is_text(&value) { Ok(value) } else { Ok(value.str()?.into_any()) }
}

fn texts(key: &Bound<'_, PyTuple>) -> PyResult<Vec<String>> {
    let mut texts = Vec::with_capacity(key.len());
    for text in key {
        texts.push(text.cast::<PyString>()?.to_string_lossy().into_owned());
    }
    Ok(texts)
}

fn check_labels(labels: &[String], taken: [Option<&str>; 2]) -> PyResult<()> {
    for (index, label) in labels.iter().enumerate() {
        let mut bytes = label.bytes();
        let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if !starts || !bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(PyValueError::new_err(format!(
                "\"{label}\" is not the name of a label, which has letters, digits and '_', and \
                 begins with a letter"
            )));
        }
        let is_repeated = labels.iter().take(index).any(|other| other == label);
        if is_repeated || taken.contains(&Some(label)) {
            return Err(PyValueError::new_err(format!("the label \"{label}\" is already there")));
        }
    }
    Ok(())
}

impl<H: Kind> std::fmt::Debug for Labelled<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Labelled").field("name", &self.name()).finish_non_exhaustive()
    }
}
