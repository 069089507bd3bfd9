"""``request``: URLs, rates, times and places that cannot be."""

from __future__ import annotations

from typing import Final

from tests.misuse.row import Row

URL: Final = "http://127.0.0.1:9/"
ONE: Final = f"request {URL} -r 10rps -d 100ms"

OPTIONS: Final[dict[str, tuple[str, str]]] = {
    # what comes after the command, and what the message has to say
    "no rate": (URL, "give either --rate or --concurrency"),
    "both loops": (f"{URL} -r 1rps -c 1", "give either --rate or --concurrency"),
    "rate without a unit": (f"{URL} -r 5", "--rate: '5' has no unit; accepted: .*rps, krps, Mrps"),
    "rate in frames": (f"{URL} -r 5kpps", "'kpps'.*rps, krps, Mrps"),
    "rate NaN": (f"{URL} -r nanrps", "'nanrps'"),
    "rate of nothing": (f"{URL} -r 0rps", "0.001rps to 10Mrps"),
    "rate above any": (f"{URL} -r 1e30Mrps", "0.001rps to 10Mrps"),
    "rate negative": (f"{URL} --rate=-1rps", "'-1rps'"),
    "no requests at a time": (f"{URL} -c 0", "--concurrency"),
    "requests at a time in words": (f"{URL} -c many", "--concurrency.*valid integer"),
    "duration without a unit": (f"{URL} -r 1rps -d 10", "--duration.*unit"),
    "duration of nothing": (f"{URL} -r 1rps -d 0s", "1ms to 24h"),
    "warm-up of a year": (f"{URL} -r 1rps --warm-up 9000h", "--warm-up 9000h: out of range"),
    "time-out of nothing": (f"{URL} -r 1rps --timeout 0s", "--timeout 0s: out of range"),
    "pattern of words": (f"{URL} -r 1rps --pattern waves", "--pattern waves: accepted: constant"),
    "poisson in a closed loop": (f"{URL} -c 1 --pattern poisson", "with --rate also poisson"),
    "no connections": (f"{URL} -r 1rps --max-connections 0", "--max-connections"),
    "core 99999": (f"{URL} -r 1rps --core 99999", "--core 99999: there is no such core"),
    "core 2^70": (f"{URL} -r 1rps --core {2**70}", "--core"),
    "core -1": (f"{URL} -r 1rps --core -1", "--core -1"),
    "namespace that there is not": (f"{URL} -r 1rps --netns absent", "--netns absent: there is no"),
    "namespace of another kind": (
        f"{URL} -r 1rps --netns /proc/self/ns/mnt", "not a network namespace"
    ),
    "no URL": ("nonsense -r 1rps", "'nonsense' is not the URL of a web server"),
    "URL of nothing": ("'' -r 1rps", "'' is not the URL"),
    "URL of files": ("ftp://127.0.0.1/ -r 1rps", "is not the URL"),
    "URL with a password": ("http://u:p@127.0.0.1/ -r 1rps", "is not the URL"),
    "URL with a line break": ("'http://127.0.0.1/a\nb' -r 1rps", "is not the URL"),
    "URL with half an address": ("http://[::1/ -r 1rps", "accepted: http://HOST"),
    "port 65536": ("http://127.0.0.1:65536/ -r 1rps", "there is no such port"),
}  # fmt: skip

ROWS: Final[dict[str, Row]] = {
    **{
        f"request, {name}": Row(f"request {options}", 2, says, lines=4)
        for name, (options, says) in OPTIONS.items()
    },
    "request: over TLS": Row("request https://127.0.0.1/ -r 1rps", 3, "TLS are not supported"),
    "request: a name that there is not": Row(
        "request http://no-such-host.invalid/ -r 1rps", 1, r"no-such-host\.invalid: "
    ),
    "request: nobody listens": Row(
        ONE, 1, "no request was answered", prints=r"1 refused", lines=2
    ),
    "request: nobody listens, as JSON": Row(
        f"{ONE} --json", 1, "no request was answered", prints='"refused": 1', lines=2
    ),
    "request: hardly any descriptors": Row(
        f"{ONE} --max-connections 100000", 1, "no request was answered", prints=r"1 refused",
        limits={"nofile": 128}, lines=2,
    ),
    "request: more at a time than descriptors": Row(
        f"request {URL} -c 100 -d 100ms", 2, "100 connections at a time: this process may have 64;",
        limits={"nofile": 128},
    ),
    "request: a closed stdout": Row(ONE, 1, "isolane: error: ", stdout="closed", lines=3),
}  # fmt: skip
