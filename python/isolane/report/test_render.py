"""Everything about reports that needs no browser; the data is synthetic (see test_data)."""

import csv
import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from isolane.analysis.answer import answer_of
from isolane.analysis.test_missing import served
from isolane.errors import OutputError, SpecError
from isolane.report import render, tables
from isolane.report import test_data as data
from isolane.report.chart import decades
from isolane.report.drawing import draw
from isolane.report.figures import figures
from isolane.report.papertable import draw_table
from isolane.report.points import across
from isolane.report.theme import LIGHT, MODES
from isolane.report.wiring import simplify
from isolane.results.folder import RunFolder
from isolane.results.results import Drawing, Edge, Node, Summary, Trial


def summary(folder: RunFolder) -> Summary:
    found = folder.summary()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return data.run_folder(tmp_path_factory.mktemp("noisy") / "run", repeats=2)


def test_html_holds_everything_and_fetches_nothing(noisy: RunFolder) -> None:
    target = render(noisy.path)
    assert target == noisy.path / "report.html"
    page = target.read_text()
    assert summary(noisy).verdict.sentence in page
    assert "Predicted, not measured" not in page
    answer = answer_of(summary(noisy))
    assert " ".join(answer.sentences) in page
    assert page.count("<tr>", page.index('id="answer"'), page.index("What this rests on")) == 4
    head = page[: page.index("<body>")]
    assert "default-src 'none'" in head
    ours = page[: page.index("<script>")]  # behind it is the library, whose text is not markup
    assert not re.search(r"<(link|script|img|iframe)[^>]*\b(src|href)=", ours)
    assert page.count("</script>") == 4
    specs = re.search(r'<script type="application/json" id="specs">(.*?)</script>', page)
    assert specs is not None
    assert len(json.loads(specs[1])) == page.count('class="plot"') == 2 + 3 + 4 + 6 + 6 + 3


def test_a_prediction_is_called_one_beside_its_verdict(noisy: RunFolder, tmp_path: Path) -> None:
    copied = RunFolder.open(Path(shutil.copytree(noisy.path, tmp_path / "simulated")))
    copied.write_summary(summary(noisy).model_copy(update={"simulated": "veth"}))
    page = render(copied.path).read_text()
    above = page[page.index('id="verdict"') : page.index('id="results"')]
    assert "Predicted, not measured" in above
    assert "profile veth" in above


def test_markdown(noisy: RunFolder, tmp_path: Path) -> None:
    text = render(noisy.path, "md", tmp_path / "r.md").read_text()
    assert text.startswith("# What a noisy neighbour does to you\n")
    rows = [line for line in text.splitlines() if line.startswith("| bridge")]
    assert len(rows) == 12  # its answer, ten cells and one published figure
    assert len({row.count(" | ") for row in rows[1:11]}) == 1
    answer, headings, *_ = (line for line in text.splitlines() if line.startswith("| Arm"))
    assert (
        answer == "| Arm | Finding | Victim keeps | Worst at | p99 (alone) | Together (of best) |"
    )
    assert headings == (
        "| Arm | Point | Router | Offered | Received | Delivered | Retained | Lost "
        "| Delay p50 | p99 | max | Inflation | Share error | CPU | own/frame | caused/frame |"
    )


def test_csv_has_the_cells_unrounded(noisy: RunFolder, tmp_path: Path) -> None:
    with render(noisy.path, "csv", tmp_path / "r.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    cells = summary(noisy).cells
    assert len(rows) == len(cells)
    assert [float(row["throughput_pps"]) for row in rows] == [
        cell.throughput_pps.median for cell in cells
    ]
    assert rows[1]["delay_p50_ns"] == ""  # the aggressor at 0x


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-")])
def test_pictures(tmp_path: Path, kind: str, start: bytes) -> None:
    small = data.run_folder(tmp_path / "run", data.SWEEP, repeats=1)
    assert render(small.path, kind).read_bytes().startswith(start)


def test_the_sheet_has_title_plots_and_the_table_of_results(noisy: RunFolder) -> None:
    content = render(noisy.path, "svg").read_bytes()
    assert content.startswith(b"<svg ")
    root = ET.fromstring(content)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    words = " ".join(element.text or "" for element in root.iter())
    assert "What a noisy neighbour does to you" in words
    assert "99.9th percentile" in words
    found = [
        (text.text, text.get("text-anchor")) for text in root.iter() if text.tag[-4:] == "text"
    ]
    assert ("Results", None) in found
    for table in (tables.results(summary(noisy)), tables.published(summary(noisy))):
        for heading in table.headings[1:]:
            assert [text for text, anchor in found if text == heading and anchor]
        entries = [value for row in table.rows for value in row[1:]]
        drawn = [text for text, anchor in found if anchor]
        for text in {value.text for value in entries} | {value.interval for value in entries}:
            wanted = sum((value.text, value.interval).count(text) for value in entries)
            assert text == "" or drawn.count(text) >= wanted, text


def test_a_table_fits_the_sheet_however_long_its_names_are() -> None:
    names = ("an arm", "a point " * 20, "x" * 90, *(f"{number} Mpps" for number in range(30)))
    row = tuple(tables.Value(name, "[1, 2]" if "Mpps" in name else "") for name in names)
    table = tables.Table(tuple(f"h{n}" for n in range(33)), ("",) * 33, (row, row), words=3)
    svg, height = draw_table(table, 1000.0)
    group = ET.fromstring(svg)
    scale = float(re.findall(r"scale\((.*)\)", group.get("transform") or "")[0])
    texts = list(group.iter("text"))
    texts_at = [(float(t.get("x") or 0), float(t.get("y") or 0), t.text or "") for t in texts]
    assert scale < 1
    assert max(y for _, y, _ in texts_at) * scale < height
    assert max(x for x, _, _ in texts_at) * scale <= 1000.1
    assert max(len(text) for _, _, text in texts_at) <= 30


def test_names_are_escaped_everywhere(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>|`*"
    folder = data.run_folder(tmp_path / "run", repeats=1)
    found = summary(folder)
    cells = tuple(
        cell.model_copy(update={"arm": evil, "point_label": evil, "router": evil})
        for cell in found.cells[:10]
    )
    drawing = found.drawings[0].model_copy(update={"arm": evil})
    folder.write_summary(
        found.model_copy(update={"title": evil, "cells": cells, "drawings": (drawing,)})
    )
    assert "<img src=x" not in render(folder.path, "html").read_text()
    assert "<img src=x" not in render(folder.path, "md").read_text().replace("\\<", "")
    ET.fromstring(render(folder.path, "svg").read_bytes())


def test_an_unknown_format(noisy: RunFolder) -> None:
    with pytest.raises(SpecError, match="--format doc: accepted are html, svg, png, pdf, md, csv"):
        render(noisy.path, "doc")


def test_an_output_that_cannot_be_written(noisy: RunFolder) -> None:
    with pytest.raises(OutputError, match=r"/proc/r\.md: cannot be written"):
        render(noisy.path, "md", Path("/proc/r.md"))


def test_a_killed_run_is_summarised_again(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=1)
    (folder.path / "summary.json").unlink()
    text = render(folder.path, "md").read_text()
    assert "The run was interrupted" in text
    assert "leaves the victim" in text


def test_a_failed_trial_that_was_done_again_is_not_counted(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=1)
    trial = folder.trials()[-1]
    (folder.path / "summary.json").unlink()
    folder.append_trial(trial.model_copy(update={"status": "failed", "reason": "x"}))
    assert "- Left out: 0\n" in render(folder.path, "md").read_text()


@pytest.mark.parametrize(
    ("text", "kind", "names"),
    [
        (data.NOISY, "load", ["victim", "throughput", "delay", "cpu", "loss"]),
        (data.SWEEP, "routers", ["together", "delay", "cpu", "loss"]),
        (data.LADDER, "load", ["throughput", "delay", "cpu", "loss"]),
    ],
)
def test_which_plots_there_are(tmp_path: Path, text: str, kind: str, names: list[str]) -> None:
    found = summary(data.run_folder(tmp_path / "run", text, 1))
    assert across(found).kind == kind
    assert [figure.id for figure in figures(found)] == names


def test_points_that_differ_in_nothing_stand_side_by_side(tmp_path: Path) -> None:
    text = data.NOISY.replace("victim: 0.27x\n", "victim: [1x, 2x, 3x, 4x, 5x]\n", 1)
    text = text.replace("[0x, 0.5x, 1x, 2x, 4x]", "1x")
    found = summary(data.run_folder(tmp_path / "run", text[: text.index("published")], 1))
    positions = across(found)
    assert positions.kind == "point"
    assert len(set(positions.at.values())) == 5


def test_ticks_of_a_logarithmic_axis() -> None:
    assert decades(8e3, 5e6) == (1e4, 3e4, 1e5, 3e5, 1e6, 3e6)
    assert decades(1.5e3, 8e3) == (2e3, 5e3)
    assert decades(1e3, 1e8) == (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)


def _bridge() -> Drawing:
    """Two routers behind one bridge, with every end of every wire, as the test bed tells it."""
    node, edge = Node.model_construct, Edge.model_construct
    nodes = [
        node(id="gen", label="generator", part="generator", inside=None, cores=(1,)),
        node(id="dut", label="DUT", part="dut", inside=None, cores=(0,)),
        node(id="rcv", label="receiver", part="receiver", inside=None, cores=(1,)),
        node(id="g0", label="g0", part="device", inside="gen", cores=()),
        node(id="r0", label="r0", part="device", inside="rcv", cores=()),
        node(id="nic", label="nic", part="device", inside="dut", cores=(0,)),
        node(id="br", label="br", part="device", inside="dut", cores=()),
    ]
    edges = [edge(source="g0", target="nic", label="wire")]
    edges.append(edge(source="nic", target="br", label="port"))
    for name in "ab":
        nodes.append(node(id=name, label=name, part="router", inside="dut", cores=(0,)))
        for end in ("port", "in", "out"):
            inside = "dut" if end == "port" else name
            nodes.append(
                node(id=name + end, label=name + end, part="device", inside=inside, cores=())
            )
        edges.append(edge(source="br", target=f"{name}port", label="port"))
        edges.append(edge(source=f"{name}port", target=f"{name}in", label="veth"))
        edges.append(edge(source=f"{name}in", target=f"{name}out", label="forwards"))
        edges.append(edge(source=f"{name}out", target="r0", label="wire"))
    return Drawing(arm="bridge", nodes=tuple(nodes), edges=tuple(edges))


def test_a_drawing_keeps_what_joins_and_what_works() -> None:
    found = simplify(_bridge())
    assert [node.id for node in found.nodes] == ["gen", "dut", "rcv", "nic", "br", "a", "b"]
    assert {(e.source, e.target, e.label) for e in found.edges} == {
        ("gen", "nic", "wire"),
        ("nic", "br", "port"),
        ("br", "a", "veth"),
        ("br", "b", "veth"),
        ("a", "rcv", "wire"),
        ("b", "rcv", "wire"),
    }


def test_boxes_of_a_drawing_stand_apart_and_routers_inside_the_dut() -> None:
    drawn = draw(_bridge(), LIGHT)
    tree = ET.fromstring(f"<svg>{drawn.body}</svg>")
    rects = [e for e in tree.iter("rect") if float(e.get("width") or 0) > 20]
    boxes = [tuple(float(e.get(k) or 0) for k in ("x", "y", "width", "height")) for e in rects]
    dut, *others = boxes
    assert len(others) == 6
    inside = [b for b in others if dut[0] < b[0] and b[0] + b[2] < dut[0] + dut[2]]
    assert len(inside) == 4
    assert all(dut[1] < b[1] and b[1] + b[3] < dut[1] + dut[3] for b in inside)
    for i, (x, y, width, height) in enumerate(others):
        for x2, y2, width2, height2 in others[i + 1 :]:
            separate = x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y
            assert separate


def test_a_drawing_of_a_circle_ends() -> None:
    node = Node(id="a", label="a", part="device", inside="a", cores=(0,))
    loop = Edge(source="a", target="b", label="")
    back = Edge(source="b", target="a", label="")
    drawing = Drawing(
        arm="x",
        nodes=(node, node.model_copy(update={"id": "b", "inside": None})),
        edges=(loop, back),
    )
    assert draw(drawing, LIGHT).height > 0
    assert draw(Drawing(arm="x", nodes=(), edges=()), LIGHT).width >= 0


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_contrast(mode: str) -> None:
    """WCAG 2.1: 4.5 for text (1.4.3), 3 for lines and marks (1.4.11)."""
    colours = MODES[mode]  # type: ignore[index]  # the parameter is one of the two

    def contrast(colour: str) -> float:
        light, dark = sorted((_luminance(colour), _luminance(colours.card)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    texts = (colours.ink, colours.muted, colours.good, colours.bad, colours.neutral)
    assert min(contrast(colour) for colour in texts) >= 4.5
    marks = (*colours.series, *colours.categories)
    assert min(contrast(colour) for colour in marks) >= 3


def _without_hardest(trial: Trial) -> Trial:
    """The victim stands it all, but not one trial on bridge at 4x is valid."""
    if trial.purpose == "capacity":
        return trial
    routers = tuple(served(r) if r.role == "victim" else r for r in trial.routers)
    lost = (trial.arm, trial.point) == ("bridge", 4)
    return trial.model_copy(
        update={
            "routers": routers,
            "status": "no-verdict" if lost else "ok",
            "reason": "the receiver was the limit" if lost else None,
        }
    )


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    where = tmp_path_factory.mktemp("lacking")
    found = data.experiment(where, data.NOISY, 2)
    trials = [_without_hardest(trial) for trial in data.trials_of(found, 2)]
    return data.run_folder(where / "run", repeats=2, trials=trials)


def test_a_missing_point_stands_in_badge_table_and_plot(lacking: RunFolder) -> None:
    page = render(lacking.path).read_text()
    signed = re.findall(r'<span class="level (\w+)"><span[^>]*>.</span> ([^<]*)</span>', page)
    assert signed == [("good", "Isolated"), ("good", "Isolated"), ("none", "No verdict")]
    assert [row.arm for row in answer_of(summary(lacking)).rows][2] == "bridge"
    assert '<section class="verdict neutral"' in page
    cell = (
        r'<td class="number" data-label="[^"]*">no verdict<small>\(2 of 2 trials invalid\)</small>'
    )
    assert re.search(cell, page)
    assert "2 of 2 trials invalid, because the receiver was the limit" in page
    shown = {figure.id: figure for figure in figures(summary(lacking))}
    for name in ("victim", "throughput", "delay"):
        assert "no verdict" in [swatch.label for swatch in shown[name].legend], name
        drawn = json.dumps([panel.spec for panel in shown[name].panels])
        assert "2 of 2 trials invalid" in drawn, name
    assert "No verdict for bridge at aggressor 4x." in shown["victim"].panels[0].alt
    assert across(summary(lacking)).axis.ticks == (0, 0.5, 1, 2, 4)


def test_a_missing_point_stands_in_markdown_and_csv(lacking: RunFolder, tmp_path: Path) -> None:
    text = render(lacking.path, "md", tmp_path / "r.md").read_text()
    assert "- Isolated: direct and macvlan\n- No verdict: bridge\n" in text
    rows = [line for line in text.splitlines() if line.startswith("| bridge | aggressor 4x")]
    assert len(rows) == 2
    assert all("no verdict (2 of 2 trials invalid)" in row for row in rows)
    with render(lacking.path, "csv", tmp_path / "r.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    missing = [line for line in lines if line["no_verdict"]]
    assert [(m["arm"], m["point"], m["router"], m["throughput_pps"]) for m in missing] == [
        ("bridge", "4", "victim", ""),
        ("bridge", "4", "aggressor", ""),
    ]
    assert missing[1]["aggressor_x"] == "4.0"
    assert len(lines) == 30


def test_a_missing_point_can_be_printed(lacking: RunFolder, tmp_path: Path) -> None:
    assert render(lacking.path, "pdf", tmp_path / "r.pdf").stat().st_size > 0


def test_the_summary_of_an_older_version_is_judged_by_what_is_missing(
    lacking: RunFolder, tmp_path: Path
) -> None:
    old = RunFolder.open(Path(shutil.copytree(lacking.path, tmp_path / "old")))
    green = {"sentence": "The victim keeps its throughput.", "level": "good"}
    known = json.loads(summary(lacking).model_dump_json(exclude={"arms", "missing"}))
    (old.path / "record.jsonl").unlink(missing_ok=True)
    (old.path / "summary.json").write_text(json.dumps({**known, "verdict": green}))
    text = render(old.path, "md").read_text()
    assert "- No verdict: bridge\n" in text
    assert "The victim keeps its throughput." not in text


def test_a_simulated_run_that_was_killed_is_still_called_a_prediction(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=1)
    facts = folder.host().model_copy(update={"simulated": "veth"})
    (folder.path / "record.jsonl").unlink(missing_ok=True)
    (folder.path / "host.json").write_text(facts.model_dump_json())
    (folder.path / "summary.json").unlink()
    assert "Predicted, not measured: profile veth" in render(folder.path, "md").read_text()


def test_an_older_run_whose_experiment_is_no_longer_understood_is_still_shown(
    lacking: RunFolder, tmp_path: Path
) -> None:
    old = RunFolder.open(Path(shutil.copytree(lacking.path, tmp_path / "old")))
    (old.path / "record.jsonl").unlink()
    known = summary(lacking).model_dump_json(exclude={"arms", "missing"})
    (old.path / "summary.json").write_text(known)
    (old.path / "experiment.yaml").write_text("isolane: 0\nlanguage: of yore\n")
    assert summary(lacking).verdict.sentence in render(old.path).read_text()
