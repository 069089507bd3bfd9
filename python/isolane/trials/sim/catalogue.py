"""Finds host profiles and paths, and checks that a path fits a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from isolane.errors import NotSupported, SpecError
from isolane.spec import ArmRouter
from isolane.spec.fields import Mode
from isolane.spec.hostmodel import PathData, ProfileData
from isolane.spec.kinds import SIMULATED
from isolane.spec.loader import load_file
from isolane.trials.sim.answering_paths import answering
from isolane.trials.sim.answering_paths import in_kernel as by_kernel
from isolane.trials.sim.bridge_filter import NETFILTER, bridging, knows
from isolane.trials.sim.more_work import lacking
from isolane.trials.sim.services_paths import serving

HERE = Path(__file__).parent
DEFAULT_PROFILE = "rathore2013"

PathKey = tuple[str, str, str | None]
"""Kind, path and NIC model."""

_UNNAMED = ("none", "vfio", None)
"""Paths and NIC models that names of path files leave out."""


@dataclass(frozen=True)
class SimHost:
    """A profile with the paths that can be simulated on it."""

    profile: ProfileData
    paths: Mapping[PathKey, PathData]
    """Paths of the profile's own; they take the place of Isolane's (:func:`own_path`)."""
    origin: str
    """The profile's name or file, for messages."""

    def path_of(
        self,
        router: ArmRouter,
        mode: Mode = "forward",
        *,
        in_kernel: bool = False,
        filtered: bool | None = None,
    ) -> PathData:
        """Return the path of a router, which passes frames on or answers them.

        Of a load balancer `in_kernel` is that of frames that its kernel answers. `filtered` is the
        arm's `bridge_netfilter`.

        Raises
        ------
        NotSupported
            If there is no such path file, or the profile does not say what the router's work costs.
            Of a shipped profile, if it lacks a cost or a queue of it, too.
        SpecError
            If a profile of the user's lacks a cost or a queue of it.
        """
        if router.kind not in SIMULATED:
            raise NotSupported(
                f"external router {router.group} cannot be simulated: what it is made of is not "
                "known; measure it, or leave its arms out with --arms"
            )
        key = (router.kind, router.path, router.nic)
        path = self.paths.get(key) or own_path(*key)
        if path is None:
            nic = f", NIC model {router.nic}" if router.nic else ""
            raise NotSupported(
                f"there is no path file for kind {router.kind}, path {router.path}{nic}"
            )
        if not knows(self.profile, path, filtered=filtered):
            raise NotSupported(
                f"router {router.group}: bridge_netfilter cannot be simulated with {self.origin}, "
                f"which does not have cost {NETFILTER}; accepted: --profile veth, or one with it"
            )
        path = self._with_its_work(path, router, mode, in_kernel=in_kernel)
        path = bridging(path, filtered=filtered)
        problems = missing(self.profile, path)
        if problems and self.origin.removeprefix("profile ") in own_profiles():
            fitting = ", ".join(f"--profile {name}" for name in _fitting(path)) or "one with them"
            raise NotSupported(
                f"{router.kind} {router.group} on path {router.path} cannot be simulated with "
                f"{self.origin}, which does not have its costs; accepted: {fitting}"
            )
        if problems:
            raise SpecError("\n".join(f"{self.origin}: {problem}" for problem in problems))
        return path

    def _with_its_work(
        self, path: PathData, router: ArmRouter, mode: Mode, *, in_kernel: bool
    ) -> PathData:
        """Return the path with what the router does besides passing frames on."""
        services = router.services  # of no router that answers
        what = f"services ({services})" if services else f"mode {mode}"
        try:
            made = by_kernel(path) if in_kernel else serving(answering(path, mode), services)
        except NotSupported as error:
            message = f"router {router.group}: {what} cannot be simulated: {error}"
            raise NotSupported(message) from None
        if not_there := lacking(self.profile, path, made):
            raise NotSupported(
                f"router {router.group}: {what} cannot be simulated with {self.origin}, which does "
                f"not have {', '.join(not_there)}; accepted: --profile veth, or one with them"
            )
        return made

    def frame_ns(self, router: ArmRouter, *, filtered: bool | None = None) -> float:
        """Return the sum of a path's costs per frame, ns, without costs per byte or poll."""
        stages = self.path_of(router, filtered=filtered).stages.values()
        return sum(self.profile.costs[cost].frame_ns for stage in stages for cost in stage.cost)


def missing(profile: ProfileData, path: PathData) -> tuple[str, ...]:
    """Return one line for each cost, queue or ring that a path needs and the profile lacks."""
    found = []
    for name, stage in path.stages.items():
        about = f"stage {name} of path {path.name} needs it"
        found += [
            f"costs: cost {cost!r} is missing: {about}; accepted: an entry {cost} with frame_ns"
            for cost in (*stage.cost, *(stage.drop or ()))
            if cost not in profile.costs
        ]
        if stage.queue is not None and stage.queue not in profile.queues:
            found.append(
                f"queues: queue {stage.queue!r} is missing: {about}; "
                f"accepted: an entry {stage.queue} with capacity"
            )
    if path.ring not in profile.rings:
        found.append(f"rings: ring {path.ring!r} is missing: path {path.name} needs it")
    return tuple(found)


def _fitting(path: PathData) -> list[str]:
    """Return the names of the shipped profiles that a path can be simulated with."""
    return [name for name in own_profiles() if not missing(find_host(name).profile, path)]


@cache
def own_path(kind: str, path: str, nic: str | None) -> PathData | None:
    """Return the path that comes with Isolane, if there is one of that kind and NIC model.

    Only its file is read.
    """
    words = [kind, *(word for word in (path, nic) if word not in _UNNAMED)]
    file = HERE / "paths" / f"{'-'.join(words)}.yaml"
    return load_file(file, PathData, "a path") if file.is_file() else None


def has_model(router: ArmRouter) -> bool:
    """Tell whether a router can be simulated with the paths that come with Isolane."""
    known = router.kind in SIMULATED and simulates(router)
    return known and own_path(router.kind, router.path, router.nic) is not None


def simulates(router: ArmRouter) -> bool:
    """Tell whether what runs a router's guest can be simulated.

    The costs of a guest's exits are those of KVM. One behind a network back-end has none on the way
    of a frame, whatever runs it: both look into memory that they share. TCG translates code, too.
    """
    served = router.path == "netback" and router.hypervisor == "uml"
    return served or router.hypervisor in (None, "auto", "kvm")


def own_profiles() -> tuple[str, ...]:
    """Return the names of the profiles that come with Isolane."""
    return tuple(sorted(path.stem for path in (HERE / "profiles").glob("*.yaml")))


def profile_file(profile: str | Path) -> Path:
    """Return the file of a profile, given by name or file.

    Raises
    ------
    SpecError
        If there is none of that name.
    """
    wanted = str(profile)
    if wanted in own_profiles():
        return HERE / "profiles" / f"{wanted}.yaml"
    file = Path(wanted)
    if file.suffix not in {".yaml", ".yml"} and not file.exists():
        names = ", ".join(own_profiles())
        raise SpecError(f"profile {wanted!r} is not known; accepted: {names}, or a YAML file")
    return file


def find_host(profile: str | Path | None) -> SimHost:
    """Return the host of a profile, by name or file (default: `DEFAULT_PROFILE`).

    Raises
    ------
    SpecError
        If there is no such profile, or it or one of its path files is wrong.
    """
    wanted = DEFAULT_PROFILE if profile is None else str(profile)
    file = profile_file(wanted)
    data = load_file(file, ProfileData, "a host profile")
    theirs = _by_key(file.parent / name for name in data.paths)
    origin = wanted if wanted in own_profiles() else str(file)
    return SimHost(data, theirs, f"profile {origin}")


def _by_key(files: Iterable[Path]) -> dict[PathKey, PathData]:
    found = (load_file(file, PathData, "a path") for file in files)
    return {(path.kind, path.path, path.nic): path for path in found}
