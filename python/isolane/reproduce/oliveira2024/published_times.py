"""The paper's figures and verdicts, as its text gives them (the CSV files beside this one)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, Literal, cast

from isolane.reproduce.oliveira2024.load_cells import LoadType, Server

Metric = Literal["rtt_median", "rtt_max", "response_time"]

CPU_PCT: Final = 46.4
"""CPU use of the sender server with network load on it and 128 background VMs, percent: section
4.3 gives 45.94 to 46.9 over bridge, macvtap and passthrough; this is the middle."""


@dataclass(frozen=True)
class PublishedTime:
    """A round-trip time or a part of it; None stands for all, or where nothing is said."""

    driver: str
    load: LoadType | None
    location: Server | None
    vms: int | None
    echo_kpps: int | None
    metric: Metric
    value_ms: float
    note: str


@dataclass(frozen=True)
class Verdict:
    """A row of the paper's table 3."""

    location: Server
    metric: Literal["cpu", "rtt"]
    a: str
    b: str
    p: float
    differs: bool
    """Whether the distributions differ, at the 95 % level."""


@cache
def times() -> tuple[PublishedTime, ...]:
    """Return the published times, in the file's order."""
    return tuple(
        PublishedTime(
            row["driver"],
            cast("LoadType | None", row["load_type"] or None),
            cast("Server | None", row["load_location"] or None),
            int(row["background_vms"]) if row["background_vms"] else None,
            int(row["echo_rate_kpps"]) if row["echo_rate_kpps"] else None,
            cast("Metric", row["metric"]),
            float(row["value_ms"]),
            row["note"],
        )
        for row in _rows("rtt")
    )


@cache
def verdicts() -> tuple[Verdict, ...]:
    """Return the verdicts of table 3, in its order."""
    return tuple(
        Verdict(
            cast("Server", row["location"]),
            cast("Literal['cpu', 'rtt']", row["metric"]),
            row["a"],
            row["b"],
            float(row["p_value"]),
            row["verdict"] == "different",
        )
        for row in _rows("wilcoxon")
    )


def _rows(name: str) -> list[dict[str, str]]:
    file = resources.files("isolane.reproduce.oliveira2024") / f"{name}.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))
