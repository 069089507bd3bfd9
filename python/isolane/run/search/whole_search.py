"""A search: all arms and routers one after the other, into one folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from isolane import __version__
from isolane.results.folder import RunFolder
from isolane.results.search_results import Searched, SearchSummary
from isolane.run.search.options import SearchOptions
from isolane.run.search.subject_search import SubjectSearch
from isolane.run.search.subjects import Subject
from isolane.run.search.trial_maker import TrialMaker
from isolane.spec import Experiment
from isolane.trials.backend import BackEnd, WithGenerator

PERCENT = 100
INTERRUPTED = "the search was interrupted"


@dataclass
class Search:
    """One search into a folder.

    Parameters
    ----------
    experiment
        Its arms are searched; its loads are not used.
    back_end
        Carries out the trials.
    folder
        Gets each trial at once, and ``search.json``.
    options
        What to search for.
    subjects
        Which routers in which arms.
    watch
        Called with the percentage that is done, and what is being done.
    clock
        Time in s, for the time limit.
    date
        When a trial began, Unix time in s; a simulation writes the same bytes every time.
    """

    experiment: Experiment
    back_end: BackEnd
    folder: RunFolder
    options: SearchOptions
    subjects: Sequence[Subject]
    watch: Callable[[int, str], None] = lambda _percent, _label: None
    clock: Callable[[], float] = time.monotonic
    date: Callable[[], float] = time.time
    _found: list[Searched] = field(default_factory=list)
    _told: int = 0

    def execute(self) -> SearchSummary:
        """Search all subjects; ``search.json`` is written however it ends.

        Raises
        ------
        MeasurementError
            If results cannot be kept.
        """
        started = time.time()
        maker = TrialMaker(self.experiment, self.folder, self.date)
        try:
            for number, subject in enumerate(self.subjects):
                self._subject(number, subject, maker)
                self._keep(started)
        finally:
            # After Ctrl-C, too: what was found so far is kept.
            summary = self._keep(started)
        return summary

    def _keep(self, started: float) -> SearchSummary:
        every = len(self._found) == len(self.subjects)
        summary = SearchSummary(
            isolane=__version__,
            library=f"MLRsearch {version('MLRsearch')}",
            name=self.experiment.name,
            title=self.experiment.title,
            started_unix_s=started,
            finished_unix_s=time.time(),
            complete=every and all(found.reason is None for found in self._found),
            options=self.options.as_data(),
            searched=tuple(self._found),
            simulated=self.folder.host().simulated,
        )
        self.folder.write_search(summary)
        return summary

    def _subject(self, number: int, subject: Subject, maker: TrialMaker) -> None:
        def tell(share: float, label: str) -> None:
            done = (number + min(1.0, max(0.0, share))) / len(self.subjects)
            self._told = max(self._told, int(PERCENT * done))
            self.watch(self._told, label)

        max_pps = self.back_end.overload_pps(subject.arm)
        limited = isinstance(self.back_end, WithGenerator)
        one = SubjectSearch(
            subject, self.options, maker, max_pps, self.clock, tell, has_maximum=limited
        )
        try:
            with self.back_end.bench(subject.arm, subject.routers) as bench:
                self.folder.add_nics(bench.nics())
                self._found.append(one.execute(bench))
        except BaseException:
            self._found.append(one.searched(INTERRUPTED))
            raise
