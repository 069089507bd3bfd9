"""What cloud-init in a guest is told: its addresses, and that it is a router.

Source: cloud-init's NoCloud data source (a file system with the label CIDATA that has the files
``meta-data``, ``user-data`` and ``network-config``), network configuration version 2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isolane.errors import SpecError

_ROUTER: Final = """\
#cloud-config
ssh_pwauth: false
bootcmd:
  - [sysctl, -w, net.ipv4.ip_forward=1, net.ipv6.conf.all.forwarding=1]
"""


def user_data(file: str) -> str:
    """Return the user data in a file.

    Raises
    ------
    SpecError
        If it cannot be read as text.
    """
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise SpecError(f"cloud_init {file}: {why}") from None


@dataclass(frozen=True)
class Seed:
    """The seed of one guest.

    Parameters
    ----------
    name
        Its host name.
    nics
        MAC and address, with the prefix's length, of each of its NICs.
    user_data
        What the user gives; None: what makes it a router.
    """

    name: str
    nics: tuple[tuple[str, str], ...]
    user_data: str | None = None

    def files(self) -> dict[str, str]:
        """Return the files by name."""
        nics = {
            f"isolane{number}": {
                "match": {"macaddress": mac},
                "addresses": [address],
                "dhcp4": False,
                "dhcp6": False,
                "accept-ra": False,
            }
            for number, (mac, address) in enumerate(self.nics)
        }
        meta = {"instance-id": f"isolane-{self.name}", "local-hostname": self.name}
        # JSON is YAML.
        return {
            "meta-data": json.dumps(meta) + "\n",
            "user-data": _ROUTER if self.user_data is None else self.user_data,
            "network-config": json.dumps({"version": 2, "ethernets": nics}, indent=1) + "\n",
        }
