"""The throughput search: NDR, PDR, MFR and FRMOL of each arm, with the MLRsearch library."""

from isolane.results.search_results import FoundRate, Searched, SearchSummary
from isolane.run.search.options import SearchOptions
from isolane.run.search.subjects import Subject, subjects_of
from isolane.run.search.whole_search import Search

__all__ = [
    "FoundRate",
    "Search",
    "SearchOptions",
    "SearchSummary",
    "Searched",
    "Subject",
    "subjects_of",
]
