"""Where output goes: devices, pipes, links, folders; streams that are full or closed."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import GOOD
from tests.misuse.row import Link, Made, Row

THEIRS: Final = "what was there before\n"
TO_NODE: Final = {
    "report": "report {run} -f csv -o x",
    "schema": "schema -o x",
    "dashboard": "export grafana -o x",
    "textfile": "export prometheus --textfile x",
}

ROWS: Final[dict[str, Row]] = {
    **{
        f"{name} into a device that swallows": Row(
            command, 0, files={"x": Made("null")}
        )
        for name, command in TO_NODE.items()
    },
    **{
        f"{name} into a device that is full": Row(
            command, 1, "(?i)x: .*no space left|no space left", files={"x": Made("full")}
        )
        for name, command in TO_NODE.items()
    },
    **{
        f"{name} into a dangling link": Row(command, 1, "x.*link|x: .*", files={"x": Made("dangling")})
        for name, command in TO_NODE.items()
        if name != "schema"
    },
    **{
        f"{name} into a file by a link": Row(
            command, 0, files={"x": Link("y"), "y": THEIRS}, leaves=("y",)
        )
        for name, command in TO_NODE.items()
    },
    **{
        f"{name} into a link to itself": Row(command, 1, "(?i)symbolic links", files={"x": Link("x")})
        for name, command in TO_NODE.items()
    },
    "report as pdf into a device that is full": Row(
        "report {run} -f pdf -o x", 1, "(?i)no space left", files={"x": Made("full")}
    ),
    "report into a folder": Row("report {run} -f csv -o .", 1, "(?i)is a directory"),
    "report into a folder that there is not": Row("report {run} -f csv -o a/b", 1, "a/b: cannot be written"),
    "report into nothing": Row("report {run} -f csv -o ''", 1, "(?i)is a directory|no such"),
    "report into a name that is too long": Row(f"report {{run}} -f csv -o {'x' * 300}", 1, "too long"),
    "report onto a full stdout": Row(
        "report {run} -f csv -o -", 1, "(?i)no space left", stdout="/dev/full"
    ),
    "run into a folder that holds something": Row(
        "run good.yaml --on sim -o x", 2, "x: the folder exists and is not empty",
        files={"x/theirs": THEIRS},
    ),
    "run into a file": Row("run good.yaml --on sim -o x", 1, "x: cannot", files={"x": THEIRS}),
    "run into a device": Row("run good.yaml --on sim -o x", 1, "x: cannot", files={"x": Made("null")}),
    "run into a path through a file": Row(
        "run good.yaml --on sim -o x/y", 1, "not a directory", files={"x": THEIRS}
    ),
    "run into a dangling link": Row(
        "run good.yaml --on sim -o x", 1, "x: cannot", files={"x": Made("dangling")}
    ),
    "run into a name that is too long": Row(
        f"run good.yaml --on sim -o {'x' * 300}", 1, "(?i)too long"
    ),
    "a full stdout": Row("version", 1, "(?i)no space left", stdout="/dev/full"),
    "a full stdout, with more": Row("schema", 1, "(?i)no space left", stdout="/dev/full"),
    "a full stdout for help": Row("--help", 1, "(?i)no space left", stdout="/dev/full"),
    "a closed stdout": Row("version", 1, "stdout .* closed", stdout="closed"),
    "a closed stdout for a schema": Row("schema", 1, "stdout .* closed", stdout="closed"),
    "a closed stderr": Row("version", 0, stderr="closed", prints="isolane"),
    "a closed stderr, and an error": Row("run absent.yaml", 2, stderr="closed"),
    "a full stderr, and an error": Row("run absent.yaml", 2, stderr="/dev/full"),
    "a closed stdin": Row("version", 0, stdin="closed", prints="isolane"),
    "all closed": Row("run absent.yaml", 2, stdin="closed", stdout="closed", stderr="closed"),
    "a full stdout after a run": Row(
        "run good.yaml --on sim -o x", 1, "(?i)no space left", stdout="/dev/full",
        leaves=("x", "x/*"), lines=30,
    ),
    "a closed stdout after a run": Row(
        "run good.yaml --on sim -o x", 1, "stdout .* closed", stdout="closed", leaves=("x", "x/*"), lines=30
    ),
    "a closed stderr during a run": Row(
        "run good.yaml --on sim -o x", 0, stderr="closed", leaves=("x", "x/*"), prints="report"
    ),
    "run on a small file system": Row(
        "run good.yaml --on sim -o x/r", 1, "(?i)no space left", lines=9,
        files={"x": Made("directory")}, leaves=("x",),
        prefix=("unshare", "--mount", "sh", "-c",
                'mount -t tmpfs -o size=4k,nr_inodes=4 none x && exec "$0" "$@"'),
    ),
    "run in a folder where nobody may write": Row(
        "run good.yaml --on sim", 1, "(?i)cannot be written: read-only file system", lines=2,
        prefix=("unshare", "--mount", "sh", "-c",
                'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec "$0" "$@"'),
    ),
    "run where the folder has been removed": Row(
        "run {here}/x.yaml --on sim", 1, "(?i)no such file", lines=2, files={"x.yaml": GOOD},
        prefix=("sh", "-c", 'mkdir {here}/g && cd {here}/g && rmdir {here}/g && exec "$0" "$@"'),
    ),
}  # fmt: skip
