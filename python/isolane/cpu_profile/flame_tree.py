"""Call chains merged into one tree, as flame graphs show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from isolane.cpu_profile.categories import Category, CategoryTable
from isolane.cpu_profile.sampled_stacks import CpuProfile, SampledStack

NodeKey = tuple[str, Category | None]


@dataclass
class FlameNode:
    """One function in one call chain, with all that it called."""

    name: str
    category: Category | None
    """What the time would be for if the chain ended here; None of owners and threads."""
    samples: int = 0
    """Of it and of all that it called."""
    children: dict[NodeKey, FlameNode] = field(default_factory=dict)

    def sorted_children(self) -> list[FlameNode]:
        """Return what it called, by name, so that equal profiles look equal."""
        return sorted(self.children.values(), key=lambda node: (node.name, node.category or ""))


def flame_tree(profile: CpuProfile, table: CategoryTable, owner: str | None = None) -> FlameNode:
    """Merge the stacks of one owner, or of all.

    Returns
    -------
    FlameNode
        The root, called ``all``. The samples of what a function called are at most its own.
    """
    root = FlameNode("all", None)
    for stack in profile.of(owner):
        node = root
        node.samples += stack.samples
        for key in _keys(stack, table):
            node = node.children.setdefault(key, FlameNode(*key))
            node.samples += stack.samples
    return root


def _keys(stack: SampledStack, table: CategoryTable) -> Iterator[NodeKey]:
    owner, thread, *functions = stack.named_chain()
    yield from ((owner, None), (thread, None))
    in_user_space = [table.in_user_space(stack.thread)] * len(stack.user)
    yield from zip(functions, [*in_user_space, *table.along(stack.kernel)], strict=True)
