"""Whom one asks when one asks all back-ends: those that have ended, and those that hang."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isolane.errors import MeasurementError
from isolane.netback.control import statuses
from isolane.netback.folders import control_of, own_folder

pytestmark = pytest.mark.native


@contextmanager
def silent(directory: Path) -> Iterator[threading.Event]:
    """Have something listen where a back-end would, and hang up; yields what tells of a call."""
    asked = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control_of("edge", directory)))
        listener.listen()

        def hang_up() -> None:
            while True:
                theirs, _ = listener.accept()
                theirs.recv(1 << 16)
                theirs.close()
                if asked.is_set():
                    return
                asked.set()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        yield asked
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(control_of("edge", directory)))
            last.sendall(b"\n")
            last.recv(1)
        thread.join()


def test_one_that_hangs_is_left_out_unless_all_are_asked_for(tmp_path: Path) -> None:
    with own_folder("edge", tmp_path), silent(tmp_path) as asked:
        assert statuses(tmp_path) == ()
        assert asked.is_set()
    with (
        own_folder("edge", tmp_path),
        silent(tmp_path),
        pytest.raises(MeasurementError, match="back-end edge ended before it answered"),
    ):
        statuses(tmp_path, all_of_them=True)


def test_one_that_has_ended_is_none(tmp_path: Path) -> None:
    assert statuses(tmp_path, all_of_them=True) == ()
    with own_folder("edge", tmp_path):  # it is about to listen
        assert statuses(tmp_path, all_of_them=True) == ()
