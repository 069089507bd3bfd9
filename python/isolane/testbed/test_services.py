"""The rules of a router's services, as text, and what its connection tracking tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported, TestbedError
from isolane.spec.services_models import MAX_RULES, Services
from isolane.testbed import services
from isolane.testbed.services import refused, ruleset

STATISTICS = """\
entries  found new invalid insert insert_failed drop early_drop
00000000  00000000 00000000 00000001 00000000 0000000a 00000002 00000000
00000000  00000000 00000000 00000000 00000000 00000010 00000003 00000000
"""


def test_a_host_without_nft_is_told_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    services.refuse_lacking([])
    with pytest.raises(NotSupported, match=r"router a, b: there is no nft\(8\).*package nftables"):
        services.refuse_lacking(["a", "b", "a"])
    program = tmp_path / "nft"
    program.touch(0o755)
    services.refuse_lacking(["a"])


def test_a_kernel_without_the_counts_of_its_tracking_is_not_supported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(services, "TRACKING", str(tmp_path / "nf_conntrack"))
    with pytest.raises(NotSupported, match="CONFIG_NF_CONNTRACK_PROCFS"):
        services.open_tracking()


@pytest.mark.parametrize(("ip", "match"), [(4, " ip daddr 203.0.113."), (6, "ip6 daddr 2001:db8:")])
def test_as_many_rules_as_asked_for_and_none_matches_a_frame_of_a_test_bed(
    ip: int, match: str
) -> None:
    for number in (1, 300, MAX_RULES):
        text = ruleset(Services(nftables=number), ip, "out0")
        assert text.count(f"{match}") == number == text.count(" drop\n")
        assert "ct state" not in text
        assert "nat" not in text


def test_what_tracks_and_what_translates() -> None:
    tracking = ruleset(Services(conntrack=True), 4, "out0")
    assert tracking.count("ct state") == 1
    assert "masquerade" not in tracking
    translating = ruleset(Services(nat=True), 4, "out0")
    assert translating.count("ct state") == 1
    assert '  oifname "out0" masquerade\n' in translating


def test_what_the_table_of_flows_refused_is_summed_over_the_cores() -> None:
    assert refused(STATISTICS) == 0x1A


def test_a_kernel_that_does_not_tell_is_named() -> None:
    with pytest.raises(TestbedError, match="what connection tracking refused"):
        refused("entries found\n0 0\n")
