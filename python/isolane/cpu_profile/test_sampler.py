from __future__ import annotations

import pytest

from isolane import _native
from isolane.cpu_profile.sampler import Owners, Sampled


def chain(
    samples: int, thread: int | None = None, nic: tuple[int, int] | None = None, core: int = 1
) -> _native.SampledChain:
    return _native.SampledChain(
        thread=thread, nic=nic, core=core, name="x" if thread else "", kernel=["a", "b"], user=[],
        samples=samples,
    )  # fmt: skip


def sampled(*chains: _native.SampledChain, lost: int = 0) -> Sampled:
    found = _native.Sampling(chains=list(chains), lost=lost, expected=400, program_ns=1000)
    return Sampled("cpu-clock", 100, 2_000_000_000, (1, 2), found)


def test_work_is_that_of_the_thread_or_of_the_interface_that_was_polled() -> None:
    owners = Owners(threads={7: "vr1", 8: "vr2"}, nics={(5, 2): "vr2"})
    found = sampled(
        chain(10, thread=7), chain(20, thread=8), chain(1, thread=9), chain(2, nic=(5, 2)),
        chain(3, nic=(5, 3)), chain(4),
    )  # fmt: skip
    profile = found.profile(owners, {"vr1": 5})
    by_owner = {owner: sum(s.samples for s in profile.of(owner)) for owner in profile.owners()}
    assert by_owner == {"vr1": 10, "vr2": 22, "host": 1 + 3 + 4}
    assert profile.period_ns == 10_000_000
    assert (profile.sampling_ns, profile.frames) == (1000, {"vr1": 5})


@pytest.mark.parametrize(("busy", "lost", "idle"), [(100, 10, 290), (400, 0, 0), (500, 5, 0)])
def test_what_time_and_period_leave_was_idle(busy: int, lost: int, idle: int) -> None:
    assert sampled(chain(busy, thread=7), lost=lost).profile(Owners(), {}).idle_samples == idle


def test_the_same_chain_of_two_threads_of_one_owner_is_one_stack() -> None:
    profile = sampled(chain(1, thread=7), chain(2, thread=8), chain(4, thread=7, core=2)).profile(
        Owners(threads={7: "vr1", 8: "vr1"}), {}
    )
    assert sorted((stack.core, stack.samples) for stack in profile.stacks) == [(1, 3), (2, 4)]
