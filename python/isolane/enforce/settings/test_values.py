from __future__ import annotations

import json

import pytest

from isolane._native import CpuBudget, PortSettings, QueueSettings, RateLimits, TokenBucket
from isolane.enforce.htb import ClassSettings
from isolane.enforce.settings.link_classes import class_settings
from isolane.enforce.settings.values import cpu_budget, plain, port_settings, queue_settings

LIMITS = RateLimits(
    frames=TokenBucket(rate=1000, depth=10), bits=TokenBucket(rate=10**9, depth=10**7)
)
QUEUE = QueueSettings(
    limit=64, burst_limit=240, xdp=True, counted=True, budget=None, ingress=LIMITS
)
PORT = PortSettings(uplink=3, class_id=0x15A0010, egress=LIMITS)


def test_records_become_json_and_records_again() -> None:
    assert queue_settings(json.loads(json.dumps(plain(QUEUE)))) == QUEUE
    assert port_settings(json.loads(json.dumps(plain(PORT)))) == PORT
    assert plain(PORT)["egress"]["frames"] == {"rate": 1000, "depth": 10}


def test_lists_of_earlier_versions_are_read() -> None:
    limits = [[1000, 10], [10**9, 10**7]]
    assert queue_settings([64, 240, True, True, None, limits]) == QUEUE
    assert port_settings([3, 0x15A0010, limits]) == PORT
    assert cpu_budget([500, 5]) == CpuBudget(rate_ns=500, depth_ns=5, weight=0)
    assert class_settings([1, 2, 3, 4, 5]) == ClassSettings(1, 2, 3, 4, 5)


def test_a_list_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        cpu_budget([1, 2, 3, 4])
