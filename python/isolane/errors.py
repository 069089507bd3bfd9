"""Everything that can go wrong in a way that the user should read about.

``str(error)`` is the complete message, ready to be printed; ``exit_code`` is what the command
leaves with.
"""

from __future__ import annotations

from typing import ClassVar


class IsolaneError(Exception):
    """Base of all errors that are meant for the user: what failed, in one complete message."""

    exit_code: ClassVar[int] = 1


class SpecError(IsolaneError):
    """What was asked for is wrong: a file, a key, a value or a command-line argument."""

    exit_code: ClassVar[int] = 2


class TestbedError(IsolaneError):
    """The test bed could not be built, changed or taken down."""

    __test__: ClassVar[bool] = False  # the name starts with "Test": pytest is not to collect it

    exit_code: ClassVar[int] = 1


class MeasurementError(IsolaneError):
    """A trial could not be carried out, or its results could not be kept."""

    exit_code: ClassVar[int] = 1


class OutputError(IsolaneError):
    """What was made could not be written to where the user wants it."""

    exit_code: ClassVar[int] = 1


class NotSupported(IsolaneError):  # noqa: N818 - the contract's word, and exit 3 is not a failure
    """This host, or this version of Isolane, cannot do what was asked for."""

    exit_code: ClassVar[int] = 3


class TargetMissed(IsolaneError):  # noqa: N818 - the measurement went well, its result did not
    """An isolation target was measured and missed."""

    exit_code: ClassVar[int] = 4
