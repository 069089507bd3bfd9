"""Load balancers of a test bed, live: requests go through HAProxy in a router, and come back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from isolane.enforce.find.conftest import wait_for
from isolane.errors import MeasurementError, NotSupported, TestbedError
from isolane.spec.units import MAX_CONNECTIONS
from isolane.testbed import BedPlan, RouterPlan, Testbed, WebPlan, Wire
from isolane.testbed.web_servers import HTTP_PORT, at, path_of, refuse_lacking
from isolane.web.requesting import Requesting, RequestPlan
from isolane.web.url import Url

pytestmark = [pytest.mark.root, pytest.mark.native]
REQUESTS = 40
MINUTES_NS = 300_000_000_000


@pytest.fixture(autouse=True)
def needs_servers() -> None:
    try:
        refuse_lacking(["lb"])
    except NotSupported as error:
        pytest.skip(str(error))


def bed_plan(path: str, routers: int, ip: int, web: WebPlan, receive: str = "softirq") -> BedPlan:
    measure, dut = sorted(os.sched_getaffinity(0))[:2]
    kind = "native" if path == "none" else "container"
    return BedPlan(
        tuple(
            RouterPlan(f"lb-{i}", kind, path, None, mode="http", web=web)  # type: ignore[arg-type]
            for i in range(routers)
        ),
        receive=receive,  # type: ignore[arg-type]
        moderation_ns=50_000,
        dut_cores=(dut,),
        measure_cores=(measure,),
        ip=ip,  # type: ignore[arg-type]
    )


def asked(wire: Wire, web: WebPlan, path: str | None = None) -> dict[str, Any]:
    """Ask a load balancer for its object, one request after the other."""
    server = at(wire.router_ip)
    plan = RequestPlan(
        url=Url(server, wire.router_ip, HTTP_PORT, path or path_of(web.sizes[0])),
        server=server,
        rate_millirps=1_000_000,
        concurrency=0,
        poisson=False,
        keep_alive=web.keep_alive,
        max_connections=1 if web.keep_alive else MAX_CONNECTIONS,
        warm_up_ns=0,
        window_ns=REQUESTS * 1_000_000,
        timeout_ns=MINUTES_NS,
        netns=wire.gen_netns,
    )
    with Requesting(plan) as client:
        assert client.wait(300)
    return client.report()


def what_is_wrong(bed: Testbed) -> str:
    try:
        bed.check_alive()
    except MeasurementError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("keep_alive", [False, True])
@pytest.mark.parametrize(
    ("path", "routers", "ip", "receive"),
    [
        ("direct", 2, 4, "softirq"),
        ("direct", 1, 6, "threaded"),
        ("bridge", 2, 6, "softirq"),
        ("macvlan", 2, 4, "softirq"),
        ("none", 1, 4, "softirq"),
    ],
)
def test_requests_are_answered_by_the_web_server_behind_it(
    path: str, routers: int, ip: int, receive: str, keep_alive: bool, journal: Any
) -> None:
    web = WebPlan((16 << 10,), keep_alive)
    with Testbed(bed_plan(path, routers, ip, web, receive), journal) as bed:
        for wire in bed.wires:
            found = asked(wire, web)
            assert (found["offered"], found["answered"]) == (REQUESTS, REQUESTS), found
            assert found["rate_bps"] == pytest.approx(8 * found["rate_rps"] * (16 << 10))
            assert found["connections"] == (1 if keep_alive else REQUESTS)
        assert asked(bed.wires[0], web, "/nothing")["statuses"] == {404: REQUESTS}
        assert set(bed.responder_threads) == {f"lb-{i}" for i in range(routers)}
        assert all(len(threads) == 1 for threads in bed.responder_threads.values())
        bed.check_alive()


def test_servers_have_no_rights_and_see_no_file_that_stays(journal: Any) -> None:
    with Testbed(bed_plan("direct", 1, 4, WebPlan((0,), keep_alive=False)), journal) as bed:
        (haproxy,) = bed.responder_threads["lb-0"]
        status = Path(f"/proc/{haproxy}/status").read_text()
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status


def test_a_load_balancer_that_dies_is_named_with_its_last_words(journal: Any) -> None:
    with Testbed(bed_plan("direct", 1, 4, WebPlan((0,), keep_alive=False)), journal) as bed:
        (haproxy,) = bed.responder_threads["lb-0"]
        os.kill(haproxy, signal.SIGKILL)
        told = wait_for(lambda: what_is_wrong(bed))
    assert "HAProxy of router lb-0 has ended; it says: nothing" in told


OWN = """\
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend web
    bind "${ISOLANE_LISTEN}"
    http-request return status 200 content-type text/plain string mine
"""


def test_a_load_balancer_has_the_configuration_that_it_is_given(journal: Any) -> None:
    web = WebPlan((1024,), keep_alive=False, configuration=OWN)
    with Testbed(bed_plan("direct", 1, 4, web), journal) as bed:
        found = asked(bed.wires[0], web)
    assert found["answered"] == REQUESTS
    assert found["rate_bps"] == pytest.approx(8 * found["rate_rps"] * len("mine"))


def test_a_configuration_that_is_none_is_told_with_haproxys_words(journal: Any) -> None:
    web = WebPlan((1024,), keep_alive=False, configuration="frontend web\n  bnid :80\n")
    with (
        pytest.raises(TestbedError, match=r"HAProxy of router lb-0 did not start; it says:.*bnid"),
        Testbed(bed_plan("direct", 1, 4, web), journal),
    ):
        pass
