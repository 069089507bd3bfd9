"""Runs the probes and turns their answers into findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from isolane.doctor import bpf, cgroups, guests, link_probes, machine, nics, perf_counters
from isolane.doctor.answers import Answer, Finding, Probe
from isolane.doctor.bounded import answer_all
from isolane.doctor.capabilities import CAPABILITIES, REQUIREMENTS
from isolane.errors import NotSupported, SpecError

PROBES: tuple[Probe, ...] = (
    *machine.PROBES,
    *bpf.PROBES,
    *link_probes.PROBES,
    *cgroups.PROBES,
    *perf_counters.PROBES,
    *nics.PROBES,
    *guests.PROBES,
)


def examine(only: Collection[str] | None = None) -> tuple[Finding, ...]:
    """Try everything that this host may be able to do, and return the findings.

    Parameters
    ----------
    only
        Ids of capabilities; by default all. Only their probes run, so that asking for a few is
        quick (without ``kvm``, ``tcg`` and ``uml``: below 1 s).

    Returns
    -------
    tuple of Finding
        Findings in the order of the catalogue; one per capability, or one per NIC.
    """
    wanted = set(CAPABILITIES) if only is None else set(only)
    probes = [probe for probe in PROBES if wanted & set(probe.answers)]
    # Virtual machines come last and alone: they keep the cores busy, which disturbs other probes.
    answers = answer_all(probe for probe in probes if probe not in guests.PROBES)
    answers |= answer_all(probe for probe in probes if probe in guests.PROBES)
    return _findings(answers, wanted)


def _findings(answers: Mapping[str, Answer], wanted: Collection[str]) -> tuple[Finding, ...]:
    order = {name: position for position, name in enumerate(CAPABILITIES)}
    found: list[tuple[int, Finding]] = []
    for name, answer in answers.items():
        base, _, thing = name.partition(":")
        if base not in wanted:
            continue
        known = CAPABILITIES[base]
        title = f"{known.title}: {thing}" if thing else known.title
        finding = Finding(
            id=name,
            group=known.group,
            title=title,
            status=answer.status,
            detail=answer.detail,
            rules_out=known.rules_out,
            remedy=known.remedy,
        )
        found.append((order[base], finding))
    return tuple(finding for _, finding in sorted(found, key=lambda pair: pair[0]))


def lacking(job: str, findings: Iterable[Finding] | None = None) -> tuple[Finding, ...]:
    """Return the findings that keep this host from doing a job.

    Parameters
    ----------
    job
        ``measure``, ``enforce`` or ``vm``.
    findings
        Findings of an earlier examination; by default the host is examined now.

    Raises
    ------
    SpecError
        If the job is not known.
    """
    needed = REQUIREMENTS.get(job)
    if needed is None:
        raise SpecError(f"--require {job}: not a job; accepted: {', '.join(REQUIREMENTS)}")
    looked = examine(needed) if findings is None else tuple(findings)
    return tuple(
        finding
        for finding in looked
        if finding.id.partition(":")[0] in needed and finding.status in {"no", "unknown"}
    )


def require(job: str) -> None:
    """Refuse when this host cannot do a job.

    Raises
    ------
    NotSupported
        Names everything that is missing and how to get it.
    """
    lacks = lacking(job)
    if lacks:
        listed = "\n".join(f"  {finding.lack()}" for finding in lacks)
        raise NotSupported(f"this host cannot {job}:\n{listed}")
