"""The data of a reproduction: rows of figures, claims and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import computed_field

from isolane.errors import SpecError
from isolane.stored_model import StoredModel

PlotKind = Literal["lines", "bars", "stacked"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Row(StoredModel):
    """One figure: as published (if it was) and as simulated."""

    paper: str
    figure: str
    """The paper's name for it, such as ``figure 4`` or ``table 1``."""
    configuration: str
    offered: dict[str, float]
    """Offered load by router, in `offered_unit`."""
    offered_unit: str = "kpps"
    quantity: str
    """The measured quantity, such as ``throughput of VR1``."""
    unit: str
    published: float | None
    """None where the paper gives no number."""
    simulated: float | None
    """None where the simulation was interrupted before it, or no trial was valid (see `note`)."""
    low: float | None = None
    """95 % confidence interval of `simulated`, where there are repeats."""
    high: float | None = None
    fitted: bool = False
    """Whether the profile was fitted to this figure; otherwise it is a prediction."""
    note: str = ""
    live: float | None = None
    """Measured with real frames; None where no such run was given."""
    live_low: float | None = None
    """95 % confidence interval of `live`, where there are repeats."""
    live_high: float | None = None

    @computed_field  # type: ignore[prop-decorator]  # pydantic's way
    @property
    def relative_error(self) -> float | None:
        """Simulated over published, minus 1; None if either is missing or published is 0."""
        if self.published is None or self.simulated is None:
            return None
        if self.published == 0:
            return 0.0 if self.simulated == 0 else None
        return self.simulated / self.published - 1


class Claim(StoredModel):
    """A statement of the paper, and whether the simulation confirms it."""

    figure: str
    text: str
    """The paper's statement in a plain sentence."""
    reproduced: bool
    """Computed from the figures."""
    evidence: str
    """One sentence with the figures that decided it."""


class Live(StoredModel):
    """What runs of the same experiments with real frames gave."""

    where: str
    """Hosts and days."""
    runs: tuple[str, ...]
    """Each: its folder, what it is of, how many trials, and how long."""
    claims: tuple[Claim, ...]
    """The same claims, as far as all that they need was measured."""


class PlotPoint(StoredModel):
    """One value in a plot."""

    series: str
    x: float | str
    """A number, or a category of bars."""
    y: float
    low: float | None = None
    high: float | None = None
    published: bool = False


class Plot(StoredModel):
    """A plot of the same kind as the paper's."""

    figure: str
    title: str
    kind: PlotKind
    x_title: str
    y_title: str
    points: tuple[PlotPoint, ...]
    caption: str = ""


class Reproduction(StoredModel):
    """The whole result of reproducing a paper, or a part of it."""

    paper: str
    title: str
    source: str
    profile: str
    """Name of the host profile, and what it was fitted to."""
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    plots: tuple[Plot, ...]
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as what the model leaves out."""
    live: Live | None = None
    """None where no runs were given."""
    complete: bool = True
    """False if the reproduction was interrupted."""


class Workers(Protocol):
    """Processes that work on a list; results come in the list's order."""

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], label: str = ""
    ) -> list[Result]:
        """Return the results; after Ctrl-C only those that are finished, see `interrupted`."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the work early."""


@dataclass(frozen=True)
class Options:
    """The user's options."""

    seed: int = 1
    profile: str | Path | None = None
    """Name or file of another host profile than the paper's own."""
    scale: float = 1.0
    """Simulated time and repeats relative to the paper's reproduction at full length; tests use
    less."""
    runs: tuple[Path, ...] = ()
    """Folders of runs with real frames, to stand beside the simulation."""

    def __post_init__(self) -> None:
        """Refuse an empty name, which would be taken for none."""
        if self.profile is not None and not str(self.profile):
            raise SpecError("--profile '': not the name of a profile; accepted: a name or a file")


class Paper(Protocol):
    """A published experiment."""

    name: str
    title: str
    source: str
    figures: Mapping[str, str]
    """What ``--figure`` accepts, with a line on each: ``{"4": "throughput of ..."}``."""
    live: tuple[str, ...]
    """Names of the experiments whose runs can stand beside the simulation."""

    def reproduce(self, figures: Sequence[str], options: Options, workers: Workers) -> Reproduction:
        """Simulate these figures (keys of `figures`) and put them beside the published ones.

        Raises
        ------
        SpecError
            If a file or a run that the options name cannot be used.
        """
