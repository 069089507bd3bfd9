"""Creates, enters, configures and removes network namespaces, without a process of their own.

Methods of :class:`Namespace` move the calling thread into the namespace and leave it there, so
they belong into a thread that does nothing else (see :mod:`isolane.testbed.namespace_thread`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from isolane import _native, rtnl
from isolane.errors import NotSupported, TestbedError
from isolane.testbed import kernel
from isolane.testbed.journal import Journal

NETNS_DIR = Path("/run/netns")
GROUP = 0x15A
"""Interface group of all our devices: the kernel deletes a group in one go."""
VANISH_S = 60.0
"""How long links, their programs and the programs' maps may take to disappear; they need
milliseconds, but a host that is overloaded may be long in freeing what nobody uses any more."""
GONE = {errno.ENODEV, errno.EINVAL}
"""What an interface answers that is gone, or that the kernel is just taking away."""
_LACKING = {
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EAFNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ENOENT,  # a file of /proc/sys or of an interface in /sys
}


@contextlib.contextmanager
def step(what: str, needs: str) -> Iterator[None]:
    """Turn an error of the kernel into a message that names the step and what it needs.

    Raises
    ------
    NotSupported
        When the kernel lacks the feature, or root is missing.
    TestbedError
        When it failed for any other reason.
    """
    try:
        yield
    except (OSError, rtnl.NetlinkError) as error:
        code = error.code if isinstance(error, rtnl.NetlinkError) else error.errno
        if code in _LACKING:
            raise NotSupported(f"{what}: this kernel lacks {needs}") from None
        if code in (errno.EPERM, errno.EACCES):
            raise NotSupported(f"{what}: not permitted; the test bed needs root") from None
        reason = os.strerror(code) if code else str(error)
        raise TestbedError(f"{what} failed: {reason} (needs {needs})") from None


class Namespace:
    """An entered namespace with what is needed to work in it: netlink, ioctl, sysfs.

    Parameters
    ----------
    fd
        Descriptor of the namespace; the object owns it from now on.
    """

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.path = NETNS_DIR / name
        self._fd = fd
        with contextlib.ExitStack() as opened:  # what is open when the next step fails
            opened.callback(os.close, fd)
            self.enter()
            self.ioctl = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            opened.callback(self.ioctl.close)
            self.sysfs = kernel.open_detached()
            opened.callback(os.close, self.sysfs)
            self.links = rtnl.IPRoute()  # its socket belongs to the namespace of the thread
            opened.pop_all()

    @classmethod
    def create(cls, name: str, journal: Journal) -> Namespace:
        """Make ``/run/netns/<name>``, marked with the journal's run.

        Raises
        ------
        TestbedError
            When something of that name exists already.
        """
        path = NETNS_DIR / name
        if path.exists():
            raise TestbedError(
                f"{path} exists and is not Isolane's: run `ip netns delete {name}` if nobody "
                "needs it, or rename the router whose namespace would have this name"
            )
        journal.record("netns", name=name)
        with step(f"making network namespace {name}", "network namespaces (CONFIG_NET_NS)"):
            kernel.unshare_net()
            namespace = cls(name, kernel.open_own_net())
            with contextlib.ExitStack() as made:  # closed when the next step fails
                made.callback(namespace.close)
                # The mark comes before the name: whatever has a name of ours has our mark as well.
                namespace.links.link("set", index=1, ifalias=_mark(journal.run))
                path.touch(mode=0o000, exist_ok=False)
                kernel.mount("/proc/thread-self/ns/net", path, kernel.MS_BIND)
                made.pop_all()
        return namespace

    @property
    def inode(self) -> int:
        """What tells it from all other namespaces that there are now."""
        return os.fstat(self._fd).st_ino

    def enter(self) -> None:
        """Move the calling thread into this namespace."""
        kernel.setns_net(self._fd)

    def sysctl(self, key: str, value: int | str) -> None:
        """Write ``/proc/sys/net/<key>`` of this namespace; the thread must have entered it."""
        with step(f"setting net/{key} in {self.name}", f"the sysctl net/{key}"):
            Path(f"/proc/sys/net/{key}").write_text(str(value))

    def write(self, ifname: str, attribute: str, value: int) -> None:
        """Write ``/sys/class/net/<ifname>/<attribute>``; ENODEV: there is no such interface."""
        fd = self._open(ifname, attribute, os.O_WRONLY)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)

    def read(self, ifname: str, attribute: str) -> str:
        """Read ``/sys/class/net/<ifname>/<attribute>``; ENODEV: there is no such interface."""
        fd = self._open(ifname, attribute, os.O_RDONLY)
        try:
            return os.read(fd, 4096).decode().strip()
        finally:
            os.close(fd)

    def _open(self, ifname: str, attribute: str, flags: int) -> int:
        folder = f"class/net/{ifname}"
        try:
            return os.open(f"{folder}/{attribute}", flags, dir_fd=self.sysfs)
        except FileNotFoundError:
            # Either the interface has gone, or this kernel has no such attribute.
            if not os.access(folder, os.F_OK, dir_fd=self.sysfs):
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), ifname) from None
            raise

    def index_of(self, ifname: str) -> int | None:
        """Return the index of an interface; None when it is gone or just going."""
        try:
            return int(self.read(ifname, "ifindex"))
        except OSError as error:
            if error.errno in GONE:
                return None
            raise

    def interfaces(self) -> list[str]:
        """Names of the interfaces, ``lo`` included."""
        directory = os.open("class/net", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.sysfs)
        try:
            return os.listdir(directory)  # noqa: PTH208 - a descriptor has no path
        finally:
            os.close(directory)

    def programs(self) -> list[_native.AttachedProgram]:
        """BPF programs on the interfaces. The thread must have entered it."""
        found = []
        for index in filter(None, map(self.index_of, self.interfaces())):
            for hook in ("nic", "egress_tc"):  # XDP, and classifiers
                with contextlib.suppress(_native.NativeError):  # no clsact qdisc, or just gone
                    program = _native.Plane.attached(hook=hook, netns=None, ifindex=index)
                    if program is not None:
                        found.append(program)
        return found

    def delete_links(self) -> None:
        """Delete all of Isolane's devices at once; wait until they are gone."""
        if self.interfaces() != ["lo"]:
            with contextlib.suppress(rtnl.NetlinkError):  # ENODEV: none of them is Isolane's
                self.links.link("del", group=GROUP)

    def close(self) -> None:
        """Close the namespace; without a name it disappears with its last user."""
        self.links.close()
        self.ioctl.close()
        os.close(self.sysfs)
        os.close(self._fd)


def _mark(run: str) -> str:
    return f"isolane run {run}"


def make_directory(journal: Journal) -> None:
    """Make ``/run/netns`` a shared mount, as ``ip netns add`` does, unless it is one."""
    if not NETNS_DIR.is_dir():
        journal.record("netns-directory")
        NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    with step(f"mounting {NETNS_DIR}", "the right to mount (root)"):
        try:
            kernel.mount("none", NETNS_DIR, kernel.MS_SHARED | kernel.MS_REC)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            journal.record("netns-mount")
            kernel.mount(str(NETNS_DIR), NETNS_DIR, kernel.MS_BIND | kernel.MS_REC)
            kernel.mount("none", NETNS_DIR, kernel.MS_SHARED | kernel.MS_REC)


def drop_directory(made: Iterable[str]) -> None:
    """Undo what of :func:`make_directory` is in ``made``, if nobody else uses it by now."""
    with contextlib.suppress(OSError):  # busy, or not empty: then somebody does
        if "netns-mount" in made and not any(NETNS_DIR.iterdir()):
            kernel.unmount(NETNS_DIR)
        if "netns-directory" in made:
            NETNS_DIR.rmdir()


def remove(namespaces: Iterable[Namespace]) -> list[str]:
    """Delete namespaces and their links, and wait until the links are gone.

    Returns
    -------
    list of str
        What refused to go, as sentences; empty when all is well.
    """
    # Most links first: with one end of a veth goes the other one, and each deletion has the kernel
    # wait for all cores, however many links it takes.
    remaining = sorted(namespaces, key=lambda each: len(each.interfaces()), reverse=True)
    problems = []
    for namespace in remaining:
        namespace.delete_links()
    deadline = time.monotonic() + VANISH_S
    for namespace in remaining:
        while (left := set(namespace.interfaces()) - {"lo"}) and time.monotonic() < deadline:
            time.sleep(0.002)
        if left:
            problems.append(f"links {', '.join(sorted(left))} in {namespace.name} did not go away")
        try:
            _forget(namespace.path, namespace.inode)
        except OSError as error:
            problems.append(f"{namespace.path} cannot be removed: {error.strerror}")
        namespace.close()  # until now the kernel could not give its inode to another one
    return problems


def _forget(path: Path, inode: int) -> None:
    """Remove the name of a namespace, whatever of it somebody else removes at this moment."""
    try:
        status = path.stat()
        if _is_namespace(status):
            if status.st_ino != inode:  # somebody has given the name to another one
                return
            kernel.unmount(path, kernel.MNT_DETACH)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):  # no file, no mount
            raise
    path.unlink(missing_ok=True)


def _is_namespace(status: os.stat_result) -> bool:
    return status.st_dev == Path("/proc/self/ns/net").stat().st_dev


def remove_marked(names: Iterable[str], run: str) -> tuple[list[str], list[str]]:
    """Remove those of the named namespaces that carry the mark of ``run``; wait for their end.

    The calling thread ends up in one of them: call it in a thread of its own.

    Returns
    -------
    tuple of list of str
        The names that were removed; what refused to go, as sentences.
    """
    found: list[Namespace] = []
    removed: list[str] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            _sort(name, run, found, removed)
        except OSError as error:
            problems.append(f"{NETNS_DIR / name} cannot be removed: {error.strerror}")
    programs: list[_native.AttachedProgram] = []
    for namespace in found:
        namespace.enter()
        programs += namespace.programs()
    problems += remove(found)
    problems += _await_freed(programs)
    removed += [namespace.name for namespace in found if not namespace.path.exists()]
    return removed, problems


def _sort(name: str, run: str, found: list[Namespace], removed: list[str]) -> None:
    """Open the namespace if it is the run's; remove what is not one yet."""
    path = NETNS_DIR / name
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    status = os.fstat(fd)  # of what is open: the name may be another's by now
    if not _is_namespace(status):
        os.close(fd)
        # The run died between making the file and mounting on it.
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            path.unlink(missing_ok=True)
            removed.append(name)
        return
    namespace = Namespace(name, fd)
    with contextlib.ExitStack() as opened:
        opened.callback(namespace.close)
        if namespace.read("lo", "ifalias") == _mark(run):
            found.append(namespace)
            opened.pop_all()


def _await_freed(programs: Sequence[_native.AttachedProgram]) -> list[str]:
    """Wait until programs are gone that nothing holds any more, and then their maps.

    Returns
    -------
    list of str
        Programs that did not go, as sentences. A map that stays is another's: who has opened or
        pinned it keeps it.
    """
    names = {program.id: program.name for program in programs}
    left = _left(names, kernel.program_exists)
    gone = (program for program in programs if program.id not in left)
    _left({number for program in gone for number in program.map_ids}, kernel.map_exists)
    return [f"BPF program {names[number]} (id {number}) did not go away" for number in left]


def _left(numbers: Collection[int], exists: Callable[[int], bool]) -> list[int]:
    deadline = time.monotonic() + VANISH_S
    while left := [number for number in numbers if exists(number)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.002)
    return left
