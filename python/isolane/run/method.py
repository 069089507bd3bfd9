"""The version of the method: how trials are made and how figures come about from them."""

from __future__ import annotations

METHOD = 2
"""Written into each run's record and summary. A folder without it was made by method 1."""

DIFFERENCES: tuple[str, ...] = (
    "1x is the forwarding rate at maximum offered load, not the maximum forwarding rate",
    "what a victim retained is divided by a reference that may itself have lost frames",
    "intervals leave out the variance between invocations, and the finding follows the median",
    "a share error compares with equal shares, whatever the weights of a policy",
)
"""What is different in figures of method 1, one sentence for each; shown with such a run."""


def marking(method: int) -> str | None:
    """Return what to tell the reader of a run made by an older method; None for the present one."""
    if method >= METHOD:
        return None
    told = "; ".join(DIFFERENCES)
    return (
        f"The figures of this run were made by method {method}, an older one; the present is "
        f"{METHOD}. What differs: {told}. Do not compare them with figures of method {METHOD}."
    )
