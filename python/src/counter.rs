//! Counters as Python sees them.

use mmv_writer::Counter;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::labelled::{Arguments, Labelled};
use crate::registry::PyRegistry;
use crate::unit::Unit;

/// A count that only grows.
#[pyclass(frozen, name = "Counter", module = "mmv")]
#[derive(Debug)]
pub(crate) struct PyCounter {
    labelled: Labelled<Counter>,
}

impl From<Labelled<Counter>> for PyCounter {
    fn from(labelled: Labelled<Counter>) -> Self {
        Self { labelled }
    }
}

#[pymethods]
impl PyCounter {
    #[new]
    #[pyo3(signature = (name, help, labels=vec![], *, unit="count", registry=None))]
    fn new(
        py: Python<'_>,
        name: &str,
        help: &str,
        labels: Vec<String>,
        unit: &str,
        registry: Option<&Bound<'_, PyRegistry>>,
    ) -> PyResult<Self> {
        let unit = Unit::whole(unit)?;
        let arguments = Arguments { name, help, labels, unit, registry, reserved: None };
        Labelled::declare(py, arguments).map(Self::from)
    }

    /// Return the counter for these values of the labels.
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

    /// Add an amount, 1 by default.
    #[pyo3(signature = (amount=None), text_signature = "($self, amount=1)")]
    fn inc(&self, py: Python<'_>, amount: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(counter) = self.labelled.handle() else { return self.labelled.needs_labels(py) };
        let unit = self.labelled.unit();
        let Some(amount) = amount else {
            counter.add(unit.one());
            return Ok(());
        };
        if unit.one() == 1
            && let Ok(amount) = amount.extract::<u64>()
        {
            counter.add(amount);
            return Ok(());
        }
        let number = amount.extract::<f64>()?;
        match unit.amount(number) {
            Some(amount) => counter.add(amount),
            None => self.labelled.not_counted(py, &number.to_string())?,
        }
        Ok(())
    }

    /// The count of this process: a whole number, of times the seconds or whatever is its unit.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = self.labelled.handle().map_or(0, Counter::value);
        let unit = self.labelled.unit();
        if unit.one() == 1 {
            Ok(value.into_pyobject(py)?.into_any())
        } else {
            Ok(unit.in_program(value).into_pyobject(py)?.into_any())
        }
    }

    fn __repr__(&self) -> String {
        format!("Counter({:?})", self.labelled.name())
    }
}
