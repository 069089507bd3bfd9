"""All that is put to the test, in the order in which it is measured."""

from __future__ import annotations

from acceptance.subject import Command, Subject
from acceptance.subjects import (
    accountant,
    beds,
    commands,
    delays,
    guests,
    links,
    shapers,
    shares,
    tcp,
    verification,
    wires,
)

ALL: tuple[Subject | Command, ...] = (
    *shares.SUBJECTS,
    *links.SUBJECTS,
    *wires.SUBJECTS,
    *guests.SUBJECTS,
    *shapers.SUBJECTS,
    *delays.SUBJECTS,
    *accountant.SUBJECTS,
    *tcp.SUBJECTS,
    *commands.SUBJECTS,
    *beds.SUBJECTS,
    *verification.COMMANDS,
)
