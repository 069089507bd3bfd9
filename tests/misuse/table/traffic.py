"""``generate`` and ``receive``: interfaces, addresses, rates, times, that cannot be."""

from __future__ import annotations

from typing import Final

from tests.misuse.row import Row

TO: Final = "--to 198.18.0.2 --mac 02:00:00:00:00:02"
SIX: Final = "--from 2001:2::1 --mac 02:00:00:00:00:02 -r 1pps -s 84"
SEND: Final = f"generate w0 {TO} -r 1kpps -d 20ms"

OPTIONS: Final[dict[str, tuple[str, str]]] = {
    # options that come after INTERFACE, and what the message has to say
    "rate NaN": (f"{TO} -r nanpps", "'nanpps'"),
    "rate infinite": (f"{TO} -r infpps", "'infpps'"),
    "rate 1e400": (f"{TO} -r 1e400pps", "'1e400pps'|rate"),
    "rate of 400 digits": (f"{TO} -r {'9' * 400}pps", "rate"),
    "rate that is negative": (f"{TO} --rate=-1pps", "'-1pps'"),
    "rate of nothing": (f"{TO} -r ''", "rate"),
    "rate with a space": (f"{TO} -r '1 000pps'", "'1 000pps'"),
    "rate per minute": (f"{TO} -r 5fpm", "'(5fpm|fpm)'"),
    "rate in capacities": (f"{TO} -r 2x", "2x"),
    "rate above any line": (f"{TO} -r 1000Gpps", "rate|Gpps"),
    "rate of each flow NaN": (f"{TO} --flow-rate nanpps", "'nanpps'"),
    "both rates": (f"{TO} -r 1pps --flow-rate 1pps", "give one of --rate"),
    "no rate": (TO, "give one of --rate"),
    "schedule of nothing": (f"{TO} --schedule ''", "schedule|give one of"),
    "schedule of commas": (f"{TO} --schedule ,,,", "schedule"),
    "schedule without end": (f"{TO} --schedule 1s:1kpps-", "'' is not a rate"),
    "schedule with NaN": (f"{TO} --schedule 1s:nanpps", "'nanpps'"),
    "schedule of no time": (f"{TO} --schedule 0s:1kpps", "duration"),
    "duration NaN": (f"{TO} -r 1pps -d nans", "nan"),
    "duration infinite": (f"{TO} -r 1pps -d infs", "inf"),
    "duration negative": (f"{TO} -r 1pps -d=-1s", "-1s"),
    "duration of nothing": (f"{TO} -r 1pps -d 0s", "duration"),
    "duration without a unit": (f"{TO} -r 1pps -d 10", "unit"),
    "duration of a century": (f"{TO} -r 1pps -d 900000h", "longer than a year"),
    "duration that is no number of this world": (f"{TO} -r 1pps -d {'9' * 30}h", "duration"),
    "frame of words": (f"{TO} -r 1pps -s big", "'big'"),
    "frame of NaN": (f"{TO} -r 1pps -s nan", "'nan'"),
    "frame of 63": (f"{TO} -r 1pps -s 63", "64 to 1518"),
    "frame of 2^70": (f"{TO} -r 1pps -s {2**70}", "64 to 1518"),
    "frame of -64": (f"{TO} -r 1pps --frame-size=-64", "64 to 1518|'-64'"),
    "flows of 0": (f"{TO} -r 1pps -f 0", "1 to 100000"),
    "flows of -1": (f"{TO} -r 1pps -f -1", "1 to 100000"),
    "flows of 10^12": (f"{TO} -r 1pps -f 1000000000000", "1 to 100000"),
    "flows of 1.5": (f"{TO} -r 1pps -f 1.5", "--flows.*valid integer"),
    "pattern of words": (f"{TO} -r 1pps --pattern waves", "'waves' is not known"),
    "pattern of a ramp": (f"{TO} -r 1pps --pattern ramp", "give a schedule"),
    "pattern of a time": (f"{TO} -r 1pps --pattern from:1s", "give a schedule"),
    "pattern for no route": (f"{TO} -r 1pps --pattern no-route", "as the destination"),
    "bursts without end": (f"{TO} -r 1pps --pattern 'bursts 1s/1ms'", "out of range"),
    "bursts of steps": (f"{TO} --schedule 1s:1pps,1s:2pps --pattern poisson", "one segment"),
    "fragments of IPv6": (f"--to 2001:2::2 {SIX} --pattern fragments", "fragments"),
    "core -1": (f"{TO} -r 1pps --core -1", "--core -1"),
    "core 99999": (f"{TO} -r 1pps --core 99999", "--core 99999"),
    "core 2^70": (f"{TO} -r 1pps --core {2**70}", "--core"),
    "core of words": (f"{TO} -r 1pps --core first", "--core.*valid integer"),
    "MAC of words": ("--to 198.18.0.2 --mac gold -r 1pps", "--mac gold"),
    "MAC of seven": ("--to 198.18.0.2 --mac 1:2:3:4:5:6:7 -r 1pps", "--mac 1:2:3"),
    "MAC of nothing": ("--to 198.18.0.2 --mac '' -r 1pps", "--mac"),
    "MAC with a line break": ("--to 198.18.0.2 --mac '02:00:00:00:00:01\n' -r 1pps", "--mac"),
    "stream of nothing": (f"{TO} --stream ''", "stream|rate"),
    "stream with NaN": (f"{TO} --stream rate=nanpps", "'nanpps'"),
    "stream that is no pair": (f"{TO} --stream fast", "'fast'"),
    "stream with a rate twice": (f"{TO} --stream 'rate=1pps rate=2pps'", "rate.*twice|twice"),
    "stream of a million flows": (f"{TO} --stream 'rate=1pps flows=1000000'", "1 to 100000"),
    "stream of flows in words": (f"{TO} --stream 'rate=1pps flows=many'", "'many'|many"),
    "stream of a frame of 9000": (f"{TO} --stream 'rate=1pps size=9000'", "64 to 1518"),
    "to nowhere": ("--to nowhere -r 1pps", "--to nowhere"),
    "to nothing": ("--to '' -r 1pps", "--to"),
    "to a network": ("--to 198.18.0.0/24 -r 1pps", "--to 198.18.0.0/24"),
    "to too many numbers": ("--to 1.2.3.4.5 -r 1pps", "--to 1.2.3.4.5"),
    "to octal": ("--to 010.0.0.1 -r 1pps", "--to 010.0.0.1"),
    "to a name": ("--to localhost -r 1pps", "--to localhost"),
    "to a mapped address with a scope": (f"--to ::ffff:1.2.3.4%zzz {SIX}", "--to"),
    "to a scope that there is not": (f"--to fe80::1%zzz {SIX}", "--to"),
    "to an address with a scope": (f"--to 2001:2::2%w0 {SIX}", "--to"),
    "to a scope of nothing": ("--to fe80::1% -r 1pps -s 84", "--to"),
    "to the unspecified address": ("--to 0.0.0.0 --mac 02:00:00:00:00:02 -r 1pps", "0.0.0.0"),
    "to IPv6 unspecified": (
        "--to :: --from 2001:2::1 --mac 02:00:00:00:00:02 -r 1pps -s 84", "--to ::",
    ),
    "from nowhere": (f"{TO} -r 1pps --from nowhere", "--from nowhere"),
    "from a mapped address": (f"{TO} -r 1pps --from ::ffff:1.2.3.4", "--from"),
    "from multicast": (f"{TO} -r 1pps --from 224.0.0.1", "--from 224.0.0.1"),
    "from broadcast": (f"{TO} -r 1pps --from 255.255.255.255", "--from 255.255.255.255"),
    "from the other family": (f"{TO} -r 1pps --from 2001:2::1", "same IP version"),
    "IPv6 in 64 bytes": ("--to 2001:2::2 --from 2001:2::1 --mac 02:00:00:00:00:02 -r 1pps", "84"),
}  # fmt: skip

ROWS: Final[dict[str, Row]] = {
    **{
        f"generate, {name}": Row(f"generate w0 {options}", 2, says, where="wire", lines=2)
        for name, (options, says) in OPTIONS.items()
    },
    "generate: it does send": Row(SEND, 0, where="wire", prints=r"sent \d+ of 20 frames"),
    "generate: fragments in bursts": Row(
        f"{SEND} --pattern 'bursts 5ms/10ms+fragments'", 0, where="wire", prints=r"sent \d+ of 20 frames"
    ),
    "generate: no interface": Row("generate", 2, "INTERFACE|--to"),
    "generate: no such interface": Row(f"generate w9 {TO} -r 1pps", 2, "w9: there is no such"),
    "generate: interface of 16 letters": Row(
        f"generate abcdefghijklmnop {TO} -r 1pps", 2, "abcdefghijklmnop: there is no such"
    ),
    "generate: interface with a slash": Row(f"generate ../x {TO} -r 1pps", 2, r"\.\./x: there is"),
    "generate: interface by number": Row(f"generate 1 {TO} -r 1pps", 2, "1: there is no such"),
    "generate: interface of nothing": Row(f"generate '' {TO} -r 1pps", 2, "there is no such"),
    "generate: interface in emoji": Row(f"generate \U0001f600 {TO} -r 1pps", 2, "there is no such"),
    "generate: interface with a zero byte": Row(
        f"generate 'w\x01' {TO} -r 1pps", 2, "there is no such"
    ),
    "generate: interface that is down": Row(
        f"generate w1 {TO} -r 1pps", 2, "w1 is down; ip link set", where="wire"
    ),
    "generate: loopback": Row(
        "generate lo --to 127.0.0.1 -r 1kpps -d 10ms", 2, "lo.*(loopback|Ethernet)", where="wire"
    ),
    "generate: no next hop": Row("generate w0 --to 198.18.0.77 -r 1pps", 2, "--mac", where="wire"),
    "generate: namespace that there is not": Row(
        f"generate w0 --netns absent {TO} -r 1pps", 2, "--netns absent: there is no"
    ),
    "generate: namespace that is a file": Row(
        f"generate w0 --netns ./x {TO} -r 1pps", 2, "not a network namespace", files={"x": "x"}
    ),
    "generate: namespace that is a folder": Row(
        f"generate w0 --netns ./ {TO} -r 1pps", 2, "not a network namespace"
    ),
    "generate: namespace of another kind": Row(
        f"generate w0 --netns /proc/self/ns/mnt {TO} -r 1pps", 2, "not a network namespace"
    ),
    "generate: namespace that is a device": Row(
        f"generate w0 --netns /dev/null {TO} -r 1pps", 2, "not a network namespace"
    ),
    "generate: namespace of nothing": Row(
        f"generate w0 --netns '' {TO} -r 1pps", 2, "--netns"
    ),
    "generate: unknown option": Row(f"generate w0 {TO} --fast", 2, "No such option: --fast"),
    "receive: no interface": Row("receive", 2, "Missing argument"),
    "receive: no such interface": Row("receive w9 -d 10ms", 2, "w9: there is no such"),
    "receive: interface of 16 letters": Row("receive abcdefghijklmnop -d 10ms", 2, "no such"),
    "receive: interface by number": Row("receive 1 -d 10ms", 2, "1: there is no such"),
    "receive: interface with a slash": Row("receive a/b -d 10ms", 2, "a/b: there is no such"),
    "receive: the same interface twice": Row(
        "receive w0 w0 -d 10ms", 2, "w0.*twice", where="wire"
    ),
    "receive: one that is there and one that is not": Row(
        "receive w0 w9 -d 10ms", 2, "w9: there is no such", where="wire"
    ),
    "receive: no time": Row("receive w0 -d 0s", 2, "duration", where="wire"),
    "receive: time NaN": Row("receive w0 -d nans", 2, "nan", where="wire"),
    "receive: time of nothing": Row("receive w0 -d ''", 2, "duration|''", where="wire"),
    "receive: negative time": Row("receive w0 -d=-1s", 2, "-1s", where="wire"),
    "receive: no frames": Row("receive w0 -n 0", 2, "--frames", where="wire"),
    "receive: frames in words": Row("receive w0 -n all", 2, "--frames.*valid integer", where="wire"),
    "receive: no flows": Row("receive w0 --flows 0", 2, "--flows", where="wire"),
    "receive: 10^7 flows": Row("receive w0 --flows 10000000", 2, "--flows", where="wire"),
    "receive: namespace that there is not": Row("receive w0 --netns absent", 2, "--netns absent"),
    "receive: nothing comes": Row(
        "receive w0 -d 10ms", 0, "receiving on w0", where="wire", prints="no frames"
    ),
    "receive: as JSON": Row(
        "receive w0 -d 10ms --json", 0, "receiving on w0", where="wire", prints='"streams": ..'
    ),
}  # fmt: skip
