//! The simulator for Python: a model as JSON in, results as JSON out.

use isolane_sim::{parse, run, to_json};
use pyo3::{create_exception, exceptions::PyKeyboardInterrupt, prelude::*};

use crate::NativeError;

create_exception!(
    _native,
    SimulationError,
    NativeError,
    "The model cannot be simulated; the message names the place."
);

/// Simulates a model (JSON); the results (JSON). Ctrl-C ends it early: the results then say
/// "interrupted": true, and no exception is raised. What any other signal's handler raises is raised.
#[pyfunction]
pub fn simulate(py: Python<'_>, model_json: &str) -> PyResult<String> {
    let mut signal = None;
    let results = py.detach(|| {
        let mut stop = || {
            signal = Python::attach(check_signals).err();
            signal.is_some()
        };
        parse(model_json).and_then(|model| run(&model, &mut stop)).map(|results| to_json(&results))
    });
    match signal {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        _ => results.map_err(|error| SimulationError::new_err(error.to_string())),
    }
}

/// For any attachment, as `Python::attach` wants it.
fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}
