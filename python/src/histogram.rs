//! Histograms as Python sees them.

use mmv_writer::Histogram;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::labelled::{Arguments, Labelled};
use crate::registry::PyRegistry;
use crate::timing::Timing;
use crate::unit::Unit;

/// Label of the buckets.
const BUCKET: &str = "bucket";

/// A distribution of values, by default of seconds.
#[pyclass(frozen, name = "Histogram", module = "mmv")]
#[derive(Debug)]
pub(crate) struct PyHistogram {
    labelled: Labelled<Histogram>,
}

impl From<Labelled<Histogram>> for PyHistogram {
    fn from(labelled: Labelled<Histogram>) -> Self {
        Self { labelled }
    }
}

impl PyHistogram {
    /// Records a value in the unit that the program states.
    #[inline]
    pub(crate) fn record(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        let Some(histogram) = self.labelled.handle() else { return self.labelled.needs_labels(py) };
        match self.labelled.unit().value(value) {
            Some(value) => histogram.record(value),
            None => self.labelled.not_counted(py, &value.to_string())?,
        }
        Ok(())
    }

    /// Records a time.
    #[inline]
    pub(crate) fn record_time(&self, py: Python<'_>, nanoseconds: u64) -> PyResult<()> {
        let Some(histogram) = self.labelled.handle() else { return self.labelled.needs_labels(py) };
        if !self.labelled.unit().is_time() {
            return self.labelled.not_counted(py, "a time");
        }
        histogram.record(nanoseconds);
        Ok(())
    }
}

#[pymethods]
impl PyHistogram {
    #[new]
    #[pyo3(signature = (name, help, labels=vec![], *, unit="seconds", registry=None))]
    fn new(
        py: Python<'_>,
        name: &str,
        help: &str,
        labels: Vec<String>,
        unit: &str,
        registry: Option<&Bound<'_, PyRegistry>>,
    ) -> PyResult<Self> {
        let unit = Unit::whole(unit)?;
        let arguments = Arguments { name, help, labels, unit, registry, reserved: Some(BUCKET) };
        Labelled::declare(py, arguments).map(Self::from)
    }

    /// Return the histogram for these values of the labels.
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

    /// Record a value.
    fn observe(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.record(py, value)
    }

    /// Return what records the time of a `with` block, or of each call of a function.
    fn time(slf: Bound<'_, Self>) -> Timing {
        Timing::new(slf.unbind())
    }

    /// The number of values that this process recorded.
    #[getter]
    fn count(&self) -> u64 {
        self.labelled.handle().map_or(0, Histogram::count)
    }

    /// The sum of the values that this process recorded.
    #[getter]
    fn sum(&self) -> f64 {
        let sum = self.labelled.handle().map_or(0, Histogram::sum);
        self.labelled.unit().in_program(sum)
    }

    fn __repr__(&self) -> String {
        format!("Histogram({:?})", self.labelled.name())
    }
}
