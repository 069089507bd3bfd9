"""Run folders that are none, or broken."""

from __future__ import annotations

import json
from typing import Final

from tests.misuse.row import Content, Link, Made, Row

SPOILT: Final[dict[str, tuple[dict[str, Content], str]]] = {
    "binary trials": ({"trials.jsonl": b"\xff\xfe\n"}, "trials.jsonl, line 1"),
    "trials that are none": ({"trials.jsonl": "{}\n"}, "trials.jsonl, line 1"),
    "trials that are a list": ({"trials.jsonl": "[]\n"}, "trials.jsonl, line 1"),
    "trials with NaN": ({"trials.jsonl": '{"trial": NaN}\n'}, "trials.jsonl, line 1"),
    "an empty line": ({"trials.jsonl": "\n\n"}, "trials.jsonl, line 1"),
    "trials nested too deeply": ({"trials.jsonl": "[" * 100_000 + "\n"}, "trials.jsonl, line 1"),
    "binary series": ({"series.jsonl": b"\xff\xfe\n"}, "series.jsonl, line 1"),
    "series that are trials": ({"series.jsonl": '{"trial": 0, "arm": "a"}\n'}, "series.jsonl, line 1"),
    "series with NaN": ({"series.jsonl": '{"trial": NaN}\n'}, "series.jsonl, line 1"),
    "no series": ({"series.jsonl": Made("dangling")}, "time series were written .* 0 are there"),
    "series in a folder": ({"series.jsonl": Made("directory")}, "series were written .* 0 are there"),
    "series in a fifo": ({"series.jsonl": Made("fifo")}, "series were written .* 0 are there"),
    "an empty host": ({"host.json": ""}, "host.json"),
    "a host that is a list": ({"host.json": "[]"}, "host.json"),
    "a host in UTF-16": ({"host.json": "{}".encode("utf-16")}, "host.json"),
    "an empty summary": ({"summary.json": ""}, "summary.json"),
    "a summary of nulls": ({"summary.json": "null"}, "summary.json"),
    "a summary in a folder": ({"summary.json": Made("directory")}, "summary.json"),
}  # fmt: skip
LACKING: Final[dict[str, tuple[dict[str, Content], str]]] = {
    "no experiment": ({"experiment.yaml": Made("dangling")}, "has no experiment.yaml"),
    "no trials": ({"trials.jsonl": Made("dangling")}, "has no trials.jsonl"),
    "trials in a folder": ({"trials.jsonl": Made("directory")}, "has no trials.jsonl"),
    "trials in a fifo": ({"trials.jsonl": Made("fifo")}, "has no trials.jsonl"),
    "no host": ({"host.json": Made("dangling")}, "has no host.json"),
}
OPTIONS: Final[dict[str, Content]] = {
    "a list": "[]",
    "nothing": "",
    "binary": b"\xff",
    "text": '"x"',
    "repeats in words": json.dumps({"repeats": "many"}),
    "repeats that are negative": json.dumps({"repeats": -5}),
    "a host that there is not": json.dumps({"on": "toaster"}),
    "a folder": Made("directory"),
}


WRITTEN: Final = ("r/options.json", "r/run.log")
"""What a resumed run writes before it comes to what is wrong."""


def _spoilt(command: str, changes: dict[str, Content], status: int, says: str) -> Row:
    files = {"r": "a-run", **{f"r/{name}": content for name, content in changes.items()}}
    leaves = WRITTEN if "--resume" in command else ()
    return Row(command, status, says, files=files, lines=5, leaves=leaves)


ROWS: Final[dict[str, Row]] = {
    **{
        f"report of {name}": _spoilt("report r", changes, 1, says)
        for name, (changes, says) in SPOILT.items()
    },
    **{
        f"resume with {name}": _spoilt("run --resume r", changes, 1, says)
        for name, (changes, says) in SPOILT.items()
        if "summary" not in name
    },
    **{
        f"{command} with {name}": _spoilt(command.format("r"), changes, 2, says)
        for name, (changes, says) in LACKING.items()
        for command in ("report {}", "run --resume {}")
    },
    "resume with an empty experiment": _spoilt("run --resume r", {"experiment.yaml": ""}, 2, "experiment"),
    "resume with a binary experiment": _spoilt("run --resume r", {"experiment.yaml": b"\xff\0"}, 2, "experiment"),
    **{
        f"resume with options, {name}": _spoilt(
            "run --resume r", {"options.json": content}, 1, "options.json"
        )
        for name, content in OPTIONS.items()
    },
    "report of nothing": Row("report", 2, "Missing argument"),
    "report of what there is not": Row("report absent", 2, "absent: there is no such run folder"),
    "report of a file": Row("report good.yaml", 2, "good.yaml: there is no such run folder"),
    "report of an empty folder": Row("report .", 2, "this is not the folder of a run"),
    "report of an empty name": Row("report ''", 2, "this is not the folder of a run|no such run"),
    "report of a device": Row("report x", 2, "no such run folder", files={"x": Made("null")}),
    "report of a link to itself": Row("report x", 2, "no such run folder", files={"x": Link("x")}),
    "report as a word document": Row("report {run} -f docx", 2, "'docx' is not one of"),
    "report twice": Row("report {run} {run}", 2, "unexpected extra argument"),
    "report of a run in which nobody may write": Row(
        "report r -f csv", 1, "report.csv: cannot be written: permission denied",
        files={"r": "a-run"},
        prefix=("unshare", "--mount", "sh", "-c",
                'mount --bind r r && mount -o remount,bind,ro r && exec "$0" "$@"'),
    ),
    "compare one run alone": Row("compare {run}", 2, "Missing argument 'AFTER'"),
    "compare with what there is not": Row("compare {run} absent", 2, "absent: there is no such run folder"),
    "compare files": Row("compare good.yaml good.yaml", 2, "good.yaml: there is no such run folder"),
    "compare with binary trials": Row(
        "compare {run} r", 1, "trials.jsonl, line 1", lines=5,
        files={"r": "a-run", "r/trials.jsonl": b"\xff\xfe\n"},
    ),
    "compare with a run that has no trial": Row(
        "compare {run} r", 1, "2 trials were written .* 0 are there",
        files={"r": "a-run", "r/trials.jsonl": ""},
    ),
    "compare within less than nothing": Row(
        "compare {run} {run} --tolerance=-1", 2, "--tolerance -1: is not a share",
    ),
    "compare within a word": Row("compare {run} {run} --tolerance nan", 2, "nan: is not a share"),
    "compare into a folder": Row("compare {run} {run} -o .", 1, "it is a directory; name a file"),
    "compare a run with itself": Row("compare {run} {run}", 0, prints="no difference shown"),
    "resume what there is not": Row("run --resume absent", 2, "there is no such run folder"),
    "resume a file": Row("run --resume good.yaml", 2, "there is no such run folder"),
    "resume an empty folder": Row("run --resume .", 2, "this is not the folder of a run"),
    "resume a run that is complete": Row(
        "run --resume r", 0, files={"r": "a-run"}, prints="report", leaves=("r", "r/*"),
    ),
    "report without its trials": Row(
        "report r -f csv -o -", 1, "2 trials were written .* 0 are there",
        files={"r": "a-run", "r/trials.jsonl": '{"trial": 1'},
    ),
}  # fmt: skip
