from __future__ import annotations

import json
import subprocess
import sys

import pytest

from isolane.cli.test_app import isolane
from isolane.doctor.answers import STATUSES
from isolane.doctor.capabilities import CAPABILITIES


@pytest.fixture(scope="module")
def examined() -> subprocess.CompletedProcess[str]:
    return isolane("doctor", "--json", "--require", "measure")


def test_json_has_every_capability_once(examined: subprocess.CompletedProcess[str]) -> None:
    findings = json.loads(examined.stdout)["findings"]
    names = [finding["id"] for finding in findings]
    assert len(names) == len(set(names))
    assert {name.partition(":")[0] for name in names} == set(CAPABILITIES)
    assert all(finding["status"] in STATUSES for finding in findings)
    assert all(finding["detail"] and finding["remedy"] for finding in findings)


def test_a_lack_is_named_and_gives_exit_3(examined: subprocess.CompletedProcess[str]) -> None:
    assert (examined.returncode == 3) == ("isolane: measure needs" in examined.stderr)
    assert examined.returncode in {0, 3}


def test_an_unknown_job_is_a_usage_error() -> None:
    shown = isolane("doctor", "--require", "everything")
    assert shown.returncode == 2
    assert "measure, enforce, vm" in shown.stderr


def test_without_rights_it_still_answers_and_measuring_is_refused() -> None:
    # As an ordinary user in a process of its own: rights once given up do not come back.
    code = """
import os
from isolane.doctor import examine, lacking, require
from isolane.doctor.capabilities import REQUIREMENTS
from isolane.errors import NotSupported
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
findings = examine(REQUIREMENTS["measure"])
print(*(f"{lack.id}={lack.status}" for lack in lacking("measure", findings)))
try:
    require("measure")
except NotSupported as error:
    print(error)
"""
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert "root=no" in shown.stdout.split()
    assert "netns=unknown" in shown.stdout.split()
    assert "this host cannot measure:\n  Root: no (running as user" in shown.stdout
