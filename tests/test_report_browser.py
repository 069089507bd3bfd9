"""The report in a real browser: Debian's chromium, headless, driven over its DevTools protocol.

What is shown is synthetic (see isolane.report.test_data): this tests the page, not a measurement.
"""

import base64
import contextlib
import functools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from isolane.analysis.answer import answer_of
from isolane.report import render, tables
from isolane.report import test_data as data
from isolane.report.answer_box import answer_box
from isolane.results.folder import RunFolder

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("chromium") is None and "CI" not in os.environ,
        reason="needs Debian's chromium: apt-get install chromium (make setup does)",
    ),
]

LIMIT_S = 600.0
"""How long an answer may take: a limit for what hangs."""
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    # A page is shown once, for a second: what takes time to be ready for more is left out.
    "--disable-extensions",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--in-process-gpu",
    "--no-zygote",
    "--js-flags=--no-opt --no-maglev",
    "--remote-debugging-pipe",
]


class Browser:
    """A page in chromium; commands and events are JSON over a pair of pipes."""

    def __init__(self, profile: Path) -> None:
        command_end, self._commands = os.pipe()
        self._events, event_end = os.pipe()
        # bash gives the pipes the numbers 3 and 4, where the browser expects them.
        log, url = str(profile.with_suffix(".log")), "about:blank"
        script = f'exec "$@" 3<&{command_end} 4>&{event_end} 2>"$0"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, log, "chromium", *FLAGS, f"--user-data-dir={profile}", url],
            pass_fds=(command_end, event_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(command_end)
        os.close(event_end)
        self._pending = b""
        self._number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", session=None, targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close", session=None)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._events)

    def call(self, method: str, session: str | None = "", **params: Any) -> Any:
        """Send a command and wait for its answer; events on the way are looked at."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session or self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)
        raise AssertionError(f"the browser did not answer {method}")

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._events], [], [], deadline - time.monotonic())
            chunk = os.read(self._events, 1 << 20) if ready else b""
            assert chunk, "the browser has ended or hangs"
            self._pending += chunk
        text, _, self._pending = self._pending.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.problems.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in {"error", "warning"}:
                self.problems.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, file: Path, width: int, scheme: str = "light") -> None:
        """Show a file at a width and wait until its script is done."""
        self.problems.clear()
        self.requests.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=file.as_uri())
        self.run(
            """new Promise((done, fail) => {
              const look = () => {
                const ready = document.readyState === "complete" && location.protocol === "file:";
                const plots = document.querySelectorAll(".plot").length;
                if (ready && (plots === 0 || document.documentElement.dataset.ready)) done();
                else setTimeout(look, 20);
              };
              setTimeout(() => fail(new Error("the page is not ready")), LIMIT_MS);
              look();
            })""".replace("LIMIT_MS", f"{LIMIT_S * 1000:.0f}")
        )

    def picture(self, target: Path) -> None:
        """Keep a picture of the whole page, for people."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        target.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser") / "profile")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(data.run_folder(tmp_path_factory.mktemp("noisy") / "run").path)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], RunFolder]], Path]:
    """Render the report of a run that a function makes, once for all widths."""
    return functools.cache(lambda make: render(make(tmp_path_factory.mktemp("page")).path))


UNFOLD = """new Promise((done) => {
  for (const folded of document.querySelectorAll("details:has(.plot)")) folded.open = true;
  setTimeout(done, 200);
})"""
"""Opens what is folded, and lets the plots in it take their width."""

PLOTS = """[...document.querySelectorAll(".plot")].map((plot) => {
  const marks = [...plot.querySelectorAll("svg .role-mark path, svg .role-mark line")];
  const sizes = marks.map((mark) => mark.getBoundingClientRect());
  const drawn = sizes.filter((box) => box.width + box.height > 0).length;
  const frame = plot.querySelector("svg.marks")?.getBoundingClientRect();
  return { id: plot.id, drawn, width: frame?.width ?? 0, height: frame?.height ?? 0,
           room: plot.getBoundingClientRect().width };
})"""


CUT_OFF = """(() => {{ const box = {e}.getBoundingClientRect();
  const room = {e}.closest(".scroll").getBoundingClientRect();
  return box.left < room.left - 0.5 || box.right > room.right + 0.5; }})()"""

ENTRIES = f"""[...document.querySelectorAll("#results tbody td.number")].map((td) => ({{
  text: td.textContent, seen: td.getBoundingClientRect().width > 0, heading: td.dataset.label,
  label: getComputedStyle(td, "::before").content, cut: {CUT_OFF.format(e="td")} }}))"""


def check(browser: Browser, width: int, plots: int) -> None:
    """Look for what no report may have: errors, requests, empty plots, a page wider than it is."""
    browser.run(UNFOLD)
    assert browser.problems == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.requests)
    found = browser.run(PLOTS)
    assert len(found) == plots
    for plot in found:
        assert plot["drawn"] >= 4, plot
        assert 0 < plot["width"] <= plot["room"] + 0.5, plot
        assert plot["height"] > 150, plot
    wide = browser.run("document.documentElement.scrollWidth")
    assert wide <= browser.run("innerWidth") == width
    tiny = """[...document.querySelectorAll("main *")].filter((e) => e.childNodes.length === 1 &&
      e.firstChild.nodeType === 3 && e.getBoundingClientRect().width > 0 &&
      parseFloat(getComputedStyle(e).fontSize) < 10).map((e) => e.outerHTML)"""
    assert browser.run(tiny) == []


INK = """[getComputedStyle(document.body).backgroundColor,
  document.querySelector('.plot .role-axis-label text').getAttribute('fill')]"""


@pytest.mark.parametrize("width", [1280, 400])
def test_report_of_a_noisy_neighbour(browser: Browser, noisy: Path, width: int) -> None:
    browser.open(noisy, width, "light")
    ink = browser.run(INK)
    every_result_can_be_read(browser, noisy, width)
    all_is_there(browser, noisy, width)
    a_series_can_be_hidden(browser)
    browser.open(noisy, width, "dark")
    dark = browser.run(INK)
    assert dark[0] != ink[0]
    assert dark[1] != ink[1]
    all_is_there(browser, noisy, width, "dark")


def test_every_result_can_be_read_on_a_tablet(browser: Browser, noisy: Path) -> None:
    browser.open(noisy, 760)
    every_result_can_be_read(browser, noisy, 760)


def all_is_there(browser: Browser, noisy: Path, width: int, scheme: str = "light") -> None:
    check(browser, width, plots=2 + 3 + 4 + 6 + 6 + 3)
    summary = RunFolder.open(noisy.parent).summary()
    assert summary is not None
    shown = browser.run("document.getElementById('verdict').innerText")
    assert shown == " ".join(answer_of(summary).sentences)
    rows = """[...document.querySelectorAll('#answer tbody tr')].map((tr) => [...tr.children]
      .map((td) => td.innerText.trim()))"""
    found = [["".join(text.split()) for text in row] for row in browser.run(rows)]
    expected = [[entry.sign + entry.text for entry in row] for row in answer_box(summary).rows]
    assert found == [["".join(text.split()) for text in row] for row in expected]
    cut = """[...document.querySelectorAll('#answer td')].filter((td) => {
      const box = td.getBoundingClientRect();
      const around = td.closest('.scroll').getBoundingClientRect();
      return box.right > around.right + 0.5 || box.left < around.left - 0.5; }).length"""
    assert browser.run(cut) == 0
    shown = """[...document.querySelectorAll('#setup svg')].filter(
      (svg) => svg.getBoundingClientRect().width > 0)"""
    assert browser.run(f"{shown}.length") == 3
    assert browser.run(f"{shown}.filter((svg) => {CUT_OFF.format(e='svg')}).length") == 0
    if keep := os.environ.get("ISOLANE_TEST_PICTURES"):
        browser.picture(Path(keep) / f"noisy-{width}-{scheme}.png")


def every_result_can_be_read(browser: Browser, noisy: Path, width: int) -> None:
    entries = browser.run(ENTRIES)
    summary = RunFolder.open(noisy.parent).summary()
    assert summary is not None
    expected = tables.results(summary)
    figures = [value for row in expected.rows for value in row[expected.words :]]
    assert len(entries) == len(figures)
    narrow = width < 760
    for entry, value in zip(entries, figures, strict=True):
        if narrow and value.text == tables.NOTHING:
            assert not entry["seen"]  # a card leaves out what there is nothing of
            continue
        assert entry["seen"], entry
        assert entry["text"] == f"{value.text}{value.interval}"
        assert entry["label"] == ('"' + entry["heading"] + '"' if narrow else "none")
        assert not narrow or not entry["cut"], entry
    sideways = browser.run("""(() => { const box = document.querySelector('#results .scroll');
      return box.scrollWidth - box.clientWidth; })()""")
    assert sideways == 0 or width == 760


def a_series_can_be_hidden(browser: Browser) -> None:
    count = "document.querySelectorAll('#plot-victim-1 .mark-symbol path').length"
    before = browser.run(count)
    browser.run("document.querySelector('#figure-victim .legend button').click()")
    after = browser.run(f"new Promise((done) => setTimeout(() => done({count}), 200))")
    assert (before, after) == (15, 10)


def _sweep(folder: Path) -> RunFolder:
    return data.run_folder(folder / "run", data.SWEEP)


def _ladder(folder: Path) -> RunFolder:
    return data.run_folder(folder / "run", data.LADDER)


def _spoilt(folder: Path) -> RunFolder:
    """A run with everything that can be missing, and names that would break a careless page."""
    text = data.NOISY.replace("What a noisy", "<img src=x onerror=alert(1)></script><b>What")
    trials = data.trials_of(data.experiment(folder, text, 2), 2)
    trials = [
        trial.model_copy(update={"status": "failed", "reason": "</script><i>gone</i>"})
        if trial.arm == "direct" or trial.trial % 7 == 0
        else trial.model_copy(
            update={
                "routers": tuple(
                    r.model_copy(update={"delay": None, "cpu_ns": None, "cpu_share": None})
                    for r in trial.routers
                )
            }
        )
        for trial in trials
    ]
    return data.run_folder(folder / "run", text, 2, trials, complete=False)


def _empty(folder: Path) -> RunFolder:
    return data.run_folder(folder / "run", trials=[], complete=False)


def _once(folder: Path) -> RunFolder:
    return data.run_folder(folder / "run", repeats=1)


@pytest.mark.parametrize(
    ("make", "plots"),
    [
        (_sweep, 1 + 4 + 4 + 2 + 3),
        (_ladder, 1 + 4 + 4 + 2 + 3),
        (_spoilt, 2 + 3 + 4 + 4 + 1),
        (_empty, 0),
        (_once, 2 + 3 + 4 + 6 + 6 + 3),
    ],
)
@pytest.mark.parametrize("width", [1280, 400])
def test_other_experiments_and_bad_days(
    browser: Browser,
    page: Callable[[Callable[[Path], RunFolder]], Path],
    make: Callable[[Path], RunFolder],
    plots: int,
    width: int,
) -> None:
    browser.open(page(make), width)
    check(browser, width, plots)
    assert browser.run("document.querySelectorAll('main img, main b, main i').length") == 0
    if keep := os.environ.get("ISOLANE_TEST_PICTURES"):
        browser.picture(Path(keep) / f"{make.__name__}-{width}.png")
