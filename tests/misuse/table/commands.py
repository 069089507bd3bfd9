"""The command line itself, and commands that need nothing but words."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import netback
from tests.misuse.row import Made, Row

ROWS: Final[dict[str, Row]] = {
    "unknown command": Row("obliterate", 2, "No such command 'obliterate'"),
    "a command in capitals": Row("RUN", 2, "No such command 'RUN'"),
    "a command of nothing": Row("''", 2, "No such command ''"),
    "a command in unicode": Row("\u0440un", 2, "No such command"),
    "unknown option": Row("--obliterate", 2, "No such option: --obliterate"),
    "version with a word": Row("version now", 2, "unexpected extra argument"),
    "version of everything": Row("version --all", 0, prints="kernel"),
    "schema of a toaster": Row("schema toaster", 2, "'toaster' is not one of"),
    "schema twice": Row("schema policy experiment", 2, "unexpected extra argument"),
    "schema into a folder": Row("schema -o .", 1, "Is a directory|is a directory"),
    "schema into a folder that there is not": Row("schema -o a/b", 1, "cannot be written: there is no directory a"),
    "schema into a file of another": Row(
        "schema -o x/y", 1, "[Nn]ot a directory", files={"x": "theirs"}
    ),
    "schema into a dangling link": Row(
        "schema -o x", 1, "x: .*(link|[Nn]o such file)", files={"x": Made("dangling")}
    ),
    "doctor for a toaster": Row("doctor --require toast", 2, "toast"),
    "doctor for nothing": Row("doctor --require ''", 2, "''|accepted"),
    "doctor with a word": Row("doctor all", 2, "unexpected extra argument"),
    "guest-kernel with a word": Row("guest-kernel now", 2, "unexpected extra argument"),
    "guest-kernel where there is no Debian": Row(
        "guest-kernel --renew", 3, "there is no apt-get", fresh=True, env={"PATH": ""}
    ),
    "netback of nothing": Row("netback", 2, "Missing argument", lines=4),
    "netback does what there is not": Row("netback stop", 2, "'stop' is not one of"),
    "netback starts nothing": Row("netback start", 2, "name the file"),
    "netback starts what there is not": Row("netback start absent.yaml", 2, "absent.yaml: no such file"),
    "netback starts an experiment": Row("netback start good.yaml", 2, "uplinks", lines=9),
    "netback starts once": Row("netback start x.yaml --once", 2, "belong to `isolane netback top`"),
    "netback status each second": Row("netback status -i 1", 2, "belong to `isolane netback top`"),
    "netback top of nothing": Row("netback top --once", 1, "no network back-end runs; first run"),
    "netback top of what does not run": Row(
        "netback top absent", 1, "no network back-end named absent runs"
    ),
    "netback top too often": Row("netback top -i 0.01", 2, "greater than or equal to 0.1"),
    "netback starts in JSON": Row("netback start x.yaml --json", 2, "--json belongs to"),
    "netback without its uplink": Row(
        "netback start nb.yaml", 1, "uplink w7: no such interface here; there are ",
        files={"nb.yaml": netback("w0", "w7")}, where="wire",
    ),
    "netback with an uplink that is nobody's": Row(
        "netback start nb.yaml", 2, "uplink 'w8' is not there; accepted: w0",
        files={"nb.yaml": netback('mac: "02:00:00:00:00:01"', 'mac: "02:00:00:00:00:01", uplink: w8')},
    ),
    "netback with one address twice": Row(
        "netback start nb.yaml", 2, "port 'two' has the address of 'one'",
        files={"nb.yaml": netback("00:02", "00:01")},
    ),
    "netback with a key of no use": Row(
        "netback start nb.yaml", 2, "scheduler drr does not look at priority; accepted: weight",
        files={"nb.yaml": netback("weight: 2", "priority: 2")},
    ),
    "netback with an address of many": Row(
        "netback start nb.yaml", 2, "nobody's address",
        files={"nb.yaml": netback("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff")},
    ),
    "netback with a VLAN that there is not": Row(
        "netback start nb.yaml", 2, "ports.one.vlan: 4095 is out of range; accepted: 1 to 4094",
        files={"nb.yaml": netback("weight: 2", "weight: 2, vlan: 4095")},
    ),
    "netback with a link of frames": Row(
        "netback start nb.yaml", 2, "uplinks.w0.rate: .*accepted: a number with a unit .bps",
        files={"nb.yaml": netback("scheduler: drr", "scheduler: drr, rate: 10kpps")},
    ),
    "netback with a scheduler that there is not": Row(
        "netback start nb.yaml", 2, r"scheduler 'drrr' is not known; .*did you mean drr\?",
        files={"nb.yaml": netback("drr", "drrr")},
    ),
    "netback that drops where nobody can": Row(
        "netback start nb.yaml", 2,
        r"uplinks.w0.early_drop: early_drop 'diver' is not known; .*did you mean driver\?",
        files={"nb.yaml": netback("scheduler: drr", "scheduler: drr, early_drop: diver")},
    ),
    "netback that receives as nobody can": Row(
        "netback start nb.yaml", 2,
        r"uplinks.w0.receive: receive 'pocket' is not known; .*did you mean packet\?",
        files={"nb.yaml": netback("scheduler: drr", "scheduler: drr, receive: pocket")},
    ),
    "netback on a core that there is not": Row(
        "netback start nb.yaml", 3, "there is no core 1023",
        files={"nb.yaml": netback("name: misuse", "name: misuse\ncore: 1023")}, where="wire",
    ),
    "netback status of what does not run": Row(
        "netback status absent", 1, "no network back-end named absent runs"
    ),
    "netback status of a path": Row("netback status ../../etc", 1, "no network back-end named"),
    "reproduce nothing": Row("reproduce", 2, "Missing argument"),
    "reproduce a paper that there is not": Row("reproduce einstein1905", 2, "einstein1905"),
    "reproduce a path": Row("reproduce ../../etc/passwd", 2, "etc/passwd"),
    "reproduce a paper of nothing": Row("reproduce ''", 2, "rathore2013"),
    "reproduce a figure that there is not": Row("reproduce ahn --figure 99", 2, "99"),
    "reproduce a figure of a paper that is left out": Row(
        "reproduce oliveira2024 --figure 9", 2, "has no figure '9'"
    ),
    "reproduce with a profile that lacks a cost": Row(
        "reproduce oliveira2024 --figure 5 --profile veth", 2, "cost 'ping' is missing"
    ),
    "reproduce figure NaN": Row("reproduce ahn --figure nan", 2, "nan"),
    "reproduce figure of nothing": Row("reproduce ahn --figure ''", 2, "figure"),
    "reproduce with seed -1": Row("reproduce ahn --seed -1", 2, "--seed"),
    "reproduce with seed 2^70": Row(f"reproduce ahn --figure 1 --seed {2**70}", 2, "seed"),
    "reproduce with 0 processes": Row("reproduce ahn --jobs 0", 2, "--jobs"),
    "reproduce with 10^9 processes": Row(
        "reproduce ahn --figure 1 --jobs 1000000000", 0, "simulations of ahn", lines=9
    ),
    "reproduce with a profile that there is not": Row(
        "reproduce ahn --profile ./absent.yaml", 2, "absent.yaml: no such file"
    ),
    "reproduce beside a run that there is not": Row(
        "reproduce adamczyk2012 --live ./absent", 2, "absent: there is no such run folder"
    ),
    "reproduce beside a folder that is no run": Row(
        "reproduce adamczyk2012 --live .", 2, "this is not the folder of a run"
    ),
    "reproduce a paper beside a run of another": Row(
        "reproduce ahn --live .", 2, "runs cannot stand beside ahn; accepted: adamczyk2012"
    ),
    "reproduce into a folder": Row("reproduce ahn -o .", 1, "is a directory"),
    "reproduce into a folder that there is not": Row(
        "reproduce ahn -o a/b.html", 1, "there is no directory a"
    ),
    "calibrate nothing": Row("calibrate -o x.yaml", 2, "Missing argument"),
    "calibrate into nothing": Row("calibrate {run}", 2, "Missing option '--output'"),
    "calibrate what there is not": Row("calibrate absent -o x.yaml", 2, "absent"),
    "calibrate a file": Row("calibrate good.yaml -o x.yaml", 2, "good.yaml"),
    "calibrate trials in words": Row("calibrate {run} -o x.yaml --trials all", 2, "--trials all"),
    "calibrate trials of nothing": Row("calibrate {run} -o x.yaml --trials ''", 2, "--trials"),
    "calibrate trials with a minus": Row("calibrate {run} -o x --trials=-1", 2, "--trials -1"),
    "calibrate trials in superscript": Row("calibrate {run} -o x --trials \u00b2", 2, "--trials"),
    "calibrate trials of 5000 digits": Row(
        f"calibrate {{run}} -o x --trials {'9' * 5000}", 2, "--trials"
    ),
    "calibrate rounds 0": Row("calibrate ahn -o x.yaml --rounds 0", 2, "--rounds"),
    "calibrate starts -1": Row("calibrate ahn -o x.yaml --starts -1", 2, "--starts"),
    "calibrate scale NaN": Row("calibrate ahn -o x.yaml --scale nan", 2, "--scale"),
    "calibrate scale inf": Row("calibrate ahn -o x.yaml --scale inf", 2, "--scale"),
    "calibrate scale 0": Row("calibrate ahn -o x.yaml --scale 0", 2, "--scale"),
    "calibrate seed 2^70": Row(f"calibrate ahn -o x.yaml --seed {2**70}", 2, "seed"),
    "calibrate with a part that there is not": Row(
        "calibrate ahn -o x.yaml --hold-out 'figure 99'", 2, "figure 99"
    ),
    "calibrate with a part of nothing": Row("calibrate ahn -o x.yaml --hold-out ''", 2, "hold-out"),
    "calibrate with a part of a run": Row(
        "calibrate {run} -o x.yaml --hold-out 'figures 7 and 8'", 2, "hold-out|paper"
    ),
    "calibrate into a folder": Row("calibrate ahn -o . --rounds 1", 1, "is a directory"),
    "calibrate from a profile of nothing": Row("calibrate ahn -o x --profile ''", 2, "profile"),
    "calibrate adamczyk2012": Row("calibrate adamczyk2012 -o x.yaml", 2, "adamczyk2012"),
    "calibrate oliveira2024": Row("calibrate oliveira2024 -o x.yaml", 2, "oliveira2024"),
    "export for nobody": Row("export", 2, "Missing argument", lines=4),
    "export for a toaster": Row("export toaster", 2, "'toaster' is not one of"),
    "export grafana into a folder": Row("export grafana -o .", 1, "is a directory|Is a directory"),
    "export grafana and listen": Row("export grafana --listen 127.0.0.1:1", 2, "--listen belongs"),
    "export systemd into a file": Row(
        "export systemd -o x", 1, "[Nn]ot a directory", files={"x": "theirs"}
    ),
    "export systemd into a folder that there is not": Row(
        "export systemd -o a/b", 1, "there is no directory a/b"
    ),
    "export systemd, how often": Row("export systemd --every 1s", 2, "--every"),
    "export prometheus into --output": Row("export prometheus -o x", 2, "use --textfile"),
    "export prometheus twice": Row(
        "export prometheus --listen 127.0.0.1:1 --textfile x", 2, "name one of them"
    ),
    "export prometheus every time, but where": Row("export prometheus --every 1s", 2, "--textfile"),
    "export every 0s": Row("export prometheus --textfile x --every 0s", 2, "every|0s"),
    "export every -1s": Row("export prometheus --textfile x --every=-1s", 2, "-1s"),
    "export every NaN": Row("export prometheus --textfile x --every nans", 2, "nan"),
    "export every 1ns": Row("export prometheus --textfile x --every 1ns", 2, "every"),
    "listen to everybody": Row("export prometheus --listen 0.0.0.0:9816", 2, "loopback"),
    "listen to everybody, IPv6": Row("export prometheus --listen [::]:9816", 2, "loopback"),
    "listen to the world": Row("export prometheus --listen 192.0.2.1:9816", 2, "loopback"),
    "listen to a name": Row("export prometheus --listen example.org:1", 2, "example.org"),
    "listen without a port": Row("export prometheus --listen 127.0.0.1", 2, "127.0.0.1"),
    "listen to port 70000": Row("export prometheus --listen 127.0.0.1:70000", 2, "70000"),
    "listen to port -1": Row("export prometheus --listen 127.0.0.1:-1", 2, "-1"),
    "listen to port in words": Row("export prometheus --listen 127.0.0.1:http", 2, "http"),
    "listen to IPv6 without brackets": Row("export prometheus --listen ::1:9816", 2, "::1"),
    "listen to a mapped address": Row("export prometheus --listen [::ffff:192.0.2.1]:1", 2, "loop"),
    "textfile in a folder that there is not": Row("export prometheus --textfile a/b", 1, "a/b"),
    "textfile that is a folder": Row("export prometheus --textfile .", 1, "directory"),
}  # fmt: skip
