"""`isolane run` of web requests through load balancers, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from isolane.errors import NotSupported
from isolane.testbed.web_servers import refuse_lacking

from tests.live import assert_same_host, in_process, quiet_host

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: web
traffic: {mode: http, object: 2KiB}
routers:
  - {name: lb, role: victim}
  - {name: other, role: aggressor, traffic: {keep_alive: true}}
load: {lb: 200rps, other: [0rps, 400rps, 4conn]}
arms: [{name: bridge, path: bridge}, {name: direct, path: direct}]
trial: {duration: 100ms, warmup: 50ms, repeats: 2, retries: 0, cpu_profile: 97}
"""


def skip_without_servers() -> None:
    try:
        refuse_lacking(["lb"])
    except NotSupported as error:
        pytest.skip(str(error))


def test_a_run_of_web_requests_counts_each_of_them(tmp_path: Path) -> None:
    skip_without_servers()
    file, folder, before = tmp_path / "web.yaml", tmp_path / "run", quiet_host()
    file.write_text(TEXT)
    done = in_process("run", file, "--output", folder, "--details")
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert_same_host(before)
    assert "rps" in told
    assert "pps" not in told
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert len(trials) == 12, "no trial without a router, none to look for a generator's maximum"
    for trial in trials:
        assert trial["conserved"], trial
        for router in trial["routers"]:
            assert router["mode"] == "http"
            failed = router["lost"]["unanswered"]
            assert router["offered_total"] == router["received_total"] + failed
            web = router["web"]
            assert router["offered_total"] == round(router["offered_pps"] * 0.1)
            if trial["point_label"] == "other 4conn" and router["router"] == "other":
                assert web["max_in_flight"] <= 4
            if router["router"] == "lb":
                assert web["object_bytes"] == 2048
                begun = web["connections"]  # what had no turn for 2 s has failed without one
                assert router["offered_total"] - failed <= begun <= router["offered_total"]
    summary = json.loads((folder / "summary.json").read_text())
    known = [*summary["cells"], *(r for point in summary["missing"] for r in point["routers"])]
    assert {cell["mode"] for cell in known} == {"http"}
    assert not summary["null_dut"]
    assert "frames per second" not in (folder / "report.html").read_text()


SWEPT = """\
isolane: 1
name: swept
traffic: {mode: http, object: [0B, 8KiB]}
routers: [{name: lb}]
load: {lb: 8conn}
arms: [{name: native, kind: native}, {name: macvlan, path: macvlan}]
trial: {duration: 100ms, warmup: 50ms, repeats: 1, retries: 0}
"""


def test_objects_are_swept_in_a_closed_loop(tmp_path: Path) -> None:
    skip_without_servers()
    file, folder, before = tmp_path / "swept.yaml", tmp_path / "run", quiet_host()
    file.write_text(SWEPT)
    done = in_process("run", file, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_host(before)
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    found = {(t["arm"], t["point_label"]): t["routers"][0] for t in trials}
    assert len(found) == len(trials) == 4
    for (_, point), router in found.items():
        size = {"objects of 0B": 0, "objects of 8KiB": 8192}[point]
        assert router["web"]["object_bytes"] == size
        assert router["web"]["max_in_flight"] <= 8
        completed = router["received_pps"] * 0.1
        assert router["web"]["content_bps"] == pytest.approx(8 * size * completed / 0.1)
