"""The table: a row for each input, by what it is about. A new row is a line in one of the files."""

from __future__ import annotations

from tests.misuse.row import Row
from tests.misuse.table import (
    commands,
    documents,
    enforcing,
    experiments,
    outputs,
    policies,
    processes,
    results,
    searching,
    traffic,
    web_requests,
)

ROWS: dict[str, Row] = {
    f"{part.__name__.rpartition('.')[2]}: {name}": row
    for part in (
        documents, experiments, policies, traffic, commands, results, outputs, enforcing, processes,
        searching, web_requests,
    )
    for name, row in part.ROWS.items()
}  # fmt: skip
