"""Folded stacks: one line for each call chain, as Brendan Gregg's FlameGraph tools read them."""

from __future__ import annotations

from collections import Counter

from isolane.cpu_profile.sampled_stacks import CpuProfile


def folded(profile: CpuProfile) -> str:
    """Write all stacks as ``owner;thread;function;function samples``, outermost first.

    Equal chains, also those of different cores, are one line. Semicolons in names become colons,
    and white space a single blank, so that each line can be read back. Idle and lost samples are
    left out.

    Returns
    -------
    str
        Sorted lines, each ended; empty without samples.

    Notes
    -----
    https://github.com/brendangregg/FlameGraph, ``flamegraph.pl``.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for stack in profile.stacks:
        counts[tuple(_name(name) for name in stack.named_chain())] += stack.samples
    return "".join(f"{';'.join(chain)} {counts[chain]}\n" for chain in sorted(counts))


def _name(name: str) -> str:
    return " ".join(name.replace(";", ":").split()) or "?"
