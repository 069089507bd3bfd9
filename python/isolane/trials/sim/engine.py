"""Runs the simulator on a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from isolane import _native
from isolane.errors import MeasurementError


def simulate_model(model: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Simulate a model (see ``docs/simulator``); return the simulator's results.

    Parameters
    ----------
    what
        Name of the simulated thing, for messages.

    Raises
    ------
    KeyboardInterrupt
        If the user has interrupted it.
    MeasurementError
        If the simulator refuses the model, which is a mistake of Isolane's.
    """
    try:
        found: dict[str, Any] = json.loads(_native.simulate(json.dumps(model)))
    except _native.NativeError as error:
        raise MeasurementError(f"the simulator refuses {what}: {error}") from error
    if found["interrupted"]:
        raise KeyboardInterrupt
    return found
