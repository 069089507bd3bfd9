"""Trials as a table for other tools: one row per trial and router."""

from __future__ import annotations

import io
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from isolane.files import replace
from isolane.results.cpu_results import CPU_PARTS, GUEST_CPU
from isolane.results.parts import PART_WORDS, WHOLE
from isolane.results.results import (
    DROP_POINTS,
    Delay,
    GeneratorAudit,
    Lateness,
    Placement,
    RouterTrial,
    Trial,
)
from isolane.results.series import TrialSeries
from isolane.results.steady_models import Gaps, WindowShift

PARTS = (*PART_WORDS, WHOLE)
PART_TIMES = ("mean", "p50", "p99")
_TYPES = {"str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
_NESTED = {
    *("lost", "delay", "due_delay", "lateness", "routers", "cores", "generator", "placement"),
    *("invalid", "cpu_parts", "cpu_guest", "cpu_audit", "probe", "window_shift", "gaps", "parts"),
    "web",
}


def _columns(model: Any, prefix: str = "", nested: Container[str] = ()) -> dict[str, Any]:
    """Return name and type of each plain field, so that a column of nulls has a type, too."""
    found = {}
    for name, field in model.model_fields.items():
        if name not in nested:
            words = str(field.annotation).replace("<class '", "").replace("'>", "").split(" | ")
            found[prefix + name] = _TYPES.get(words[0], pl.String)
    return found


SCHEMA: dict[str, Any] = {
    **_columns(Trial, nested=_NESTED),
    "invalid": pl.String,
    **_columns(RouterTrial, nested=_NESTED),
    **{f"lost_{where}": pl.Int64 for where in DROP_POINTS},
    **{f"cpu_{part}_part_ns": pl.Int64 for part in CPU_PARTS},
    **{f"cpu_guest_{part}_ns": pl.Int64 for part in GUEST_CPU},
    **{f"part_{name}_{what}_ns": pl.Float64 for name in PARTS for what in PART_TIMES},
    **_columns(Delay, "delay_"),
    **_columns(Delay, "due_delay_"),
    **_columns(Lateness, "lateness_"),
    **_columns(WindowShift, "window_shift_"),
    **_columns(Gaps, "gap_"),
    **_columns(GeneratorAudit, "generator_"),
    **_columns(Placement, "placement_"),
}


def _rows(trial: Trial) -> list[dict[str, object]]:
    common: dict[str, object] = trial.model_dump(exclude=_NESTED)
    common["invalid"] = None if trial.invalid is None else ", ".join(trial.invalid)
    for prefix, part in (("generator_", trial.generator), ("placement_", trial.placement)):
        if part is not None:
            common |= {prefix + name: value for name, value in part.model_dump().items()}
    rows = []
    for router in trial.routers:
        row = common | router.model_dump(exclude=_NESTED)
        row |= {f"lost_{where}": count for where, count in router.lost.items()}
        row |= {f"cpu_{part}_part_ns": ns for part, ns in (router.cpu_parts or {}).items()}
        row |= {f"cpu_guest_{part}_ns": ns for part, ns in (router.cpu_guest or {}).items()}
        row |= {
            f"part_{part.part}_{what}_ns": getattr(part, f"{what}_ns")
            for part in router.parts or ()
            for what in PART_TIMES
        }
        parts = {
            "delay": router.delay,
            "due_delay": router.due_delay,
            "lateness": router.lateness,
            "window_shift": router.window_shift,
            "gap": router.gaps,
        }
        for prefix, figures in parts.items():
            if figures is not None:
                row |= {f"{prefix}_{name}": value for name, value in figures.model_dump().items()}
        rows.append(row)
    return rows or [common]  # a trial that failed early has no routers; it is not to vanish


def write_trials(trials: Sequence[Trial], target: Path) -> None:
    """Write a Parquet file with the columns of `SCHEMA`; what a trial lacks is null.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    rows = [row for trial in trials for row in _rows(trial)]
    content = io.BytesIO()  # polars tells of a full disk as of a fault in the format
    pl.DataFrame(rows, schema=SCHEMA).write_parquet(content)
    replace(target, content.getvalue())


SERIES: dict[str, Any] = {
    "trial": pl.Int64,
    "router": pl.String,
    "bin": pl.Int64,
    "begin_s": pl.Float64,
    "in_window": pl.Boolean,
    "sent": pl.Int64,
    "received": pl.Int64,
    "delay_p99_ns": pl.Float64,
}


def write_series(series: Sequence[TrialSeries], target: Path) -> None:
    """Write a Parquet file with the columns of `SERIES`: one row per trial, router and bin.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    frames = [pl.DataFrame(schema=SERIES)]
    for trial in series:
        window = trial.window()
        for router in trial.routers:
            bins = range(len(router.received))
            frames.append(
                pl.DataFrame(
                    {
                        "trial": [trial.trial] * len(bins),
                        "router": [router.router] * len(bins),
                        "bin": list(bins),
                        "begin_s": [bin_ * trial.bin_ns / 1e9 for bin_ in bins],
                        "in_window": [bin_ in window for bin_ in bins],
                        "sent": router.sent,
                        "received": router.received,
                        "delay_p99_ns": router.delay_p99_ns,
                    },
                    schema=SERIES,
                )
            )
    content = io.BytesIO()
    pl.concat(frames).write_parquet(content)
    replace(target, content.getvalue())
