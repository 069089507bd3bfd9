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
    """Generator, CPU accountant and CPU profiler; each is loaded when it is first asked for."""

    def __init__(self) -> None:
        self._profiler: _native.Profiler | None = None
        self._profiled: tuple[tuple[int, ...], int] = ((), 0)
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

    def profiler(self, cores: tuple[int, ...], rate_hz: int) -> _native.Profiler:
        """Return a profiler of these cores."""
        if self._profiler is None or self._profiled != (cores, rate_hz):
            if self._profiler is not None:
                self._profiler.close()
            self._profiler = _native.Profiler(cores=list(cores), rate_hz=rate_hz)
            self._profiled = (cores, rate_hz)
        return self._profiler

    def close(self) -> None:
        """Unload all; they are loaded again when asked for."""
        self._generator = None
        if self._profiler is not None:
            self._profiler.close()
            self._profiler = None
        if self._accountant is not None:
            self._accountant.close()
            self._accountant = None
