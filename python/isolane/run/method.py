"""The version of the method: how trials are made and how figures come about from them."""

from __future__ import annotations

METHOD = 2
"""Written into each run's record and summary. A folder without it was made by method 1."""

OF_TRIALS: tuple[str, ...] = (
    "1x is the forwarding rate at maximum offered load, not the maximum forwarding rate",
    "trials count in which up to 2 % of the frames were not sent, or others used the DUT's cores",
)
"""What is different in trials of method 1, one sentence for each."""

OF_FIGURES: tuple[str, ...] = (
    "what a victim retained is divided by a reference that may itself have lost frames",
    "intervals leave out the variance between invocations, and the finding follows the median",
    "percentiles of delays leave out lost frames, and a maximum is the median of several maxima",
    "where the generator was short, rates are of frames that left late, over the window's length",
    "a share error compares with equal shares, whatever the weights of a policy",
)
"""What is different in figures that method 1 made of trials, one sentence for each."""


def marking(method: int, *, anew: bool = False) -> str | None:
    """Return what to tell the reader of a run made by an older method; None for the present one.

    Parameters
    ----------
    method
        The method of the run's trials.
    anew
        Whether the figures were made from its trials by the present method, because the run's
        own summary is incomplete.
    """
    if method >= METHOD:
        return None
    what = "trials" if anew else "figures"
    told = "; ".join(OF_TRIALS if anew else (*OF_FIGURES, *OF_TRIALS))
    made = " (its figures were made from them anew)" if anew else ""
    return (
        f"The {what} of this run were made by method {method}, an older one{made}; the present is "
        f"{METHOD}. What differs: {told}. Do not compare them with figures of method {METHOD}."
    )
