"""Engines and libvirt of this host, with a container or machine that they really run.

Each test has a host of its own: network and mounts. What an engine keeps in /run, /var and /etc is
in memory there, so that it ends with the test, and no daemon of the host is asked. Containers are
one program, busybox, so nothing is fetched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from isolane.enforce.find.conftest import LIMIT_S, Playground, wait_for
from isolane.testbed import kernel

BUSYBOX = "busybox"
CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
GROUPS = Path("/sys/fs/cgroup")
IN_MEMORY = ("/run", "/var/lib", "/var/log", "/var/cache", "/etc/libvirt")
LIBVIRT_USER = {
    "passwd": "libvirt-qemu:x:64055:64055::/:/bin/false",
    "group": "libvirt-qemu:x:64055:",
}
"""libvirt asks for this user even where it is told to run machines as another."""

pytestmark = [pytest.mark.root, pytest.mark.slow]


def needs(*tools: str) -> pytest.MarkDecorator:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    reason = f"{' and '.join(missing)} not installed: make test does it (packages-test.debian)"
    return pytest.mark.skipif(bool(missing), reason=reason)


@pytest.fixture
def engine_host(playground: Playground, tmp_path: Path) -> Iterator[Playground]:
    """A host whose engines know of nothing, and leave nothing."""
    before = _control_groups()
    playground.do(lambda: _own_mounts(tmp_path))
    playground.run("ip link set lo up")
    playground.run("ip link add br0 type bridge")
    playground.run("ip link set br0 up")
    yield playground
    playground.stack.close()
    wait_for(lambda: all(_removed(group) for group in _control_groups() - before))


def _own_mounts(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    kernel.mount("none", Path("/"), MS_REC | MS_PRIVATE)
    kept = folder / "kept"
    kept.mkdir()
    # Engines look for bridges in /sys/class/net, which shows the namespace that it was mounted in.
    kernel.mount(str(GROUPS), kept, MS_BIND | MS_REC)
    _mount("sysfs", "/sys")
    kernel.mount(str(kept), GROUPS, MS_BIND | MS_REC)
    if (GROUPS / "unified").is_mount():  # crun refuses hosts that have both versions
        kernel.unmount(GROUPS / "unified")
    if Path("/dev/kvm").exists():  # what is started is emulated; nothing is to try the device
        kernel.mount("/dev/null", Path("/dev/kvm"), MS_BIND)
    for name in ("passwd", "group"):  # libvirt wants its user even where it is told another
        copy = folder / name
        line = (
            "libvirt-qemu:x:64055:64055::/:/bin/false"
            if name == "passwd"
            else "libvirt-qemu:x:64055:"
        )
        copy.write_text(Path("/etc", name).read_text() + line + "\n")
        kernel.mount(str(copy), Path("/etc", name), MS_BIND)
    for directory in IN_MEMORY:
        if Path(directory).is_dir():
            _mount("tmpfs", directory)
    Path("/run/lock").mkdir()


def _mount(kind: str, target: str) -> None:
    subprocess.run(["mount", "-t", kind, kind, target], check=True, timeout=LIMIT_S)


def _control_groups() -> set[Path]:
    return {
        entry
        for hierarchy in GROUPS.iterdir()
        if hierarchy.is_dir()
        for entry in hierarchy.iterdir()
        if entry.name.startswith(("libpod", "lxc.", "machine"))
    }


def _removed(group: Path) -> bool:
    """Remove a cgroup with those below it; false while a process that ends is in it."""
    try:
        for folder, _, _ in os.walk(group, topdown=False):
            Path(folder).rmdir()
    except OSError:
        return not group.exists()
    return True


def root_folder(folder: Path) -> Path:
    """Make a file system that holds busybox."""
    for name in ("bin", "dev", "proc", "sys"):
        (folder / name).mkdir(parents=True)
    shutil.copy(str(shutil.which(BUSYBOX)), folder / "bin")
    for name in ("sh", "sleep"):
        (folder / "bin" / name).symlink_to(BUSYBOX)
    return folder


@needs("podman", BUSYBOX)
def test_a_container_that_podman_runs(engine_host: Playground, tmp_path: Path) -> None:
    host, tree, archive = engine_host, root_folder(tmp_path / "root"), tmp_path / "root.tar"
    assert "no such container" in host.missing("{podman: r1}")
    subprocess.run(["tar", "-C", tree, "-cf", archive, "."], check=True)
    host.run(f"podman import -q {archive} isolane-test:1")
    limits = []
    for name in ("nofile", "nproc"):  # podman's own are more than some hosts let it have
        _, limit = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        limit = 1024 if limit == resource.RLIM_INFINITY else min(limit, 1024)
        limits.append(f"--ulimit {name}={limit}:{limit}")
    words = f"--network none --cgroups disabled {' '.join(limits)} isolane-test:1 /bin/sleep 1000"
    host.run(f"podman create --name r1 {words}")
    host.stack.callback(host.run, "podman rm --force --time 0 --all")
    assert host.missing("{podman: r1}") == "Podman container r1 does not run (it is created)"
    host.run("podman start r1")
    pid = int(host.run("podman inspect --format {{.State.Pid}} r1"))
    host.run(f"ip link add v1 type veth peer name eth0 netns {pid}")
    host.run("ip link set v1 master br0 up")
    host.run(f"nsenter --target {pid} --net ip link set eth0 up")
    router = host.found("{podman: r1}")
    assert (router.kind, router.netns_inode) == ("container", inode(pid))
    (interface,) = router.interfaces
    assert (interface.ifname, interface.host_ifname, interface.bridge) == ("eth0", "v1", "br0")
    # Engines take the beginning of an ID for a name: that would be somebody else's container.
    beginning = host.run("podman ps --format {{.ID}}").strip()[:2]
    assert "r1" in host.run(f"podman inspect --format {{{{.Name}}}} {beginning}")
    assert host.missing(f"{{podman: '{beginning}'}}").startswith(
        f"there is no Podman container {beginning}"
    )
    host.run("podman stop --time 0 r1")
    assert host.missing("{podman: r1}") == "Podman container r1 does not run (it is exited)"


@needs("lxc-start", BUSYBOX)
def test_a_container_that_lxc_runs(engine_host: Playground) -> None:
    host, folder = engine_host, Path("/var/lib/lxc/r1")
    assert host.missing("{lxc: r1}") == "LXC container r1: lxc-info says: r1 doesn't exist"
    config = f"""\
lxc.uts.name = r1
lxc.rootfs.path = dir:{folder}/root
lxc.init.cmd = /bin/sleep 1000
lxc.autodev = 0
lxc.apparmor.profile = unchanged
lxc.net.0.type = veth
lxc.net.0.link = br0
lxc.net.0.flags = up
lxc.net.0.veth.pair = v1
lxc.net.0.hwaddr = 02:00:00:00:12:34
"""

    def make() -> None:
        root_folder(folder / "root")
        (folder / "config").write_text(config)

    host.do(make)
    assert host.missing("{lxc: r1}") == "LXC container r1 does not run"
    host.run("lxc-start --name r1")
    host.stack.callback(host.do, lambda: subprocess.run(["lxc-stop", "--kill", "r1"], check=False))
    pid = int(host.run("lxc-info --no-humanize --pid --name r1"))
    router = host.found("{lxc: r1}")
    assert (router.kind, router.netns_inode) == ("container", inode(pid))
    (interface,) = router.interfaces
    assert (interface.ifname, interface.host_ifname, interface.bridge) == ("eth0", "v1", "br0")
    assert interface.mac == "02:00:00:00:12:34"
    host.run("lxc-stop --kill --name r1")
    assert host.missing("{lxc: r1}") == "LXC container r1 does not run"


MACHINE = """\
<domain type='qemu'>
  <name>r1</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices>
    <emulator>{qemu}</emulator>
    <interface type='bridge'>
      <source bridge='br0'/><mac address='52:54:00:AA:bb:01'/>
      <model type='e1000'/><rom enabled='no'/>
    </interface>
    <interface type='ethernet'>
      <mac address='52:54:00:aa:bb:02'/><target dev='mytap'/>
      <model type='virtio'/><rom enabled='no'/>
    </interface>
    <controller type='usb' model='none'/><memballoon model='none'/>
  </devices>
</domain>
"""
VIRSH = "virsh --connect qemu:///system"
LIBVIRT_QEMU = """\
security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
"""
REAPER = """\
import ctypes, os, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
daemon = os.spawnvp(os.P_NOWAIT, "setpriv", ["setpriv", "--pdeathsig", "TERM", *sys.argv[1:]])
while os.wait()[0] != daemon:
    pass
"""
"""libvirtd waits for the end of each QEMU that it starts to learn its abilities: seconds, where
nobody reaps it soon."""
LIBVIRT_DAEMON = 'auth_unix_ro = "none"\nauth_unix_rw = "none"\nunix_sock_group = "root"\n'


@needs("libvirtd", "virsh", "qemu-system-x86_64")
def test_a_machine_that_libvirt_runs(engine_host: Playground, tmp_path: Path) -> None:
    host = engine_host
    assert "virsh says: Failed to connect socket" in host.missing("{libvirt: r1}")
    (tmp_path / "r1.xml").write_text(MACHINE.format(qemu=shutil.which("qemu-system-x86_64")))

    def configure() -> None:
        Path("/etc/libvirt/qemu.conf").write_text(LIBVIRT_QEMU)
        Path("/etc/libvirt/isolane.conf").write_text(LIBVIRT_DAEMON)

    host.do(configure)
    with (tmp_path / "libvirtd.log").open("wb") as log:
        daemon = host.start(
            sys.executable, "-c", REAPER,
            "libvirtd", "--config", "/etc/libvirt/isolane.conf", stderr=log,
        )  # fmt: skip
    wait_for(lambda: _answers(host, daemon))
    assert host.missing("{libvirt: r1}") == (
        "libvirt domain r1: virsh says: failed to get domain 'r1'"
    )
    host.run(f"{VIRSH} define {tmp_path / 'r1.xml'}")
    assert host.missing("{libvirt: r1}") == "libvirt domain r1 does not run"
    host.run(f"{VIRSH} start --paused r1")
    host.stack.callback(
        host.do, lambda: subprocess.run([*VIRSH.split(), "destroy", "r1"], check=False)
    )
    first = host.found("{libvirt: r1}")
    router = host.found("{libvirt: r1}")
    assert (router.kind, router.netns, router.pid) == ("vm", None, first.pid)
    assert {one.host_ifname: (one.mac, one.bridge) for one in router.interfaces} == {
        "vnet0": ("52:54:00:aa:bb:01", "br0"),
        "mytap": ("52:54:00:aa:bb:02", None),
    }
    tasks = {int(entry.name) for entry in Path(f"/proc/{router.pid}/task").iterdir()}
    lasting = tasks & set(first.threads)
    assert set(router.threads) >= lasting, "QEMU starts and ends helper threads meanwhile"
    assert lasting
    assert host.missing("{libvirt: '1'}") == "there is no libvirt domain 1"  # virsh takes an id
    host.run(f"{VIRSH} destroy r1")
    assert host.missing("{libvirt: r1}") == "libvirt domain r1 does not run"


def _answers(host: Playground, daemon: subprocess.Popen[bytes]) -> bool:
    assert daemon.poll() is None, "libvirtd ended"
    time.sleep(0.1)
    command = [*VIRSH.split(), "--readonly", "list"]
    with contextlib.suppress(subprocess.TimeoutExpired):  # it is not that far
        return bool(host.do(lambda: asked(command)).returncode == 0)
    return False


def asked(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("key", "tool", "words"),
    [
        pytest.param("docker", "docker", "no such container|docker daemon", marks=needs("docker")),
        pytest.param("podman", "podman", "no such container", marks=needs("podman")),
        pytest.param("lxc", "lxc-info", "doesn't exist", marks=needs("lxc-info")),
        pytest.param(
            "incus",
            "incus",
            "not found|daemon",
            marks=pytest.mark.skipif(
                shutil.which("incus") is None,
                reason="incus is not installed: Debian 12 has no package of it (13 has)",
            ),
        ),
        pytest.param("libvirt", "virsh", "failed to connect", marks=needs("virsh")),
    ],
)
def test_this_hosts_engines_refuse_what_they_do_not_have(
    engine_host: Playground, key: str, tool: str, words: str
) -> None:
    reason = engine_host.missing(f"{{{key}: isolane-nobody}}")
    assert f" isolane-nobody: {tool} says: " in reason
    assert re.search(words, reason, re.IGNORECASE), reason


def inode(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino
