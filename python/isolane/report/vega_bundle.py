"""The library that draws plots, as a page needs it, kept from one command to the next.

Putting Vega, Vega-Lite and vega-embed together takes more than a second, which each run and each
report would spend again. The outcome depends on the version of vl-convert alone, so it is kept
in the user's cache directory (``$XDG_CACHE_HOME/isolane``, or ``~/.cache/isolane``). A user without
such a directory waits each time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from importlib.metadata import version
from pathlib import Path
from typing import Final

import vl_convert

from isolane import files

_SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"
_LAST_WORDS: Final = f"\n/* whole: {_SNIPPET} */\n"
"""A file that does not end with this is not the library, or not all of it."""


@functools.cache
def bundle() -> str:
    """Vega, Vega-Lite and vega-embed, once for all plots; does not end its script element."""
    kept = _cache_file()
    if kept is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            library = kept.read_text(encoding="utf-8")
            if library.endswith(_LAST_WORDS):
                return library
    library = vl_convert.javascript_bundle(_SNIPPET).replace("</script", "<\\/script")
    library += _LAST_WORDS
    if kept is not None:
        with contextlib.suppress(OSError):
            files.replace(kept, library.encode())
    return library


def _cache_file() -> Path | None:
    """Where the library is kept; None where there is no directory that only this user writes to."""
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        if not _own(home if home.exists() else home.parent):
            return None  # under sudo it may be another user's
        folder = home / "isolane"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / f"vega-{version('vl-convert-python')}.js" if _own(folder) else None
    except (OSError, RuntimeError):  # no home at all
        return None


def _own(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
