"""The keys of a virtual machine that starts from an image of the user's."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapSerializer,
)

from isolane.spec.base import SpecModel
from isolane.spec.fields import whole, whole_schema
from isolane.spec.host_addresses import AddressInSubnet
from isolane.spec.problems import Refused, show

_MEMORY_UNITS: Final = {"MB": 1, "GB": 1024}
_MEMORY_ACCEPTED: Final = "32MB to 64GB, such as 512MB (of 1,024 x 1,024 bytes)"
_MEMORY_PATTERN: Final = r"^([0-9]{1,6})\s?(MB|GB)$"


def _read_file(value: object) -> str:
    accepted = "the name of a file, relative to where Isolane is started"
    if not isinstance(value, str) or not value or "\0" in value or len(value) > 1000:
        raise Refused(f"{show(value)} is not a file's name", accepted)
    return value


def _read_memory(value: object) -> int:
    found = re.fullmatch(_MEMORY_PATTERN, value) if isinstance(value, str) else None
    if found is None:
        raise Refused(f"{show(value)} is not a size of memory", _MEMORY_ACCEPTED)
    size = int(found[1]) * _MEMORY_UNITS[found[2]]
    if not 32 <= size <= 64 * 1024:
        raise Refused(f"{show(value)} is out of range", _MEMORY_ACCEPTED)
    return size


FileName = Annotated[str, PlainValidator(_read_file), WithJsonSchema({"type": "string"})]
MemoryMb = Annotated[
    int,
    PlainValidator(_read_memory),
    PlainSerializer(lambda size: f"{size}MB", return_type=str),
    WithJsonSchema({"type": "string", "pattern": _MEMORY_PATTERN}),
]
Vcpus = Annotated[int, PlainValidator(whole(1, 64)), whole_schema(1, 64)]
AUTO: Final = "auto"


class Image(SpecModel):
    """An image of the user's that a virtual machine starts from."""

    file: FileName
    """A disk image in format qcow2, which is only read: what the guest writes is forgotten."""
    ingress: AddressInSubnet | None = None
    """The image's address on the side of the generator, as 192.0.2.1/24; default: the test bed's,
    198.18.N.1/24."""
    egress: AddressInSubnet | None = None
    """Its address on the side of the receiver; default: 198.19.N.1/24."""
    cloud_init: Literal["auto"] | FileName | None = None
    """Addresses by cloud-init: auto, or a file of user data that is given beside them; default:
    the image has its addresses."""


def _from_name(value: object) -> object:
    return {"file": value} if isinstance(value, str) else value


def _as_written(value: Image, write: SerializerFunctionWrapHandler) -> Any:
    written = {key: each for key, each in write(value).items() if each is not None}
    return written["file"] if set(written) == {"file"} else written


ImageValue = Annotated[
    Image,
    BeforeValidator(_from_name, json_schema_input_type=FileName | Image),
    WrapSerializer(_as_written),
]
