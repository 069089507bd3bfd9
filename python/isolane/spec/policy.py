"""The checked policy, with each router's defaults filled in, as the rest of Isolane uses it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from ruamel.yaml import YAML

from isolane.errors import SpecError
from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.fields import ArmName
from isolane.spec.loader import load_file, parse_file
from isolane.spec.policy_changes import with_changes
from isolane.spec.policy_checks import as_written, nics_of, together
from isolane.spec.policy_models import NicEntry, PolicyFile
from isolane.spec.policy_router import RouterPolicy, filled_in
from isolane.spec.problems import Contradictions, listed, nearest, show

_WHAT = "a policy"


class Policy(SpecModel):
    """A checked policy; only checks that need the host remain."""

    name: ArmName
    """Name of the policy."""
    nics: Mapping[p.InterfaceName, NicEntry] = Field(default_factory=dict)
    """The host's interfaces whose frames the routers share."""
    routers: Mapping[ArmName, RouterPolicy]
    """The routers by name, in the order of the file."""

    @property
    def demultiplexes(self) -> bool:
        """Whether any NIC tells the routers' frames apart."""
        return any(nic.steer != "none" for nic in self.nics.values())

    def nics_of(self, router: str) -> tuple[str, ...]:
        """Return the NICs that a router's frames leave by; empty where only the host can tell."""
        return nics_of(self.routers[router], self.nics)

    def with_changes(self, router: str, changes: Mapping[str, str]) -> Self:
        """Return a copy with some keys of one router changed.

        Raises
        ------
        SpecError
            As :func:`isolane.spec.policy_changes.with_changes`; if there is no such router; and if
            the change contradicts other routers, such as a sum of ``rate_min`` above the link.
        """
        if router not in self.routers:
            accepted = f"{listed(self.routers)}{nearest(router, self.routers)}"
            msg = f"router {show(router)} is not in policy {self.name}; accepted: {accepted}"
            raise SpecError(msg)
        try:
            changed = with_changes(self.routers[router], changes)
        except SpecError as error:
            lines = str(error).splitlines()
            raise SpecError("\n".join(f"{router}: {line}" for line in lines)) from None
        routers = {**self.routers, router: changed}
        problems = [str(problem) for problem in together(routers, self.nics)]
        if problems:
            raise SpecError("\n".join(f"{router}: {problem}" for problem in problems))
        return self.model_copy(update={"routers": routers})


def build_policy(
    name: str, nics: Mapping[str, NicEntry], routers: Mapping[str, RouterPolicy], source: str
) -> Policy:
    """Return a policy that a program makes, checked like one in a file.

    Parameters
    ----------
    source
        Origin of the policy, for messages.

    Raises
    ------
    SpecError
        If the parts contradict each other, one problem a line.
    """
    problems = [f"{source}: {problem}" for problem in together(routers, nics)]
    if problems:
        raise SpecError("\n".join(problems))
    return Policy.model_construct(name=name, nics=nics, routers=routers)


class _CheckedFile(PolicyFile):
    """A policy file without contradictions."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = tuple(as_written(self)) or tuple(together(_routers(self), self.nics))
        if problems:
            raise Contradictions(problems)
        return self


def load_policy(path: Path) -> Policy:
    """Return the policy in a file; nothing else is read and nothing on the host is touched.

    Raises
    ------
    SpecError
        If the file cannot be read or is not a valid policy: all that is wrong, one problem a line.
    """
    return _policy(load_file(path, _CheckedFile, _WHAT))


def parse_policy(text: str, source: str = "<text>") -> Policy:
    """Return the policy in a text; ``source`` stands for the file in messages.

    Raises
    ------
    SpecError
        As :func:`load_policy`.
    """
    return _policy(parse_file(text, source, _CheckedFile, _WHAT))


def policy_text(policy: Policy) -> str:
    """Return a policy as a YAML file that loads as an equal one (without comments)."""
    routers = {}
    for name, router in policy.routers.items():
        found = router.identities()
        routers[name] = {
            **router.model_dump(mode="json", by_alias=True, include=set(found)),
            **({"interfaces": dict(router.interfaces)} if router.interfaces else {}),
            **({"mac": router.mac} if router.mac else {}),
            **router.written(),
        }
    nics = {
        name: nic.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, nic in policy.nics.items()
    }
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    out = io.StringIO()
    yaml.dump({"isolane": 1, "name": policy.name, "nics": nics, "routers": routers}, out)
    return out.getvalue()


def _policy(file: PolicyFile) -> Policy:
    return Policy.model_construct(name=file.name, nics=file.nics, routers=_routers(file))


def _routers(file: PolicyFile) -> dict[str, RouterPolicy]:
    return {
        name: RouterPolicy.model_construct(
            **entry.identities(),
            interfaces=entry.interfaces,
            mac=entry.mac,
            **filled_in(file.defaults, entry),
        )
        for name, entry in file.routers.items()
    }
