"""From a path's stages to those of the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from isolane.spec.hostmodel import ContextKind, PathData, Stage
from isolane.trials.sim.answering_paths import IN_KERNEL


@dataclass(frozen=True)
class Segment:
    """Stages that follow each other in one context, as one stage of the simulator."""

    name: str
    context: ContextKind
    router: str | None
    """None where all routers of the path share it."""
    stages: tuple[tuple[str, Stage], ...]


def segments(path: PathData, router: str, wire: str, *, link: bool) -> list[Segment]:
    """Join the stages of a path that run one after the other in one context.

    What only some frames of a router pass is a segment of its own.

    Parameters
    ----------
    path
        The path.
    router
        Whose frames take it.
    wire
        The wire that all routers of the path share.
    link
        Whether the link that they send on has classes.
    """
    found: list[Segment] = []
    for name, stage in path.ordered():
        if stage.only == "shared-link" and not link:
            continue
        owner = wire if stage.shared else router
        last = found[-1] if found else None
        same = last is not None and last.stages[-1][1].shared == stage.shared
        joins = stage.queue is None and name != IN_KERNEL
        if last is not None and same and joins and _alike(last, stage):
            found[-1] = Segment(last.name, last.context, last.router, (*last.stages, (name, stage)))
            continue
        whose = None if stage.shared else router
        found.append(Segment(f"{owner}.{name}", stage.context, whose, ((name, stage),)))
    return found


def _alike(segment: Segment, stage: Stage) -> bool:
    """Tell whether a stage's time goes on the same account as the segment's."""
    first = segment.stages[0][1]
    return stage.context == first.context and stage.mode == first.mode
