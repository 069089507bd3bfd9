"""Commands on the policy in force: with none, with one, with one that others hold."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import policy
from tests.misuse.row import Row

LOCK: Final = "/run/isolane/lock"
POLICY_LOCK: Final = "/run/isolane/policy-{name}/lock"
NONE: Final = "no policy is in force"

SET: Final[dict[str, tuple[str, str]]] = {
    "nothing": ("gold", "Missing argument"),
    "no pair": ("gold cpu_weight", "is not of the form KEY=VALUE"),
    "a key of nothing": ("gold =5", "is not of the form KEY=VALUE"),
    "a key twice": ("gold cpu_weight=1 cpu_weight=2", "given twice"),
    "an unknown key": ("gold cpu_wieght=5", "cpu_wieght.*cpu_weight"),
    "a key that cannot be changed": ("gold netns=x", "netns"),
    "a router that there is not": ("iron cpu_weight=5", "iron.*(gold|bronze)"),
    "a router of nothing": ("'' cpu_weight=5", "router"),
    "a weight of NaN": ("gold cpu_weight=nan", "cpu_weight"),
    "a weight of .nan": ("gold cpu_weight=.nan", "cpu_weight"),
    "a weight of .inf": ("gold cpu_weight=.inf", "cpu_weight"),
    "a weight of 0": ("gold cpu_weight=0", "cpu_weight.*1 to 10000"),
    "a negative weight": ("gold cpu_weight=-3", "cpu_weight"),
    "a weight of 2^70": (f"gold cpu_weight={2**70}", "cpu_weight"),
    "a weight in Arabic digits": ("gold cpu_weight=\u0665", "cpu_weight"),
    "a weight of 5000 digits": (f"gold cpu_weight={'9' * 5000}", "cpu_weight"),
    "a weight that is a mapping": ("gold 'cpu_weight={a: b}'", "cpu_weight"),
    "a weight that is not YAML": ("gold 'cpu_weight=[1'", "cpu_weight"),
    "a weight with an anchor": ("gold 'cpu_weight=*a'", "cpu_weight"),
    "a weight with a tag": ("gold 'cpu_weight=!!python/name:os.system'", "cpu_weight"),
    "a minimum above the link": ("gold rate_min=2Gbps", "rate_min|link"),
    "a minimum above the maximum": ("gold rate_max=1Mbps", "rate_m"),
    "a maximum without a unit": ("gold rate_max=5", "rate_max.*(unit|bps)"),
    "a core that there is not": ("gold cores=1000", "there is no core 1000"),
    "a core of -1": ("gold cores=-1", "cores"),
    "an engine that there is not": ("gold forward=fpga", "forward.*xdp"),
}

ROWS: Final[dict[str, Row]] = {
    "status without a policy": Row("status", 0, prints=NONE),
    "status without a policy, as JSON": Row("status --json", 0, prints='"policy": null'),
    "status with a word": Row("status gold", 2, "unexpected extra argument"),
    "top without a policy": Row("top --once", 1, NONE),
    "top without a policy, as JSON": Row("top --once --json", 1, NONE),
    "top every NaN": Row("top -i nan", 2, "--interval|'-i'"),
    "top every inf": Row("top -i inf", 2, "--interval|'-i'"),
    "top every 0": Row("top -i 0", 2, "--interval|'-i'"),
    "top every -1": Row("top -i -1", 2, "--interval|'-i'"),
    "top every second in words": Row("top -i 1s", 2, "--interval.*valid number"),
    "profile of a router without a policy": Row("profile gold -d 0.1s", 2, "no router gold.*none"),
    "profile for 0s": Row("profile -d 0s", 2, "--duration"),
    "profile for ever": Row("profile -d inf", 2, "--duration"),
    "profile of a core that there is not": Row("profile --cores 1000", 2, "core 1000 is not online"),
    "profile of cores in words": Row("profile --cores all", 2, "'all' is no list of cores"),
    "profile of cores backwards": Row("profile --cores 1-0", 2, "'1-0' is no list of cores"),
    "profile of cores without end": Row("profile --cores 0-", 2, "'0-' is no list of cores"),
    "profile of as many cores as there are numbers": Row(
        "profile --cores 0-99999999999", 2, "core [0-9]+ is not online"
    ),
    "profile too often": Row("profile --rate 1000000", 2, "--rate"),
    "profile into a folder that is there": Row("profile -o .", 2, "is there"),
    "profile with two words": Row("profile gold silver", 2, "unexpected extra argument"),
    "clear without a policy": Row("clear", 0, NONE.replace("is", "was")),
    "clear with a word": Row("clear gold", 2, "unexpected extra argument"),
    "set in a back-end that does not run": Row(
        "set edge/vm1 weight=2", 1, "no network back-end named edge runs; running: none"
    ),
    "set in a folder of somebody else's": Row(
        "set ../../etc/passwd weight=2", 1, "no network back-end named .. runs"
    ),
    "set without a policy": Row("set gold cpu_weight=5", 1, NONE),
    "watch every 0s": Row("watch --sweep 0s", 2, "sweep|duration"),
    "watch every millisecond": Row("watch --sweep 1ms", 2, "accepted: 1s to 24h"),
    "watch every NaN": Row("watch --sweep nans", 2, "nan"),
    "watch with a word": Row("watch now", 2, "unexpected extra argument"),
    "clean with a word": Row("clean all", 2, "unexpected extra argument"),
    "clean when there is nothing": Row("clean", 0, "nothing to remove"),
    "clean during a run": Row("clean", 1, "another run is under way", lock=LOCK),
    "run during a run": Row("run good.yaml", 1, "another run is under way", lock=LOCK),
    "verify during a run": Row("verify policy.yaml", 1, "another run is under way", lock=LOCK),
    "a policy that is named by a slash": Row("status", 2, "ISOLANE_POLICY=.*accepted",
                                             env={"ISOLANE_POLICY": "../x"}),
    "a policy that is named by a space": Row("clear", 2, "ISOLANE_POLICY=.*accepted",
                                             env={"ISOLANE_POLICY": " "}),
    "a policy that is named at length": Row("apply policy.yaml", 2, "ISOLANE_POLICY=.*accepted",
                                            env={"ISOLANE_POLICY": "x" * 300}),
    "a policy that is named in unicode": Row("top", 2, "ISOLANE_POLICY=.*accepted",
                                             env={"ISOLANE_POLICY": "\u00e4"}),
    "apply, that waits for nobody": Row("apply policy.yaml --dry-run --json", 0, where="wire",
                                        prints='"waiting"'),
    "apply two policies": Row("apply policy.yaml policy.yaml", 2, "unexpected extra argument"),
    **{
        f"set {name}": Row(f"set {words}", 2, says, where="policy", lines=3)
        for name, (words, says) in SET.items()
    },
    "set while another command does": Row(
        "set gold cpu_weight=5", 1, "another command is changing the policy", where="policy",
        lock=POLICY_LOCK,
    ),
    "apply while another command does": Row(
        "apply policy.yaml", 1, "another command is changing the policy", where="policy",
        lock=POLICY_LOCK,
    ),
    "clear while another command does": Row(
        "clear", 1, "another command is changing the policy", where="policy", lock=POLICY_LOCK
    ),
    "apply again": Row("apply policy.yaml", 0, where="policy", prints="^policy edge is in force"),
    "apply a policy that is wrong over one": Row(
        "apply x.yaml", 2, "gold.cpu_weight", where="policy",
        files={"x.yaml": policy("cpu_weight: 200", "cpu_weight: 0")},
    ),
    "status of one": Row("status", 0, where="policy", prints="gold +waits"),
    "top of one": Row("top --once -i 0.1 --json", 0, where="policy", prints='"gold"'),
    "profile of one that is not": Row("profile silver -d 0.1s", 2, "no router silver.*gold",
                                      where="policy"),
    "metrics of one": Row("export prometheus --drift", 0, where="policy", prints="# EOF"),
    "status of one from elsewhere": Row("status", 1, "applied in another network namespace",
                                        where="policy", prefix=("nsenter", "--net=/run/netns/{far}")),
    "clear of one from elsewhere": Row("clear", 1, "applied in another network namespace",
                                       where="policy", prefix=("nsenter", "--net=/run/netns/{far}")),
}  # fmt: skip
