"""Reads experiment files, and reports all problems of a file at once.

Each problem is a line ``FILE:LINE: key.path: what is wrong with VALUE; accepted: ...``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from isolane.errors import SpecError
from isolane.spec.base import SpecModel
from isolane.spec.document import Document, NotYaml, read_document
from isolane.spec.experiment import Experiment
from isolane.spec.explain import problems_of
from isolane.spec.problems import Loc, Problem, listed, nearest, show
from isolane.spec.repair import structure_problems

MAX_FILE_BYTES: Final = 250_000
MAX_PROBLEMS: Final = 30
"""Maximum lines of a message; for a file that is no experiment it would be very long."""


Data = TypeVar("Data", bound=SpecModel)


def load_experiment(path: Path) -> Experiment:
    """Return the experiment in a file; nothing else is read and nothing on the host is touched.

    Raises
    ------
    SpecError
        If the file cannot be read or is not a valid experiment: all that is wrong, one problem a
        line.
    """
    return parse_experiment(_read(path), str(path))


def parse_experiment(text: str, name: str = "<text>") -> Experiment:
    """Return the experiment in a text; ``name`` stands for the file in messages.

    Raises
    ------
    SpecError
        As :func:`load_experiment`.
    """
    document, experiment = _parse(text, name, Experiment, "an experiment")
    if document.problems:
        raise _error(name, document, document.problems)
    return experiment


def only_arms(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """Return an experiment with these of its arms alone, in the order of the file.

    Raises
    ------
    SpecError
        If there is no such arm, or what is left does not fit together, such as a capacity of an
        arm that was left out.
    """
    known = [arm.name for arm in experiment.arms]
    for name in names:
        if name not in known:
            there = listed(known) + nearest(name, known) if known else "none: it has no arms"
            raise SpecError(f"--arms: no arm {show(name)}; accepted: {there}")
    chosen = tuple(arm for arm in experiment.arms if arm.name in names)
    reduced = experiment.model_copy(update={"arms": chosen})
    managed = {r.group for arm in reduced.resolved_arms() for r in arm.routers if r.policy}
    routers = tuple(  # a policy that only the other arms had is none any more
        router if router.name in managed else router.model_copy(update={"policy": None})
        for router in reduced.routers
    )
    text = reduced.model_copy(update={"routers": routers}).to_yaml()
    return parse_experiment(text, f"--arms {','.join(names)}")


def load_file(path: Path, model: type[Data], what: str) -> Data:
    """Return what a data file holds; ``what`` is the word for it in messages (``a profile``).

    Raises
    ------
    SpecError
        If the file cannot be read or is not valid; one problem a line.
    """
    return parse_file(_read(path, what), str(path), model, what)


def parse_file(text: str, name: str, model: type[Data], what: str) -> Data:
    """Return what a text holds, as :func:`load_file`; ``name`` stands for the file in messages."""
    document, data = _parse(text, name, model, what)
    if document.problems:
        raise _error(name, document, document.problems)
    return data


def refuse(path: Path, problems: Sequence[Problem]) -> None:
    """Raise SpecError for problems that depend on the host; do nothing if there are none.

    Parameters
    ----------
    path
        The experiment file: the problems are told with their lines.
    problems
        The problems.
    """
    if problems:
        raise _error(str(path), read_document(_read(path)), list(problems))


def _parse(text: str, name: str, model: type[Data], what: str) -> tuple[Document, Data]:
    try:
        document = read_document(text)
    except NotYaml as error:
        line = "" if error.line is None else f"{error.line}:"
        msg = f"{name}:{line} not valid YAML: {error}; accepted: {what} in YAML"
        raise SpecError(msg) from None
    if document.value is None:
        raise SpecError(f"{name}: the file is empty; accepted: {what} in YAML")
    if not isinstance(document.value, dict):
        got = "a list" if isinstance(document.value, list) else "a single value"
        msg = f"{name}:1: the file holds {got}; accepted: {what}, a mapping of keys"
        raise SpecError(msg)
    try:
        return document, model.model_validate(document.value)
    except ValidationError as error:
        problems = problems_of(error, model)
        if issubclass(model, Experiment):
            problems += structure_problems(document.value, error)
        raise _error(name, document, [*document.problems, *problems]) from None


def _read(path: Path, what: str = "an experiment") -> str:
    """Return the text of a regular file."""
    accepted = f"accepted: {what} file in YAML"
    try:
        # Not blocking: a FIFO without a writer would otherwise hang before it can be refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; {accepted}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(f"{path}: cannot be read ({reason}); {accepted}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise SpecError(f"{path}: is {what}; {accepted}")
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror}); {accepted}") from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise SpecError(f"{path}: is larger than {MAX_FILE_BYTES} bytes; {accepted}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(f"{path}: is not text (UTF-8); {accepted}") from None
    if "\0" in text:
        raise SpecError(f"{path}: is not text (it has zero bytes); {accepted}")
    return text


def _error(name: str, document: Document, problems: list[Problem]) -> SpecError:
    """Return the error that tells all problems, in the order of the file."""
    shown = sorted({(*document.location(p.loc), str(p)) for p in problems}, key=_order)
    lines = [f"{name}:{line}: {_key(loc)}{what}" for line, loc, what in shown]
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"{name}: and {len(lines) - MAX_PROBLEMS} more"]
    return SpecError("\n".join(lines))


def _order(shown: tuple[int, Loc, str]) -> tuple[int, str, str]:
    return shown[0], _key(shown[1]), shown[2]


def _key(loc: Loc) -> str:
    """Return a location as ``routers[0].path: ``; nothing for the document itself."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return f"{text.lstrip('.')}: " if text else ""
