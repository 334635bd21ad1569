//! Gauges as Python sees them.

use mmv_writer::Gauge;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::labelled::{Arguments, Labelled};
use crate::registry::PyRegistry;
use crate::unit::Unit;

/// A value that goes up and down.
#[pyclass(frozen, name = "Gauge", module = "mmv")]
#[derive(Debug)]
pub(crate) struct PyGauge {
    labelled: Labelled<Gauge>,
}

impl From<Labelled<Gauge>> for PyGauge {
    fn from(labelled: Labelled<Gauge>) -> Self {
        Self { labelled }
    }
}

impl PyGauge {
    #[inline]
    fn update(&self, py: Python<'_>, update: impl FnOnce(&Gauge)) -> PyResult<()> {
        let Some(gauge) = self.labelled.handle() else { return self.labelled.needs_labels(py) };
        update(gauge);
        Ok(())
    }
}

#[pymethods]
impl PyGauge {
    #[new]
    #[pyo3(signature = (name, help, labels=vec![], *, unit=None, registry=None))]
    fn new(
        py: Python<'_>,
        name: &str,
        help: &str,
        labels: Vec<String>,
        unit: Option<&str>,
        registry: Option<&Bound<'_, PyRegistry>>,
    ) -> PyResult<Self> {
        let unit = Unit::of_gauge(unit)?;
        let arguments = Arguments { name, help, labels, unit, registry, reserved: None };
        Labelled::declare(py, arguments).map(Self::from)
    }

    /// Return the gauge for these values of the labels.
    #[pyo3(signature = (*values, **keywords))]
    fn labels<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.labelled.labels::<Self>(py, values, keywords)
    }

    /// Remove the series of these values of the labels.
    #[pyo3(signature = (*values))]
    fn remove(&self, py: Python<'_>, values: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.labelled.remove(py, values)
    }

    /// Set the value.
    fn set(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.update(py, |gauge| gauge.set(value))
    }

    /// Add an amount, 1 by default.
    #[pyo3(signature = (amount=1.0))]
    fn inc(&self, py: Python<'_>, amount: f64) -> PyResult<()> {
        self.update(py, |gauge| gauge.add(amount))
    }

    /// Subtract an amount, 1 by default.
    #[pyo3(signature = (amount=1.0))]
    fn dec(&self, py: Python<'_>, amount: f64) -> PyResult<()> {
        self.update(py, |gauge| gauge.sub(amount))
    }

    /// The value in this process.
    #[getter]
    fn value(&self) -> f64 {
        self.labelled.handle().map_or(0.0, Gauge::value)
    }

    fn __repr__(&self) -> String {
        format!("Gauge({:?})", self.labelled.name())
    }
}
