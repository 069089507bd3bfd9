"""What a namespace with bridges is told of netfilter."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported
from isolane.testbed import bridge_netfilter
from isolane.testbed.bridge_netfilter import described, here, passes, settings

FOUND = {"arptables": False, "ip6tables": False, "iptables": True}


def test_it_is_as_on_the_host_unless_it_is_asked_for() -> None:
    keys = [f"bridge/bridge-nf-call-{kind}" for kind in FOUND]
    assert settings(FOUND, asked=None) == dict(zip(keys, (0, 0, 1), strict=True))
    assert set(settings(FOUND, asked=True).values()) == {1}
    assert set(settings(FOUND, asked=False).values()) == {0}


def test_a_kernel_without_it_passes_nothing_and_says_so_when_asked() -> None:
    assert settings({}, asked=None) == settings({}, asked=False) == {}
    assert not passes({}, 4, asked=None)
    with pytest.raises(NotSupported, match="modprobe br_netfilter"):
        settings({}, asked=True)


def test_whether_frames_pass_it_depends_on_their_version() -> None:
    assert [passes(FOUND, ip, asked=None) for ip in (4, 6)] == [True, False]
    assert [passes(FOUND, ip, asked=True) for ip in (4, 6)] == [True, True]
    assert [passes(FOUND, ip, asked=False) for ip in (4, 6)] == [False, False]


def test_what_the_kernel_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_netfilter, "FOLDER", tmp_path)
    assert here() == {}
    assert described(here()) == "no br_netfilter"
    for kind, text in (("arptables", "0"), ("ip6tables", "0"), ("iptables", "0")):
        (tmp_path / f"bridge-nf-call-{kind}").write_text(f"{text}\n")
    assert described(here()) == "off"
    (tmp_path / "bridge-nf-call-iptables").write_text("1\n")
    (tmp_path / "bridge-nf-call-ip6tables").write_text("1\n")
    assert here() == FOUND | {"ip6tables": True}
    assert described(here()) == "ip6tables, iptables"
