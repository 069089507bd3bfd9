"""What the functions of a call chain are for, by a table that ships as data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from isolane.cpu_profile.sampled_stacks import SampledStack
from isolane.errors import SpecError
from isolane.stored_model import StoredModel


class Category(StrEnum):
    """What CPU time was for, in the order of tables and stacks; how it is shown is its value."""

    DRIVER = "driver"
    NETWORK_STACK = "network stack"
    BRIDGE_AND_VIRTUAL_SWITCH = "bridge and virtual switch"
    MEMORY = "memory"
    SCHEDULER_AND_INTERRUPTS = "scheduler and interrupts"
    HYPERVISOR_AND_EXITS = "hypervisor and exits"
    BPF = "BPF"
    SYSTEM_CALLS = "system calls"
    GUEST = "guest"
    USER = "user"
    """Programs that are no guests: their time in user space. No function decides it."""
    OTHER_KERNEL = "other kernel"
    UNCLASSIFIED = "unclassified"
    """No function of the call chain is in the table."""


_DECIDED_BY_FUNCTIONS: Final = {
    one.name.lower(): one for one in Category if one not in (Category.USER, Category.UNCLASSIFIED)
}

NEUTRAL: Final = "neutral"
"""In place of a category: says nothing of what it is called for, its caller decides."""

_SUFFIXES = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm)(?:\.\d+)?)+$")


class CategoryRules(StoredModel):
    """The functions of one category."""

    functions: tuple[str, ...] = ()
    """Names, and prefixes that end in ``*``."""
    elsewhere: dict[str, str] = Field(default_factory=dict)
    """The same of kernels other than the recorded one, with the reason why they are here."""
    called_by: tuple[str, ...] = ()
    """Names whose direct callees belong to the category, unless they have rules of their own."""

    def patterns(self) -> tuple[str, ...]:
        """Return all names and prefixes."""
        return (*self.functions, *self.elsewhere)


class _TableFile(BaseModel):
    """A table as it is in its file."""

    model_config = ConfigDict(extra="forbid")

    version: int
    guest_threads: tuple[str, ...] = ()
    categories: dict[str, CategoryRules]


@dataclass(frozen=True)
class CategoryTable:
    """Which function belongs to which category; None stands for neutral ones."""

    version: int
    guest_threads: tuple[str, ...]
    """Names of threads (``comm``), and prefixes that end in ``*``."""
    rules: Mapping[str, CategoryRules]
    """By the name of a category as it is in the file, or `NEUTRAL`."""
    names: Mapping[str, Category | None]
    prefixes: Mapping[str, Category | None]
    callers: Mapping[str, Category]
    _found: dict[str, tuple[bool, Category | None]] = field(default_factory=dict)

    def _rule(self, function: str) -> tuple[bool, Category | None]:
        """Return whether a rule names a function, and its category."""
        if function not in self._found:  # chains repeat their functions
            self._found[function] = self._look_up(function)
        return self._found[function]

    def _look_up(self, function: str) -> tuple[bool, Category | None]:
        if function in self.names:
            return True, self.names[function]
        for end in range(len(function), 0, -1):
            if function[:end] in self.prefixes:
                return True, self.prefixes[function[:end]]
        return False, None

    def along(self, kernel: Sequence[str]) -> Iterator[Category]:
        """Yield, for each function of a call chain, the category if the chain ended with it.

        Parameters
        ----------
        kernel
            Functions of the kernel, outermost first.
        """
        category, caller = Category.UNCLASSIFIED, ""
        for raw in kernel:
            function = bare(raw)
            there, own = self._rule(function)
            if own is not None:
                category = own
            elif not there:
                category = self.callers.get(caller, category)
            yield category
            caller = function

    def is_guest(self, thread: str) -> bool:
        """Whether a thread's time in user space is a guest's."""
        return any(
            thread.startswith(name[:-1]) if name.endswith("*") else thread == name
            for name in self.guest_threads
        )

    def in_user_space(self, thread: str) -> Category:
        """Return the category of what a thread does in user space."""
        return Category.GUEST if self.is_guest(thread) else Category.USER

    def classify(self, stack: SampledStack) -> Category:
        """Return what a stack's time was for.

        The innermost function that a rule names decides; neutral functions are passed over.
        """
        if not stack.kernel:
            return self.in_user_space(stack.thread)
        *_, category = self.along(stack.kernel)
        return category

    def inherits(self, stack: SampledStack) -> bool:
        """Whether a stack's category is its caller's for want of a rule, not of being neutral."""
        for raw in reversed(stack.kernel):
            there, own = self._rule(bare(raw))
            if not there or own is not None:
                return not there
        return False


def bare(function: str) -> str:
    """Return a function's name without the suffixes that compilers add: ``.isra.0``, ``.cold``."""
    return _SUFFIXES.sub("", function)


def read_table(text: str, source: str) -> CategoryTable:
    """Read a table of categories.

    Parameters
    ----------
    text
        YAML, as in ``categories.yaml``.
    source
        What to call it in an error.

    Raises
    ------
    SpecError
        It is no YAML, has an unknown key or category, lacks its version, or names a function
        twice.
    """
    try:
        table = _TableFile.model_validate(YAML(typ="safe", pure=True).load(text))
    except (ValidationError, YAMLError) as error:
        raise SpecError(f"{source}: {error}") from None
    rules = table.categories
    found: dict[str, Category | None] = {}
    callers: dict[str, Category] = {}
    for name, one in rules.items():
        category = _category(name, source)
        for pattern in one.patterns():
            if pattern in found:
                raise SpecError(f"{source}: {name}: {pattern}: is in the table twice")
            found[pattern] = category
        if one.called_by and category is None:
            raise SpecError(f"{source}: {name}: called_by: only a category can have it")
        callers |= dict.fromkeys(one.called_by, category) if category else {}
    return CategoryTable(
        table.version,
        table.guest_threads,
        rules,
        {name: category for name, category in found.items() if not name.endswith("*")},
        {name[:-1]: category for name, category in found.items() if name.endswith("*")},
        callers,
    )


def _category(name: str, source: str) -> Category | None:
    if name == NEUTRAL:
        return None
    if name not in _DECIDED_BY_FUNCTIONS:
        accepted = ", ".join((*_DECIDED_BY_FUNCTIONS, NEUTRAL))
        raise SpecError(f"{source}: {name}: there is no such category; accepted: {accepted}")
    return _DECIDED_BY_FUNCTIONS[name]


@cache
def shipped_table() -> CategoryTable:
    """Return the table that comes with this version of Isolane."""
    name = "categories.yaml"
    return read_table(
        (resources.files("isolane.cpu_profile") / name).read_text(encoding="utf-8"), name
    )
