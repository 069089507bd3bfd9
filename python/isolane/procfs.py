"""What /proc tells of cores, processes, threads and memory (proc(5)): the one reader of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

TICK_NS = 10_000_000
"""USER_HZ is 100 on every architecture that the native module is built for."""


@dataclass(frozen=True)
class CoreTicks:
    """How a core has spent its time since boot, in ticks."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int

    @property
    def total(self) -> int:
        """All of its time; what guests had is in ``user`` already."""
        return sum(astuple(self))

    @property
    def busy_ns(self) -> int:
        """Time that it was not idle, the hypervisor's part included."""
        return (self.total - self.idle - self.iowait) * TICK_NS

    def since(self, before: CoreTicks) -> CoreTicks:
        """Return what has been spent after an earlier reading."""
        return CoreTicks(*(b - a for a, b in zip(astuple(before), astuple(self), strict=True)))


def core_ticks() -> dict[int, CoreTicks]:
    """Read how each core that is online has spent its time."""
    return {int(name[3:]): ticks for name, ticks in _stat().items() if name != "cpu"}


def all_ticks() -> CoreTicks:
    """Read how all cores together have spent their time."""
    return _stat()["cpu"]


def _stat() -> dict[str, CoreTicks]:
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return {
        name: CoreTicks(*map(int, fields[:8])) for name, *fields in lines if name.startswith("cpu")
    }


def started(task: int | str = "self") -> int | None:
    """Return when a process or thread began, in ticks since boot; None when it has gone.

    Tells it from a later one of its number, since numbers are given out again.
    """
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def thread_name(thread: int) -> str:
    """Return the name (``comm``) of a process or thread; empty when it has gone."""
    with suppress(OSError):
        return Path(f"/proc/{thread}/comm").read_text().rstrip("\n")
    return ""


def threads_of(process: int) -> list[int]:
    """Return the threads of a process, sorted; none when it has gone."""
    with suppress(OSError):
        return sorted(int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir())
    return []


def tracer(process: int) -> int | None:
    """Return the process that traces another one; None where there is none, or it has gone."""
    with suppress(OSError, ValueError, IndexError):
        told = Path(f"/proc/{process}/status").read_text().partition("\nTracerPid:")[2]
        return int(told.split(maxsplit=1)[0]) or None
    return None


def effective_user(process: int) -> int | None:
    """Return whose rights a process has; None when it has ended.

    The folder belongs to that user even where root owns the files in it, as of a process that may
    not be traced (task_dump_owner() in fs/proc/base.c).
    """
    with suppress(OSError):
        return Path(f"/proc/{process}").stat().st_uid
    return None


def sees_processes_of(process: int) -> bool:
    """Tell whether a process is in the PID namespace of this one, not in one within it."""
    with suppress(OSError):  # it has ended
        return Path(f"/proc/{process}/ns/pid").samefile("/proc/self/ns/pid")
    return False


def cpu_ns(thread: int) -> int:
    """Return the CPU time of a thread, ns; 0 when it has gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{thread}/schedstat").read_text().split()[0])
    return 0


def named_processes() -> Iterator[tuple[int, str]]:
    """Yield number and name (``comm``) of each process, kernel threads included."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):  # processes come and go
                yield int(process.name), (process / "comm").read_text().rstrip("\n")


def sees_same(process: int, folder: Path) -> bool:
    """Tell whether what a process finds where a folder is, or was, is the same as here.

    In a container that shares its processes with this host it is another one.
    """
    there = next(found for found in (folder, *folder.parents) if found.exists())
    with suppress(OSError):  # it has ended, or finds nothing there
        return Path(f"/proc/{process}/root{there}").samefile(there)
    return False


def words_of(process: int) -> tuple[bytes, ...]:
    """Return the command line of a process; nothing of a kernel thread, or one that has ended.

    A process that is just being started has none for a moment (in execve(2), behind what tells its
    parent that it succeeded): it is asked again.
    """
    for _ in range(_ASKED):
        try:
            text = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            return ()
        if text:
            return tuple(text.removesuffix(b"\0").split(b"\0"))
        if not _may_have_words(process):
            break
        time.sleep(0.001)
    return ()


_ASKED = 1000
"""A process may also have taken its command line away, and is not waited for for ever."""
_PF_EXITING, _PF_KTHREAD = 0x4, 0x200000
"""linux/sched.h: it has no memory any more, it never had any of its own."""


def _may_have_words(process: int) -> bool:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return fields[0] not in "ZX" and not int(fields[6]) & (_PF_EXITING | _PF_KTHREAD)
    return False


def children(process: int) -> list[int]:
    """Return the processes that a process is the parent of."""
    return _by_parent().get(process, [])


def family(process: int) -> list[int]:
    """Return a process and all its descendants, each after its parent."""
    by_parent = _by_parent()
    found = [process]
    for number in found:  # which grows meanwhile
        found += by_parent.get(number, ())
    return found


def descendants(process: int) -> list[int]:
    """Return the threads of a process and of all its descendants, sorted."""
    return sorted(thread for number in family(process) for thread in threads_of(number))


def _by_parent() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, _ in named_processes():
        with suppress(OSError, ValueError, IndexError):
            parent = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(number)
    return found


def napi_threads_by_name(ifnames: Iterable[str]) -> dict[str, list[int]]:
    """Return the kernel threads that poll interfaces of these names, sorted, by interface.

    The kernel calls them ``napi/<interface>-<number>`` (Linux 5.12). Interfaces of one name in
    several namespaces cannot be told apart so; :func:`isolane.netdev.napi_threads` can (Linux 6.8).
    """
    found: dict[str, list[int]] = {ifname: [] for ifname in ifnames}
    for pid, comm in named_processes():
        ifname = comm.removeprefix("napi/").rpartition("-")[0]
        if comm.startswith("napi/") and ifname in found:
            found[ifname].append(pid)
    return {ifname: sorted(pids) for ifname, pids in found.items()}


def memory_info() -> dict[str, int]:
    """Return the fields of ``/proc/meminfo``: sizes in bytes, ``HugePages_...`` as counts."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        number, *unit = value.split()
        found[name] = int(number) * (1024 if unit else 1)
    return found
