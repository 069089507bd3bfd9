"""Searches for rates that cannot be found: of nobody, between bounds that cross, to no precision."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import good
from tests.misuse.row import Row
from tests.misuse.table.processes import NOBODY, SUDO, UNABLE

SHARE: Final = "is not a share; accepted: 0 to 1"
BAD_OPTIONS: Final[dict[str, tuple[str, str]]] = {
    # what is wrong: the options, and what the message has to say
    "loss of twice what came": ("--loss-ratio 2", SHARE),
    "a negative loss": ("--loss-ratio=-1", SHARE),
    "loss NaN": ("--loss-ratio nan", SHARE),
    "loss of everything": ("--loss-ratio 100%", "--loss-ratio 1: accepted"),
    "loss in words": ("--loss-ratio some", "some"),
    "no width": ("--width 0", "--width 0: accepted: above 0"),
    "width of everything": ("--width 100%", "--width"),
    "width NaN": ("--width nan", SHARE),
    "no duration": ("--duration 0s", "--duration 0s: out of range"),
    "a year": ("--duration 9000h", "--duration 9000h: out of range"),
    "first trials longer than the last": (
        "--initial-duration 2s --duration 1s", "shorter than --initial-duration",
    ),
    "a sum of no time": ("--duration-sum 1ms", "--duration-sum 1ms: out of range"),
    "a router that there is not": ("--router nobody", "no such router; it has one, two"),
    "a router of nothing": ("--router ''", "--router"),
    "bounds that cross": ("--min-rate 10kpps --max-rate 5kpps", "is not above --min-rate"),
    "a lowest rate of nothing": ("--min-rate 0pps", "--min-rate 0pps: accepted"),
    "a highest rate in what is searched": ("--max-rate 1x", "--max-rate 1x: accepted"),
    "an enormous rate": ("--min-rate 1e300pps", "is not a rate"),
    "no delay": ("--max-delay 0us", "--max-delay 0us: out of range"),
    "a negative delay": ("--max-delay=-1ms", "-1ms"),
    "more trials than all": ("--exceed-ratio 2", SHARE),
    "no time at all": ("--time-limit 0s", "--time-limit 0s: out of range"),
    "a profile that there is not": ("--on sim --profile absent", "profile 'absent' is not known"),
}  # fmt: skip

ROWS: Final[dict[str, Row]] = {
    f"search, {name}": Row(f"search good.yaml {options}", 2, says)
    for name, (options, says) in BAD_OPTIONS.items()
} | {
    "search nothing": Row("search", 2, "Missing argument", lines=4),
    "search where nothing comes back": Row(
        "search x.yaml --router two", 2, "router two: with pattern no-route none of its frames comes",
        files={"x.yaml": good("role: aggressor", "role: aggressor, traffic: {pattern: no-route}")},
    ),
    "search what there is not": Row("search absent.yaml", 2, "absent.yaml: no such file"),
    "search a router and all": Row(
        "search good.yaml --router one --together", 2, "either --router or --together"
    ),
    "search on the moon": Row("search good.yaml --on moon", 2, "'moon' is not one of", lines=3),
    "search a simulated host, live": Row(
        "search good.yaml --profile ahn", 2, "add --on sim", lines=3
    ),
    "search into a device": Row(
        "search good.yaml --on sim -o /dev/null", 1, "/dev/null: cannot be written"
    ),
    "nobody searches": Row("search good.yaml -o {tmp}/x", 3, SUDO, prefix=NOBODY),
    "root without rights searches": Row(
        "search good.yaml -o x", 3, "root|CAP_", prefix=UNABLE
    ),
}  # fmt: skip
