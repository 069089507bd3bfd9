"""`isolane run` of web requests through load balancers, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from isolane.errors import NotSupported
from isolane.run.answer_words import LATE_ANSWERS
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
load: {lb: 200rps, other: [0rps, 400rps]}
arms: [{name: bridge, path: bridge}, {name: direct, path: direct}]
trial: {duration: 100ms, warmup: 50ms, repeats: 2, retries: 0, cpu_profile: 97}
"""


def test_a_run_of_web_requests_counts_each_of_them(tmp_path: Path) -> None:
    try:
        refuse_lacking(["lb"])
    except NotSupported as error:
        pytest.skip(str(error))
    file, folder, before = tmp_path / "web.yaml", tmp_path / "run", quiet_host()
    file.write_text(TEXT)
    done = in_process("run", file, "--output", folder, "--details")
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert_same_host(before)
    assert "rps" in told
    assert "pps" not in told
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert len(trials) == 8, "no trial without a router, none to look for a generator's maximum"
    for trial in trials:
        assert trial["conserved"], trial
        for router in trial["routers"]:
            assert router["mode"] == "http"
            assert (
                router["offered_total"] == router["received_total"] + router["lost"]["unanswered"]
            )
            web = router["web"]
            assert web["object_bytes"] == 2048
            assert router["offered_total"] == round(router["offered_pps"] * 0.1)
            if router["router"] == "lb":
                assert web["connections"] == router["offered_total"]
    summary = json.loads((folder / "summary.json").read_text())
    assert {cell["mode"] for cell in summary["cells"]} == {"http"}
    assert not summary["null_dut"]
    assert summary["answer"]["use"] is None
    assert LATE_ANSWERS in summary["answer"]["sentences"]
    page = (folder / "report.html").read_text()
    assert "requests per second" in page
    assert "frames per second" not in page
