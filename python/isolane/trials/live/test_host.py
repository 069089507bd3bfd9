"""Facts about a host that a run folder keeps, whatever its tools do."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.trials.live import host


def test_a_tool_that_does_not_answer_has_an_unknown_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool, does in (("clang", "echo clang 14; exec sleep 600"), ("ip", "echo ip 6.1")):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "ethtool").write_text("no program")
    (tmp_path / "ethtool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(host, "TOOL_LIMIT_S", 0.1)
    found = host.host_facts().versions
    assert found["clang"] == "unknown"
    assert found["ethtool"] == "unknown"
    assert found["ip"] in ("ip 6.1", "unknown"), "it may not get its turn in so short a time"


def test_an_interface_of_which_nothing_is_told_has_no_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("ethtool", "nsenter"):
        (tmp_path / tool).write_text("#!/bin/sh\nexec sleep 600\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(host, "TOOL_LIMIT_S", 0.1)
    found = host.nic_facts("/run/netns/x", "isl0")
    assert (found["driver"], found["offloads"]) == ("unknown", "unknown")
