"""The facts of a report."""

from __future__ import annotations

from isolane.report import fact_lists
from isolane.report.test_data import HOST


def test_netfilter_on_bridges_is_told_where_it_is_known() -> None:
    assert ("Netfilter on bridges", "ip6tables, iptables") in fact_lists.host(HOST)
    older = HOST.model_copy(update={"bridge_netfilter": None})
    assert len(fact_lists.host(older)) == len(fact_lists.host(HOST)) - 1
