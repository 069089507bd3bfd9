"""The version of the method: how trials are made and how figures come about from them."""

from __future__ import annotations

METHOD = 6
"""Written into each run's record and summary. A folder without it was made by method 1."""

_AS_ASKED = (
    "loads were asked for that the generator cannot send, and an arm whose aggressors were sent "
    "less is not called isolated"
)
_NOT_SENT = "what the generator did not send of a victim's load lowers what it retained"

_UNDISTURBED = (
    "trials do not count in which others had more than 5 % of a DUT core, or whose CPU times do "
    "not add up"
)

_RECEIVER = (
    "trials do not count in which the receiver's wires dropped more than 0.2 % of the frames, and "
    "what they dropped is lost by the routers"
)

OF_TRIALS: dict[int, tuple[str, ...]] = {
    1: (
        "1x is the forwarding rate at maximum offered load, not the maximum forwarding rate",
        _AS_ASKED,
        _RECEIVER,
    ),
    2: (
        "trials do not count in which more than 0.2 % of a victim's frames were not sent",
        _AS_ASKED,
        _UNDISTURBED,
        _RECEIVER,
    ),
    3: (_UNDISTURBED, _RECEIVER),
    4: ("trials in which the hypervisor took a DUT core away are not made again", _RECEIVER),
    5: (_RECEIVER,),
}
"""What is different in trials of older methods, one sentence for each."""

OF_FIGURES: dict[int, tuple[str, ...]] = {
    1: (
        "what a victim retained is divided by a reference that may itself have lost frames",
        "intervals leave out the variance between invocations, and the finding follows the median",
        (
            "percentiles of delays leave out lost frames, and a maximum is the median of several "
            "maxima"
        ),
        (
            "where the generator was short, rates are of frames that left late, over the window's "
            "length"
        ),
        "a share error compares with equal shares, whatever the weights of a policy",
        _NOT_SENT,
    ),
    2: (_NOT_SENT,),
    3: (),
    4: (),
    5: (),
}
"""What is different in figures of older methods, one sentence for each."""


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
    told = "; ".join([*(() if anew else OF_FIGURES[method]), *OF_TRIALS[method]])
    made = " (its figures were made from them anew)" if anew else ""
    return (
        f"The {what} of this run were made by method {method}, an older one{made}; the present is "
        f"{METHOD}. What differs: {told}. Do not compare them with figures of method {METHOD}."
    )
