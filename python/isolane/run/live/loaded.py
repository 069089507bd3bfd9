"""Programs that stay loaded from one trial, and from one test bed, to the next.

The kernel's verifier takes some 50 ms for the generator and 80 ms for the CPU accountant: half as
long as a short trial.
"""

from __future__ import annotations

from typing import TypedDict

from isolane import _native


class GeneratorTrial(TypedDict):
    """What the generator is to do in one trial: see :class:`isolane._native.Generator`."""

    netns: str
    core: int
    cookie: int
    streams: list[_native.Stream]
    window_start_ns: int
    window_end_ns: int
    end_ns: int
    peak_rate_millipps: int
    bin_ns: int


class Loaded:
    """The generator and the CPU accountant; loads each when it is first asked for."""

    def __init__(self) -> None:
        self._generator: _native.Generator | None = None
        self._accountant: _native.CpuAccountant | None = None

    def accountant(self) -> _native.CpuAccountant:
        """Return the accountant; whose interfaces and threads it knows is told to it anew."""
        if self._accountant is None:
            self._accountant = _native.CpuAccountant()
        return self._accountant

    def generator(self, trial: GeneratorTrial) -> _native.Generator:
        """Return the generator, ready for a trial; the one before must have been read by then."""
        if self._generator is None or not self._generator.reuse(**trial):
            self._generator = None  # first: two of them need twice the memory
            self._generator = _native.Generator(**trial)
        return self._generator

    def close(self) -> None:
        """Unload both; they are loaded again when asked for."""
        self._generator = None
        if self._accountant is not None:
            self._accountant.close()
            self._accountant = None
