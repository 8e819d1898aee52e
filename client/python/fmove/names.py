# SPDX-License-Identifier: MIT
"""NODE:STORE/PATH and fmove://NODE/STORE/PATH in parts, and names as messages have them."""

from __future__ import annotations

import base64
import errno
import os
from typing import Any, Dict, NamedTuple, Union

from .errors import error

SCHEME = "fmove://"
HUB = "hf:"
HUB_KINDS = ("models", "datasets", "spaces")
JsonName = Union[str, Dict[str, str]]


class Name(NamedTuple):
    """A file or directory of a store; bytes that are not UTF-8 are surrogates (os.fsdecode)."""

    node: str
    store: str
    path: str

    def __str__(self) -> str:
        return f"{self.node}:{self.store}" + (f"/{self.path}" if self.path else "")

    def below(self, path: str) -> "Name":
        """A name below this one."""
        return self._replace(path=f"{self.path}/{path}" if self.path else path)

    def above(self) -> "Name":
        """The directory that it is in."""
        return self._replace(path=self.path.rpartition("/")[0])

    def is_below(self, other: "Name") -> bool:
        return self[:2] == other[:2] and self.path.startswith(f"{other.path}/")

    def below_of(self, other: "Name") -> str:
        """The path below a name that it is below."""
        return self.path[len(other.path) + 1 :]

    def beside(self, last: str) -> "Name":
        """Another name in the same directory."""
        return self.above().below(last)

    @property
    def last(self) -> str:
        return self.path.rpartition("/")[2]

    def fields(self) -> Dict[str, Any]:
        """The keys of a request."""
        return {"node": self.node, "store": self.store, "path": to_json(self.path)}


def parse(text: Union[str, Name]) -> Name:
    """EINVAL: it has no node or no store."""
    if isinstance(text, Name):
        return text
    if text.startswith(SCHEME):
        node, _, rest = text[len(SCHEME) :].partition("/")
    else:
        node, _, rest = text.partition(":")
    store, _, path = rest.partition("/")
    if not node or not store or "/" in node:
        raise error(errno.EINVAL, f"{text!r} is not NODE:STORE/PATH", exit=2)
    return Name(node, store, path.strip("/"))


def hub_fields(text: str) -> Dict[str, Any]:
    """The keys of a request for hf:[datasets/ or spaces/]ORG/NAME[@REVISION]. The daemon looks at
    the rest of it."""
    repository, _, revision = text[len(HUB) :].partition("@")
    kind, slash, rest = repository.partition("/")
    if kind not in HUB_KINDS or not slash:
        kind, rest = HUB_KINDS[0], repository
    return {"path": f"{kind}--{rest.replace('/', '--')}@{revision or 'main'}"}


def to_json(path: Union[str, bytes]) -> JsonName:
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode("ascii")}


def from_json(name: Any) -> str:
    if isinstance(name, dict):
        return os.fsdecode(base64.b64decode(str(name.get("bytes", ""))))
    return str(name)
