# SPDX-License-Identifier: MIT
"""What the daemon says of transfers, files and verifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional

from .names import from_json

TIMEOUT_S = 1800.0  # of what moves a whole checkpoint


@dataclass(frozen=True)
class Options:
    """How a transfer is done; what is not said is the daemon's choice."""

    durability: Optional[str] = None  # "default", "disk", "memory"
    transport: Optional[str] = None  # "auto", "rdma", "tcp"
    priority: Optional[str] = None  # "low", "normal", "high"
    limit: int = 0  # bytes a second; 0: no limit
    retry: float = 0  # seconds without progress in which it is tried again
    readback: bool = False  # a put: each chunk is read again from the far disk
    accept_corrupt: bool = False  # a get: what differs from its checksum, too

    def fields(self) -> Dict[str, Any]:
        fields: Dict[str, Any] = {}
        for key in ("durability", "transport", "priority", "limit"):
            if getattr(self, key):
                fields[key] = getattr(self, key)
        if self.retry:
            fields["retry_ms"] = int(self.retry * 1000)
        if self.readback:
            fields["verify"] = "readback"
        if self.accept_corrupt:
            fields["accept_corrupt"] = True
        return fields


@dataclass(frozen=True)
class Rotated:
    """Of keep_last: the names that went, and what stays though it is older, and why."""

    gone: "tuple[str, ...]" = ()
    stays: str = ""


@dataclass(frozen=True)
class Result:
    """Of a transfer. all has every key that fmove(1) lists under JSON OUTPUT."""

    bytes: int
    seconds: float
    crc32c: str
    durable: bool
    mode: int  # of the source
    mtime_ns: int  # of the source
    version: str  # of ranges: the same as long as nobody writes to the file
    note: str
    all: Mapping[str, Any] = field(repr=False)
    rotated: Rotated = Rotated()


def result_of(done: Mapping[str, Any]) -> Result:
    return Result(
        bytes=int(done.get("bytes", 0)),
        seconds=float(done.get("seconds", 0)),
        crc32c=str(done.get("crc32c", "")),
        durable=bool(done.get("durable", False)),
        mode=int(str(done.get("mode", "0")), 8),
        mtime_ns=int(done.get("mtime_ns", 0)),
        version=str(done.get("version", "")),
        note=str(done.get("note", "")),
        all=done,
    )


@dataclass(frozen=True)
class Entry:
    """A file or directory. type: "file", "directory", "link" or "other"."""

    name: str
    type: str
    size: int
    mode: int
    mtime_ns: int
    leads_to: Optional[str] = None  # what a link says, of stat(follow_symlinks=False)

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"


def entry_of(event: Mapping[str, Any], name: str = "") -> Entry:
    says = event.get("says", "")
    return Entry(
        name=from_json(event["name"]) if "name" in event else name,
        type=str(event.get("type", "other")),
        size=int(event.get("size", 0)),
        mode=int(str(event.get("mode", "0")), 8),
        mtime_ns=int(event.get("mtime_ns", 0)),
        leads_to=from_json(says) if says else None,
    )


@dataclass(frozen=True)
class Progress:
    """How far a transfer is. size is None while it is not known."""

    state: str
    bytes: int
    size: Optional[int]
    text: str


def progress_of(event: Mapping[str, Any]) -> Progress:
    size = event.get("size")
    return Progress(
        state=str(event.get("state", event.get("phase", ""))),
        bytes=int(event.get("bytes", 0)),
        size=None if size is None else int(size),
        text=str(event.get("text", "")),
    )


@dataclass(frozen=True)
class Finding:
    """A file that is not what it was: "corrupt", "unreadable", "changed", "missing", "swapped"."""

    kind: str
    path: str
    offset: int
    length: int


@dataclass(frozen=True)
class Verified:
    """What was read again; findings says what differs."""

    files: int
    bytes: int
    without: int  # nothing was kept to compare with
    findings: "tuple[Finding, ...]"
