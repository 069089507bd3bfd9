"""Files that are not what they should be, whatever they are about."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import GOOD, POLICY
from tests.misuse.row import Content, Link, Made, Row

ACCEPTED: Final = "accepted: an experiment"
BOMB: Final = "isolane: 1\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

TEXTS: Final[dict[str, tuple[Content, str]]] = {
    "empty": ("", "the file is empty; accepted: "),
    "only a comment": ("# nothing\n", "the file is empty; accepted: "),
    "only spaces": ("   \n\n  \n", "the file is empty; accepted: "),
    "a number": ("42\n", "the file holds a single value; accepted: "),
    "a list": ("- 1\n- 2\n", "the file holds a list; accepted: "),
    "null": ("~\n", "the file is empty; accepted: "),
    "two documents": ("isolane: 1\n---\nisolane: 1\n", "not valid YAML: .*document"),
    "unclosed bracket": ("isolane: [1\n", "not valid YAML"),
    "unclosed quote": ('name: "x\n', "not valid YAML"),
    "a tab for spaces": ("isolane: 1\n\tname: x\n", "x.yaml:2: not valid YAML"),
    "an unknown tag": ("isolane: !!python/object/apply:os.system [reboot]\n", "isolane: .*tag|not"),
    "an anchor that is missing": ("isolane: *there\n", "not valid YAML: .*alias"),
    "an anchor within itself": ("isolane: &a [*a]\n", "contains itself|accepted"),
    "a bomb of aliases": (BOMB, "more than 20000 values"),
    "nested too deeply": ("[" * 200 + "]" * 200, "nested too deeply"),
    "nested a million times": ("[" * 100_000, "nested too deeply"),
    "too many values": ("[" + "1," * 30_000 + "]", "more than 20000 values"),
    "binary": (bytes(range(256)), r"is not text \(UTF-8\)"),
    "zero bytes": (b"isolane: 1\0\n", r"is not text \(it has zero bytes\)"),
    "UTF-16": ("isolane: 1\n".encode("utf-16"), "is not text"),
    "latin 1": (b"name: caf\xe9\n", r"is not text \(UTF-8\)"),
    "control characters": ("name: \x1b[31mred\n", "not valid YAML.*(special|character)"),
    "an enormous line": ("name: " + "x" * 300_000, "larger than 250000 bytes"),
    "an enormous file": ("# line\n" * 100_000, "larger than 250000 bytes"),
    "JSON with a comment": ('{"isolane": 1, // one\n}', "not valid YAML|isolane"),
    "a shell script": ("#!/bin/sh\nrm -rf x\n", "holds a single value"),
    "a key twice": (
        "isolane: 1\nisolane: 1\n",
        "x.yaml:1: isolane: key 'isolane' is given twice, in lines 1 and 2",
    ),
    "a directory": (Made("directory"), "is a directory; accepted: "),
    "a fifo": (Made("fifo"), "is not a regular file; accepted: "),
    "a device": (Made("null"), "is not a regular file; accepted: "),
    "a dangling link": (Made("dangling"), "no such file; accepted: "),
    "a link to itself": (Link("x.yaml"), r"cannot be read \(Too many levels of symbolic links\)"),
    "a link to a directory": (Link("/"), "is a directory; accepted: "),
}


def _rows() -> dict[str, Row]:
    rows = {}
    for name, (content, says) in TEXTS.items():
        files = {"x.yaml": content}
        rows[f"experiment, {name}"] = Row("run x.yaml --on sim", 2, says, files=files, lines=30)
        rows[f"policy, {name}"] = Row("apply x.yaml --dry-run", 2, says, files=files, lines=30)
    for name in ("a bomb of aliases", "a fifo", "a device", "binary", "a list"):
        content, says = TEXTS[name]
        command = "run good.yaml --on sim --profile ./x.yaml"
        rows[f"profile, {name}"] = Row(command, 2, says, files={"x.yaml": content}, lines=30)
        rows[f"verify, {name}"] = Row("verify x.yaml", 2, says, files={"x.yaml": content}, lines=30)
    return rows


DRY: Final = "run x.yaml --on sim --dry-run"
VALID: Final = "the experiment is valid"

ROWS: Final[dict[str, Row]] = {
    **_rows(),
    "there is none": Row("run absent.yaml", 2, "^isolane: error: absent.yaml: no such file"),
    "a path through a file": Row("run f/x.yaml", 2, "cannot be read .Not a dir", files={"f": ""}),
    "a name that is too long": Row(f"run {'x' * 300}.yaml", 2, "cannot be read .File name too long"),
    "an empty name": Row("run ''", 2, "is a directory|no such file|cannot be read"),
    "a name with a line break": Row("run 'a\nb.yaml'", 2, "no such file", lines=2),
    "a name that is no UTF-8": Row("run \udcff", 2, "no such file", fresh=True),
    "a name with a colour in it": Row("run '\x1b[31mx'", 2, "no such file"),
    "with a byte order mark": Row(DRY, 0, VALID, files={"x.yaml": "\ufeff" + GOOD}),
    "with CRLF": Row(DRY, 0, VALID, files={"x.yaml": GOOD.replace("\n", "\r\n")}),
    "by a link": Row(DRY, 0, VALID, files={"x.yaml": Link("y.yaml"), "y.yaml": GOOD}),
    "as JSON": Row(
        "apply x.yaml --dry-run", 0, "the policy is valid", where="wire",
        files={"x.yaml": '{"isolane":1,"name":"j","nics":{"w0":{"rate":"1Gbps"}},"routers":'
                         '{"a":{"netns":"e2e-misuse-absent"}}}'},
    ),
    "with an anchor": Row(
        DRY, 0, VALID,
        files={"x.yaml": GOOD.replace("load: {one: 5kpps", "load: {one: &r 5kpps")
               .replace("[2kpps, 5kpps]", "[2kpps, *r]")},
    ),
    "an experiment is no policy": Row("apply good.yaml", 2, "good.yaml:.*(unknown|accepted)", lines=9),
    "a policy is no experiment": Row("run policy.yaml", 2, "policy.yaml:.*(unknown|accepted)", lines=9),
    "an experiment that nobody may read": Row(
        "run x.yaml", 2, "x.yaml. is not readable", files={"x.yaml": Made("unreadable")},
        prefix=("setpriv", "--bounding-set=-all", "--inh-caps=-all"),
    ),
    "a policy that nobody may read": Row(
        "apply x.yaml", 2, "x.yaml. is not readable", files={"x.yaml": Made("unreadable")},
        prefix=("setpriv", "--bounding-set=-all", "--inh-caps=-all"),
    ),
    "stdin is no file": Row("run /dev/stdin", 2, "is not a regular file"),
    "a policy from stdin": Row("apply -", 2, "-: no such file"),
    "a file of /proc": Row("run /proc/self/status --on sim", 2, "not valid YAML|accepted", lines=40),
    "memory": Row("apply /proc/self/mem", 2, "cannot be read|is not", lines=2),
    "a policy that names text": Row(
        "apply x.yaml", 2, "x.yaml:4: routers: ", lines=4,
        files={"x.yaml": POLICY.partition("routers:")[0] + "routers: all\n"},
    ),
}  # fmt: skip
