"""What others have named is printed so that no terminal obeys it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from isolane.cli import apply, enforcing, rights, status, watch
from isolane.cli.printable import printable
from isolane.enforce import Drift, Enforcer, InForce, MissingRouter, Outcome, router_watcher
from isolane.enforce.router_status import RouterStatus
from isolane.spec.policy import parse_policy

EVIL = "eth\x1b[2J\udcff"
"""An interface's name, as a container may choose it: it clears the screen, and is no UTF-8."""
TOLD = r"eth\x1b[2J\udcff"
POLICY = "isolane: 1\nname: p\nnics: {nic0: {rate: 1Gbps}}\nrouters: {vr1: {netns: vr1}}\n"
WAITS = MissingRouter("vr1", f"{EVIL} is gone")


@pytest.fixture(autouse=True)
def _with_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "lacking", lambda *_: [])
    monkeypatch.setattr(rights, "in_user_namespace", lambda: False)


def test_control_characters_and_bytes_are_escaped_and_nothing_else() -> None:
    assert printable(f"{EVIL} ü\n") == f"{TOLD} ü\n"


def test_changes_notes_and_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome((f"{EVIL}: set",), 0, (WAITS,), (f"{EVIL} is lost",))
    enforcing.print_outcome("p", outcome, as_json=False, verbose=False)
    told = capsys.readouterr()
    assert told.out.splitlines()[1:] == [f"  {TOLD}: set", f"vr1 waits: {TOLD} is gone"]
    assert told.err == f"isolane: {TOLD} is lost\n"


def test_who_would_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(POLICY)
    monkeypatch.setattr(Enforcer, "examine", lambda *_: (WAITS,))
    apply.command(file, dry_run=True)
    assert capsys.readouterr().out == f"vr1 would wait: {TOLD} is gone\n"


def test_drifts_and_states(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drift = (Drift(f"{EVIL}: offload tx", wanted=False, found=True, router="vr1"),)
    shown = (RouterStatus("vr1", present=False, reason=WAITS.reason),)
    found = InForce(parse_policy(POLICY), "today", (WAITS,), drift, 1, shown, (f"{EVIL}: lost",))
    monkeypatch.setattr(Enforcer, "status", lambda _: found)
    with pytest.raises(typer.Exit):
        status.command()
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count(TOLD) == 3


def test_what_is_watched(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fake:
        def __init__(self, _enforcer: Enforcer, say: Callable[[str], None], **_: float) -> None:
            self.say = say

        def run(self) -> None:
            self.say(f"{EVIL} is there")

    monkeypatch.setattr(router_watcher, "Watcher", Fake)
    watch.command()
    assert capsys.readouterr().err == f"{TOLD} is there\n"
