"""A controller of cgroups v2 that a policy switched on is off again, unless somebody needs it.

The kernel's rules are the same for every controller: where version 1 has cpu, another one stands
for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from isolane.enforce import transaction
from isolane.enforce.host_access import Host
from isolane.enforce.policy_state import State
from isolane.enforce.setting import Desired
from isolane.enforce.settings import Controller, Group

from tests.enforce.version_2 import Version2, mounted

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("needs_root")]


@dataclass
class Tree:
    """Cgroups of version 2, seen as a policy sees them."""

    root: Path
    controller: str
    state_dir: Path

    @property
    def top(self) -> Path:
        return self.root / f"tests-{os.getpid()}"

    @property
    def host(self) -> Host:
        return cast("Host", SimpleNamespace(groups=Version2(self.top.name, self.root)))

    @property
    def state(self) -> State:
        return State.load(self.state_dir)

    def apply(self) -> None:
        wanted = [
            Desired(Group(""), value=True),
            Desired(Controller("root", self.controller), value=True),
            Desired(Controller("top", self.controller), value=True),
            Desired(Group("vr1"), value=True),
        ]
        transaction.apply(wanted, self.state, self.host, {"policy": "p"})

    def clear(self) -> None:
        assert transaction.clear(self.state, self.host) == []
        assert not self.top.exists()

    @property
    def on(self) -> bool:
        return self.controller in (self.root / "cgroup.subtree_control").read_text().split()

    @contextlib.contextmanager
    def theirs(self, *, passes_on: bool = False) -> Iterator[None]:
        """A cgroup of somebody else's."""
        path = self.root / f"tests-theirs-{os.getpid()}"  # others look for what is Isolane's
        path.mkdir()
        try:
            if passes_on:
                (path / "cgroup.subtree_control").write_text(f"+{self.controller}")
            yield
        finally:
            path.rmdir()


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    root = mounted()
    if root is not None:
        there = (root / "cgroup.controllers").read_text().split()
        used = (root / "cgroup.subtree_control").read_text().split()
        for name in sorted(set(there) - set(used)):
            tree = Tree(root, name, tmp_path)
            yield tree
            assert not tree.top.exists(), "what is left here is not looked for elsewhere"
            (root / "cgroup.subtree_control").write_text(f"-{name}")
            return
    pytest.skip("no controller of cgroups v2 is free on this host")


def test_what_the_policy_switched_on_is_off_again(tree: Tree) -> None:
    with tree.theirs():
        for _ in range(2):
            tree.apply()
            assert tree.on
            assert tree.controller in (tree.top / "vr1/cgroup.controllers").read_text().split()
            tree.clear()
            assert not tree.on


def test_it_stays_on_for_somebody_who_has_passed_it_on(tree: Tree) -> None:
    with contextlib.ExitStack() as theirs:
        tree.apply()
        theirs.enter_context(tree.theirs(passes_on=True))
        tree.clear()
        assert tree.on


def test_it_stays_on_for_a_cgroup_that_is_younger(tree: Tree) -> None:
    tree.apply()
    with tree.theirs():
        tree.clear()
        assert tree.on


def test_it_stays_on_where_it_was_on_before(tree: Tree) -> None:
    (tree.root / "cgroup.subtree_control").write_text(f"+{tree.controller}")
    tree.apply()
    tree.clear()
    assert tree.on


def test_a_policy_that_fails_half_way_leaves_it_off(tree: Tree) -> None:
    wanted = [
        Desired(Group(""), value=True),
        Desired(Controller("root", tree.controller), value=True),
        Desired(Controller("top", "nonsense"), value=True),
    ]
    with pytest.raises(Exception, match=r"writing \+nonsense"):
        transaction.apply(wanted, tree.state, tree.host, {"policy": "p"})
    assert not tree.on
    assert not tree.top.exists()
