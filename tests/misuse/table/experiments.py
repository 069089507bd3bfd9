"""Experiments with values that cannot be: units, numbers that are none, what does not go together."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import GOOD, good
from tests.misuse.row import Row

WEB: Final = """\
isolane: 1
name: web
traffic: {mode: http, object: 1KiB}
routers: [{name: one, role: victim, path: direct}]
load: {one: 50rps}
"""
LOAD: Final = "{one: 5kpps, two: [2kpps, 5kpps]}"
ONE: Final = "- {name: one, role: victim}"

CHANGED: Final[dict[str, tuple[str, str, str]]] = {
    # what is changed, into what, and what the message has to say
    "version 2": ("isolane: 1", "isolane: 2", "isolane: .*accepted: 1"),
    "version as text": ("isolane: 1", "isolane: one", "isolane: .*accepted: 1"),
    "no version": ("isolane: 1\n", "", "isolane: .*missing|isolane"),
    "name with a slash": ("name: good", "name: ../x", "name: .*'../x'"),
    "name with a space": ("name: good", "name: a b", "name: .*accepted"),
    "empty name": ("name: good", "name: ''", "name: .*accepted"),
    "name in emoji": ("name: good", "name: \U0001f600", "name: .*accepted"),
    "enormous name": ("name: good", f"name: {'x' * 5000}", "name: .*accepted"),
    "name is a list": ("name: good", "name: [a]", "name: .*accepted"),
    "unknown key": ("name: good", "name: good\nnmae: x", "nmae: unknown key 'nmae'.*accepted: .*did you mean name"),
    "rate is NaN": ("one: 5kpps", "one: .nan", "load.one: "),
    "rate is infinite": ("one: 5kpps", "one: .inf", "load.one: "),
    "rate NaNpps": ("one: 5kpps", "one: NaNpps", "load.one: .*'NaNpps'"),
    "rate infpps": ("one: 5kpps", "one: infpps", "load.one: .*'infpps'"),
    "negative rate": ("one: 5kpps", "one: -5kpps", "load.one: .*'-5kpps'"),
    "rate without unit": ("one: 5kpps", "one: 5000", "load.one: .*unit"),
    "rate in millis": ("one: 5kpps", "one: 5mpps", "load.one: .*Mpps"),
    "enormous rate": ("one: 5kpps", "one: 1e300pps", "load.one: "),
    "rate of too many digits": ("one: 5kpps", f"one: {'9' * 400}pps", "load.one: "),
    "rate in Arabic digits": ("one: 5kpps", "one: \u0665kpps", "load.one: "),
    "rate in words": ("one: 5kpps", "one: fast", "load.one: .*'fast'"),
    "rate with a comma": ("one: 5kpps", "one: '5,0kpps'", "load.one: "),
    "rate is true": ("one: 5kpps", "one: yes", "load.one: "),
    "no rate": ("one: 5kpps", "one: ~", "load.one: "),
    "empty list of rates": ("[2kpps, 5kpps]", "[]", "load.two: "),
    "rates in a list of lists": ("[2kpps, 5kpps]", "[[2kpps]]", r"load.two"),
    "the same rate twice": ("[2kpps, 5kpps]", "[2kpps, 2kpps]", "load.two.*(twice|same)"),
    "load of nobody": (LOAD, "{three: 5kpps}", "load.*three"),
    "no load": (f"load: {LOAD}\n", "", "load: "),
    "load of one is missing": (LOAD, "{one: 5kpps}", "load.*two"),
    "load above the line": ("one: 5kpps", "one: 100Mpps", "load.one: .*at most"),
    "frame of 63 bytes": ("frame_size: 64", "frame_size: 63", "traffic.frame_size: .*64"),
    "frame of 1519 bytes": ("frame_size: 64", "frame_size: 1519", "traffic.frame_size: .*1518"),
    "frame of no size": ("frame_size: 64", "frame_size: -1", "traffic.frame_size: "),
    "frame of half a byte": ("frame_size: 64", "frame_size: 64.5", "traffic.frame_size: "),
    "frame of NaN": ("frame_size: 64", "frame_size: .nan", "traffic.frame_size: "),
    "frame of 2^64": ("frame_size: 64", f"frame_size: {2**64}", "traffic.frame_size: "),
    "no flows": ("flows: 2", "flows: 0", "traffic.flows: "),
    "too many flows": ("flows: 2", "flows: 100000000", "traffic.flows: "),
    "IP version 5": ("flows: 2", "flows: 2, ip: 5", "traffic.ip: .*4.*6"),
    "IPv6 in 64 bytes": ("flows: 2", "flows: 2, ip: 6", "traffic.frame_size: .*84"),
    "line rate of nothing": ("flows: 2", "flows: 2, line_rate: 0bps", "traffic.line_rate: "),
    "line rate in frames": ("flows: 2", "flows: 2, line_rate: 5kpps", "traffic.line_rate: "),
    "no routers": (GOOD[GOOD.index("routers:"):GOOD.index("load:")], "routers: []\n", "routers: "),
    "router without a name": ("{name: one, role: victim}", "{role: victim}", r"routers\[0\].*name"),
    "two of a name": ("{name: two, role", "{name: one, role", r"routers\[1\].name: .*one"),
    "name of an interface that is too long": (ONE, f"- {{name: {'a' * 40}, role: victim}}",
                                              r"routers\[0\].name: "),
    "router named by a slash": (ONE, "- {name: a/b, role: victim}", r"routers\[0\].name: "),
    "router named by two dots": (ONE, "- {name: .., role: victim}", r"routers\[0\].name: "),
    "router named as a part of the bed": (ONE, "- {name: gen, role: victim}", "gen"),
    "unknown role": ("role: victim", "role: bystander", r"routers\[0\].role: .*victim"),
    "netfilter on bridges, perhaps": ("flows: 2", "flows: 2}\ndut: {bridge_netfilter: maybe",
                                      "dut.bridge_netfilter: .*on, off"),
    "unknown kind": ("role: victim", "role: victim, kind: toaster", r"routers\[0\].kind: "),
    "unknown path": ("path: direct", "path: brigde", r"arms\[0\].path: .*bridge"),
    "count of none": ("role: victim", "role: victim, count: 0", r"routers\[0\].count: "),
    "count of a million": ("role: victim", "role: victim, count: 1000000", r"routers\[0\].count: "),
    "address of the world": ("role: victim", "role: victim, address: 0.0.0.0/0",
                             r"routers\[0\].address: "),
    "address that is multicast": ("role: victim", "role: victim, address: 224.0.0.0/24",
                                  r"routers\[0\].address: "),
    "address of the host itself": ("role: victim", "role: victim, address: 127.0.0.0/24",
                                   r"routers\[0\].address: "),
    "address with host bits": ("role: victim", "role: victim, address: 198.18.0.5/24",
                               r"routers\[0\].address: "),
    "address with a scope": ("role: victim", "role: victim, address: 'fe80::%eth0/64'",
                             r"routers\[0\].address: "),
    "weight of NaN": ("role: victim", "role: victim, policy: {cpu_weight: .nan}",
                      r"routers\[0\].policy.cpu_weight: "),
    "weight of 0": ("role: victim", "role: victim, policy: {cpu_weight: 0}",
                    r"routers\[0\].policy.cpu_weight: .*1"),
    "weight of 10001": ("role: victim", "role: victim, policy: {cpu_weight: 10001}",
                        r"routers\[0\].policy.cpu_weight: .*10000"),
    "an objective of nobody": ("trial:", 'objectives: ["nobody loss <= 1%"]\ntrial:',
                               r"objectives.*unknown router 'nobody'"),
    "an objective without a sign": ("trial:", 'objectives: ["one p99 1ms"]\ntrial:',
                                    r"objectives\[0\]: .*is not an objective"),
    "an objective of p98": ("trial:", 'objectives: ["one p98 <= 1ms"]\ntrial:',
                            r"objectives\[0\]: .*'p98' is not known"),
    "unknown mode": ("flows: 2", "flows: 2, mode: ehco", "traffic.mode: .*did you mean echo"),
    "fragments to be answered": ("role: aggressor",
                                 "role: aggressor, traffic: {mode: echo, pattern: fragments}",
                                 r"routers\[1\].traffic.pattern: .*nobody answers"),
    "unknown work": ("role: aggressor", "role: aggressor, work: busy",
                     r"routers\[1\].work: .*'busy' is not known; accepted: none, cpu, disk"),
    "a disk of a container": ("role: aggressor", "role: aggressor, work: [none, disk]",
                              r"routers\[1\].work: .*, a container: it has no disk of its own"),
    "work in a part of the window beside a victim": (
        "role: aggressor", "role: aggressor, work: [none, cpu], work_from: 10ms",
        r"routers\[1\].work_from: .* in a part of the window"),
    "a capture that is neither yes nor no": ("repeats: 1", "repeats: 1, capture: 2",
                                            "trial.capture: 2 .*accepted: true, false"),
    "times without work": ("role: aggressor", "role: aggressor, work_until: 10ms",
                           r"routers\[1\].work_until: .* has no work"),
    "a victim that is its own enemy": ("role: victim", "role: victim, work: [none, cpu]",
                                       "a victim, that is swept"),
    "unknown pattern": ("role: aggressor", "role: aggressor, traffic: {pattern: fragmets}",
                        r"routers\[1\].traffic.pattern: .*fragments"),
    "two ends of a frame": ("role: aggressor", "role: aggressor, traffic: {pattern: no-route+to-router}",
                            "no-route, to-router together"),
    "a victim without frames": ("role: victim", "role: victim, traffic: {pattern: ttl-expired}",
                                "a victim, whose frames are to come back"),
    "arms by no name": ("name: direct, path", "path", r"arms\[0\].*name"),
    "no arms": (GOOD[GOOD.index("arms:"):GOOD.index("trial:")], "arms: []\n", r"routers\[0\]: .*has no path"),
    "duration of nothing": ("duration: 50ms", "duration: 0ms", "trial.duration: "),
    "negative duration": ("duration: 50ms", "duration: -50ms", "trial.duration: "),
    "duration without a unit": ("duration: 50ms", "duration: 50", "trial.duration: .*unit"),
    "duration of infinity": ("duration: 50ms", "duration: infs", "trial.duration: "),
    "duration of a century": ("duration: 50ms", "duration: 900000h", "trial.duration: "),
    "repeats of none": ("repeats: 1", "repeats: 0", "trial.repeats: "),
    "repeats of 1.5": ("repeats: 1", "repeats: 1.5", "trial.repeats: "),
    "repeats of 10^9": ("repeats: 1", "repeats: 1000000000", "trial.repeats: "),
    "repeats as text": ("repeats: 1", "repeats: many", "trial.repeats: "),
    "negative seed": ("seed: 1", "seed: -1", "trial.seed: "),
    "enormous seed": ("seed: 1", f"seed: {10**30}", "trial.seed: "),
    "capture points as text": ("repeats: 1", "repeats: 1, capture_points: all",
                               "trial.capture_points: "),
    "a profile with too many samples": ("repeats: 1", "repeats: 1, cpu_profile: 10001",
                                        "trial.cpu_profile: .*0 to 10000"),
    "a profile as yes": ("repeats: 1", "repeats: 1, cpu_profile: true", "trial.cpu_profile: "),
    "new flows to be answered": ("role: aggressor",
                                 "role: aggressor, traffic: {mode: echo, pattern: new-flows}",
                                 r"routers\[1\].traffic.pattern: .*nobody answers"),
    "services as a number": ("role: aggressor", "role: aggressor, services: 5",
                             r"routers\[1\].services: "),
    "more rules than anybody has": ("role: aggressor", "role: aggressor, services: {nftables: 99999}",
                                    r"routers\[1\].services.nftables: .*0 to 10000"),
    "an unknown service": ("role: aggressor", "role: aggressor, services: {nta: true}",
                           r"routers\[1\].services.nta: .*nat"),
    "services of nobody": ("path: direct}", "path: direct, services: {tow: {nat: true}}}",
                           r"arms\[0\].services.tow: .*unknown router.*two"),
    "services of the host": ("path: direct}", "kind: native, services: {two: {nat: true}}}",
                             "whose kind is native"),
    "null DUT as text": ("repeats: 1", "repeats: 1, null_dut: perhaps", "trial.null_dut: "),
    "null DUT as a number": ("repeats: 1", "repeats: 1, null_dut: 1", "trial.null_dut: "),
    "trial is a list": ("trial: {duration: 50ms, warmup: 10ms, repeats: 1, seed: 1}",
                        "trial: [1]", "trial: "),
}  # fmt: skip

EXTERNAL: Final = """\
isolane: 1
name: away
routers:
  - name: away
    kind: external
    external:
      ingress: {interface: isl-nowhere, mac: "52:54:00:00:00:01", address: 192.0.2.1/24}
      egress: {interface: isl-nowhere, mac: "52:54:00:00:00:02", address: 198.51.100.1/24}
load: {away: 1kpps}
"""


def machine(keys: str) -> str:
    """An experiment of one virtual machine."""
    router = f"{{name: fw, kind: vm, path: tap, {keys}}}"
    return f"isolane: 1\nname: one\nrouters: [{router}]\nload: {{fw: 1kpps}}\n"


ROWS: Final[dict[str, Row]] = {
    **{
        name: Row(
            "run x.yaml --on sim", 2, says,
            files={"x.yaml": good(old, new)}, lines=6,
        )
        for name, (old, new, says) in CHANGED.items()
    },
    "repeats on the command line: 0": Row("run good.yaml --repeats 0", 2, "--repeats.*greater than or equal to 1"),
    "samples beyond what a core has time for": Row("run good.yaml --cpu-profile 10001", 2, "--cpu-profile.*10000"),
    "samples of a simulated host": Row("run good.yaml --on sim --cpu-profile 99", 2, "real cores; leave out --on sim"),
    "samples as a word": Row("run good.yaml --cpu-profile often", 2, "--cpu-profile.*valid integer"),
    "repeats on the command line: NaN": Row("run good.yaml --repeats nan", 2, "--repeats.*valid integer"),
    "repeats on the command line: 2^70": Row(f"run good.yaml --repeats {2**70}", 2, "--repeats"),
    "an objective that is missed": Row(
        "run x.yaml --on sim --repeats 2 -o missed", 4, "1 of 1 objectives missed",
        files={"x.yaml": good("trial:", 'objectives: ["one p50 <= 1ns"]\ntrial:')},
        prints="missed: one p50 <= 1ns on direct", lines=9, leaves=("missed*",),
    ),
    "a simulated host is to answer": Row(
        "run x.yaml --on sim", 3, "mode echo cannot be simulated with profile rathore2013",
        files={"x.yaml": good("flows: 2", "flows: 2, mode: echo")},
    ),
    "a simulated kernel is to answer": Row(
        "run x.yaml --on sim", 3, "does not have cost icmp-answer",
        files={"x.yaml": good("flows: 2", "flows: 2, mode: icmp-echo")},
    ),
    "a simulated host is sent fragments": Row(
        "run x.yaml --on sim", 3, "pattern fragments cannot be simulated",
        files={"x.yaml": good("role: aggressor", "role: aggressor, traffic: {pattern: fragments}")},
    ),
    "frames a second of a machine that shares a link": Row(
        "run x.yaml", 2, "rate_max of router 'fw', a virtual machine on path bridge, in frames per second",
        files={"x.yaml": machine("policy: {rate_max: 5kpps}").replace("path: tap", "path: bridge")},
    ),
    "a share of a link that a machine has to itself": Row(
        "run x.yaml", 2, "link_weight of router 'fw', a virtual machine on path tap",
        files={"x.yaml": machine("policy: {link_weight: 2}")},
    ),
    "a cap on the kernel thread that forwards": Row(
        "run x.yaml", 2, "cpu_max of router 'fw', on path direct; accepted: cpu_weight, cores",
        files={"x.yaml": machine("policy: {cpu_max: 20%}").replace("vm, path: tap", "container, path: direct")},
    ),
    "a simulated host caps a machine": Row(
        "run x.yaml --on sim", 3, "cpu_max of a virtual machine cannot be simulated",
        files={"x.yaml": machine("policy: {cpu_max: 20%}")},
    ),
    "a simulated host shares out a link among machines on a bridge": Row(
        "run x.yaml --on sim", 3, "link_weight on path bridge cannot be simulated",
        files={"x.yaml": machine("policy: {link_weight: 2}").replace("path: tap", "path: bridge")},
    ),
    "a simulated host has rules": Row(
        "run x.yaml --on sim", 3, r"services \(nftables 5, nat\) cannot be simulated .* cost conntrack, cost nat, cost nft-rule",
        files={"x.yaml": good("role: aggressor",
                              "role: aggressor, services: {nftables: 5, nat: true}")},
    ),
    "on a toaster": Row("run good.yaml --on toaster", 2, "'toaster' is not one of"),
    "a profile, but live": Row("run good.yaml --profile rathore2013", 2, "add --on sim"),
    "a profile that there is not": Row(
        "run good.yaml --on sim --profile none-such", 2, "profile 'none-such' is not known; accepted: .*veth"
    ),
    "neither file nor folder": Row("run", 2, "give either an EXPERIMENT file or --resume"),
    "an arm that there is not": Row("run good.yaml --arms nowhere", 2, "--arms: no arm 'nowhere'"),
    "arms of a run that goes on": Row("run --resume {run} --arms a", 2, "belongs to the beginning"),
    "both file and folder": Row("run good.yaml --resume {run}", 2, "give either an EXPERIMENT"),
    "two experiments": Row("run good.yaml policy.yaml", 2, "unexpected extra argument"),
    "more than this host has cores": Row(
        "run x.yaml", 3, "cores", files={"x.yaml": good("load:", "dut: {cores: 500}\nload:")}, lines=3
    ),
    "an external router, live, on an interface that there is not": Row(
        "run x.yaml", 2, "isl-nowhere: there is no such interface", files={"x.yaml": EXTERNAL},
    ),
    "an external router, simulated": Row(
        "run x.yaml --on sim", 3, "external router away cannot be simulated",
        files={"x.yaml": EXTERNAL},
    ),
    "an external router without addresses": Row(
        "run x.yaml", 2, r"routers\[0\]: external router 'away' has no addresses",
        files={"x.yaml": EXTERNAL[:EXTERNAL.index("    external:")] + EXTERNAL[EXTERNAL.index("load:"):]},
    ),
    "an image that there is not": Row(
        "run x.yaml", 2, "image nowhere.qcow2: No such file or directory",
        files={"x.yaml": machine("image: nowhere.qcow2")},
    ),
    "an image that is none": Row(
        "run x.yaml", 2, "image x.yaml: not in format qcow2; accepted: qemu-img convert",
        files={"x.yaml": machine("image: x.yaml")},
    ),
    "an image under User-Mode Linux": Row(
        "run x.yaml", 2, r"routers\[0\].image: .*hypervisor kvm, tcg|hypervisor kvm or tcg",
        files={"x.yaml": machine("image: a.qcow2, hypervisor: uml")},
    ),
    "more memory than any host has": Row(
        "run x.yaml", 3, "1 guests? needs? .* MiB of memory, and .* are free",
        files={"x.yaml": machine("memory: 64GB, hypervisor: uml")},
    ),
    "a scheduler where nobody schedules": Row(
        "run x.yaml", 2, "scheduler of arm 'direct', in which no router has path netback",
        files={"x.yaml": good("path: direct}", "path: direct, scheduler: drr}")},
    ),
    "an early drop where nothing arrives for guests": Row(
        "run x.yaml", 2, "early_drop of arm 'direct', in which no router has path netback",
        files={"x.yaml": good("path: direct}", "path: direct, early_drop: socket}")},
    ),
    "netfilter on no bridge": Row(
        "run x.yaml", 2, "bridge_netfilter of arm 'direct', in which no router has path bridge",
        files={"x.yaml": good("path: direct}", "path: direct, bridge_netfilter: off}")},
    ),
    "netfilter on a simulated bridge": Row(
        "run x.yaml --on sim", 3,
        "one: bridge_netfilter cannot be simulated with profile rathore2013.*--profile veth",
        files={"x.yaml": good("path: direct}", "path: bridge, bridge_netfilter: on}")},
    ),
    "requests of a router that is sent frames": Row(
        "run x.yaml", 2, "load 50rps of 'one', which is sent frames; accepted: .*traffic.mode: http",
        files={"x.yaml": good("one: 5kpps", "one: 50rps")},
    ),
    "web requests on a simulated host": Row(
        "run x.yaml --on sim", 3, "router one: mode http cannot be simulated",
        files={"x.yaml": WEB},
    ),
    "a search for a rate of web requests": Row(
        "search x.yaml", 2, "router one: with mode http .*a search looks for a rate of frames",
        files={"x.yaml": WEB},
    ),
    "a web object without a unit": Row(
        "run x.yaml", 2, "traffic.object: 1024 has no unit; accepted: .*1KiB",
        files={"x.yaml": WEB.replace("object: 1KiB", "object: 1024")},
    ),
    "a load balancer's configuration that is not there": Row(
        "run x.yaml", 2, "haproxy of router one: none.cfg: No such file",
        files={"x.yaml": WEB.replace("path: direct", "path: direct, haproxy: none.cfg")},
    ),
    "a load balancer in a virtual machine": Row(
        "run x.yaml", 2, "vm 'one' on path tap with mode http",
        files={"x.yaml": WEB.replace("path: direct", "kind: vm, path: tap")},
    ),
    "a rate of no link": Row(
        "run x.yaml", 2, "uplink_rate of arm 'direct', in which no router has path netback",
        files={"x.yaml": good("path: direct}", "path: direct, uplink_rate: 1Gbps}")},
    ),
    "a burst of no rate": Row(
        "run x.yaml", 2, "uplink_burst of arm 'direct' without uplink_rate",
        files={"x.yaml": good("path: direct}", "path: netback, kind: vm, uplink_burst: 20ms}")},
    ),
    "a time at which a window is over": Row(
        "run x.yaml", 2, "pattern from 2s of 'one' with a window of",
        files={"x.yaml": good("name: one, role: victim", "name: one, traffic: {pattern: from 2s}")},
    ),
    "a share that its scheduler ignores": Row(
        "run x.yaml", 2, "link_weight of router 'one', on path netback with scheduler fifo",
        files={"x.yaml": good("path: direct}", "path: netback, kind: vm, scheduler: fifo,"
                              " policy: {one: {link_weight: 2}}}")},
    ),
    "a scheduler that there is not": Row(
        "run x.yaml", 2, "scheduler 'cfs' is not known",
        files={"x.yaml": good("path: direct}", "path: netback, kind: vm, scheduler: cfs}")},
    ),
    "a network back-end for translated code, simulated": Row(
        "run x.yaml --on sim", 3, "hypervisor tcg cannot be simulated, only kvm .*uml on path netback",
        files={"x.yaml": good("path: direct}", "path: netback, kind: vm, hypervisor: tcg}")},
    ),
    "a NIC that no network back-end has": Row(
        "run x.yaml", 2, "NIC model 'e1000' with path 'netback'",
        files={"x.yaml": good("path: direct}", "path: netback, kind: vm, nic: e1000}")},
    ),
    "a machine, live": Row(
        "run x.yaml", 3, "(cannot run|live|--on sim)", lines=5,
        files={"x.yaml": good("role: victim", "role: victim, kind: vm, path: sriov-passthrough")
               .replace("{name: direct, path: direct}", "{name: as-it-is}")
               .replace("role: aggressor}", "role: aggressor, path: direct}")},
    ),
}  # fmt: skip
