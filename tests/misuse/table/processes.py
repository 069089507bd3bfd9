"""What a process is born with: rights, limits, environment, locale."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import GOOD, good
from tests.misuse.row import Row

NOBODY: Final = (
    "setpriv", "--reuid", "65534", "--clear-groups",
    # Enough to read an interpreter in a home directory, and nothing else.
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)  # fmt: skip
UNABLE: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Root, without any capability."""
SEND: Final = "--to 198.18.0.2 --mac 02:00:00:00:00:02 -r 1kpps -d 10ms"
SUDO: Final = "root.*sudo|sudo.*root"


def without(*capabilities: str) -> tuple[str, ...]:
    """Root, without some capabilities."""
    less = ",".join(f"-{name}" for name in capabilities)
    return ("setpriv", f"--bounding-set={less}", f"--inh-caps={less}")


ROWS: Final[dict[str, Row]] = {
    "nobody runs": Row("run good.yaml -o {tmp}/x", 3, SUDO, prefix=NOBODY),
    "nobody generates": Row(f"generate lo {SEND}", 3, SUDO, prefix=NOBODY),
    "nobody receives": Row("receive lo", 3, SUDO, prefix=NOBODY),
    "nobody cleans": Row("clean", 3, SUDO, prefix=NOBODY),
    "nobody applies": Row("apply policy.yaml", 3, SUDO, prefix=NOBODY),
    "nobody asks for the status": Row("status", 3, SUDO, prefix=NOBODY),
    "nobody sets": Row("set gold cpu_weight=5", 3, SUDO, prefix=NOBODY),
    "nobody watches": Row("watch", 3, SUDO, prefix=NOBODY),
    "nobody verifies": Row("verify policy.yaml", 3, SUDO, prefix=NOBODY),
    "nobody exports": Row("export prometheus", 3, SUDO, prefix=NOBODY),
    "nobody reports into another's folder": Row(
        "report {run}", 1, "cannot be written: permission denied", prefix=NOBODY
    ),
    "nobody is told what is wrong with a file": Row(
        "run x.yaml", 2, "load.one", prefix=NOBODY, files={"x.yaml": good("one: 5kpps", "one: 5")}
    ),
    "root without rights runs": Row("run good.yaml -o x", 3, "root|CAP_", prefix=UNABLE),
    "root without rights generates": Row(
        f"generate w0 {SEND}", 3, "root|CAP_", prefix=UNABLE, where="wire"
    ),
    "root without rights receives": Row("receive lo", 3, "root|CAP_", prefix=UNABLE),
    "root without rights cleans": Row("clean", 3, "root|CAP_", prefix=UNABLE),
    "root without rights applies": Row("apply policy.yaml", 3, "CAP_", prefix=UNABLE),
    "root without rights verifies": Row("verify policy.yaml", 3, "root|CAP_", prefix=UNABLE),
    "root without CAP_BPF and CAP_SYS_ADMIN receives": Row(
        "receive lo -d 10ms", 3, "root|CAP_", prefix=without("bpf", "sys_admin")
    ),
    "root without CAP_NET_ADMIN receives on loopback": Row(
        "receive lo -d 10ms", 0, "receiving on lo", prefix=without("net_admin"), prints="no frames"
    ),
    "root without CAP_NET_ADMIN applies": Row(
        "apply policy.yaml", 3, "CAP_NET_ADMIN", prefix=without("net_admin")
    ),
    "root without CAP_SYS_NICE applies": Row(
        "apply policy.yaml", 3, "CAP_SYS_NICE", prefix=without("sys_nice")
    ),
    "20 files for a run": Row(
        "run good.yaml -o x", 1, "(?i)too many open files|ulimit -n", limits={"nofile": 20},
        fresh=True, leaves=("x", "x/*"), lines=3,
    ),
    "20 files for a receiver": Row(
        "receive w0 -d 10ms", 1, "(?i)too many open files|ulimit -n", limits={"nofile": 7},
        fresh=True, where="wire", lines=3,
    ),
    "files of at most 1000 bytes for a run": Row(
        "run good.yaml --on sim -o x", 1, "(?i)file too large", limits={"fsize": 1000},
        leaves=("x", "x/*"), lines=9,
    ),
    "files of at most 1000 bytes for a report": Row(
        "report {run} -o x.html", 1, "(?i)file too large", limits={"fsize": 1000},
    ),
    "files of at most 100 bytes for a schema": Row(
        "schema -o x", 1, "(?i)file too large", limits={"fsize": 100}, leaves=("x",),
    ),
    "little memory": Row(
        "run good.yaml --on sim -o x", 1, "(?i)memory", limits={"as": 150_000_000}, fresh=True,
        leaves=("x", "x/*"), lines=9,
    ),
    "locale ascii, and a file in unicode": Row(
        "run \u00e4.yaml --on sim", 2, "no such file", fresh=True,
        env={"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ),
    "stdout in ascii": Row(
        "run x.yaml --on sim -o x", 0, ".*", lines=20, leaves=("x", "x/*"),
        files={"x.yaml": GOOD.replace("name: good", "name: good\ntitle: Gr\u00fc\u00dfe \U0001f600")},
        env={"PYTHONIOENCODING": "ascii"}, prints="report",
    ),
    "report in ascii": Row(
        "report {run} -f md -o -", 0, env={"PYTHONIOENCODING": "ascii"}, prints="good"
    ),
    "doctor in ascii": Row(
        "doctor --json", 0, fresh=True, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX"},
        prints="findings",
    ),
    "without HOME, TERM and LANG": Row(
        "run good.yaml --on sim -o x", 0, ".*", fresh=True, prints="report",
        env={"HOME": None, "TERM": None, "LANG": None, "LC_ALL": None}, leaves=("x", "x/*"), lines=20,
    ),
    "without PATH": Row("status", 0, fresh=True, env={"PATH": None}, prints="no policy"),
    "without PATH, looking for routers": Row(
        "apply x.yaml --dry-run", 0, ".*", env={"PATH": None}, where="wire", prints="gold would wait",
        files={"x.yaml": "isolane: 1\nname: p\nnics: {w0: {rate: 1Gbps}}\nrouters:\n"
                         "  gold: {docker: absent}\n"},
    ),
    "PATH of nothing": Row("doctor --json", 0, fresh=True, env={"PATH": ""}, prints="findings"),
    "TERM of nonsense": Row(
        "report {run} -f md -o -", 0, env={"TERM": "klingon", "COLUMNS": "x"}, prints="good"
    ),
    "COLUMNS of 1": Row("status", 0, env={"COLUMNS": "1"}, prints="no"),
    "HOME that there is not": Row("version", 0, env={"HOME": "/absent"}, prints="isolane"),
    "TMPDIR that there is not": Row(
        "report {run} -f csv -o -", 0, env={"TMPDIR": "/absent"}, prints="arm"
    ),
    "NO_COLOR and FORCE_COLOR": Row(
        "status", 0, env={"NO_COLOR": "1", "FORCE_COLOR": "1"}, prints="no policy"
    ),
}  # fmt: skip
