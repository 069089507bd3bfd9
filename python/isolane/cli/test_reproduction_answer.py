"""What ``isolane reproduce`` prints: a row for each figure, then what is not reproduced."""

from __future__ import annotations

import io

from rich.console import Console

from isolane.cli.reproduction_answer import print_reproduction_answer
from isolane.report.tables import NOTHING
from isolane.reproduce.model import Claim, Reproduction, Row


def row(figure: str, published: float | None, simulated: float, *, fitted: bool = False) -> Row:
    return Row(
        paper="p", figure=figure, configuration="LXC", offered={"one": 100.0}, quantity="rate",
        unit="kpps", published=published, simulated=simulated, fitted=fitted,
    )  # fmt: skip


def claim(figure: str, text: str, *, reproduced: bool) -> Claim:
    return Claim(figure=figure, text=text, reproduced=reproduced, evidence="90 against 100 kpps")


def printed(rows: tuple[Row, ...], claims: tuple[Claim, ...]) -> list[str]:
    found = Reproduction(
        paper="p", title="A paper (2013)", source="its source", profile="host", rows=rows,
        claims=claims, plots=(),
    )  # fmt: skip
    text = io.StringIO()
    print_reproduction_answer(found, Console(file=text))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    return [" ".join(line.split()) for line in lines]


ROWS = (
    row("figure 4", 100, 90, fitted=True),
    row("figure 4", 0, 1, fitted=True),
    row("figure 4", 100, 98),
    row("figure 5", None, 3.0),
)


def test_each_figure_has_a_row_with_its_claims_and_errors() -> None:
    told = printed(ROWS, (claim("figure 4", "LXC is faster", reproduced=True),))
    assert told[0] == "A paper (2013)"
    assert told[1].startswith("1 of 1 claim reproduced; over 2 published figures the mean error")
    assert told[2] == "figure claims reproduced published values mean error largest fitted"
    assert told[3] == "figure 4 1 of 1 2 6.0 % 10.0 % 1"
    assert told[4] == f"figure 5{5 * f' {NOTHING}'}"
    assert told[5] == "each figure and claim: --details; the plots: --output FILE"
    assert len(told) == 6


def test_what_is_not_reproduced_is_named_as_far_as_it_fits() -> None:
    one = printed(ROWS, (claim("figure 5", "loss " * 40, reproduced=False),))
    assert one[5].startswith("not reproduced, figure 5: loss loss")
    assert one[5].endswith("…")
    many = printed(ROWS, tuple(claim("figure 5", f"claim {n}", reproduced=False) for n in range(9)))
    assert len(many) == 12
    assert many[-2] == "not reproduced: 4 more claims"
    assert many[1].startswith("0 of 9 claims reproduced")
