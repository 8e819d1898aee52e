# SPDX-License-Identifier: MIT
"""fmove - moves files between nodes, by the fmoved of this machine. See README.md."""

from .bar import Bar
from .buffer import Buffer
from .connection import Connection, connect
from .errors import (
    Denied,
    Exists,
    FmoveError,
    IsDirectory,
    Lost,
    NotDirectory,
    NotFound,
    Refused,
    TimedOut,
)
from .group import Group, new_id
from .link import Cancel
from .names import Name
from .results import Entry, Finding, Options, Progress, Result, Rotated, Verified

__version__ = "0.1.0"
__all__ = [
    "Bar",
    "Buffer",
    "Cancel",
    "Connection",
    "Denied",
    "Entry",
    "Exists",
    "Finding",
    "FmoveError",
    "Group",
    "IsDirectory",
    "Lost",
    "Name",
    "NotDirectory",
    "NotFound",
    "Options",
    "Progress",
    "Refused",
    "Result",
    "Rotated",
    "TimedOut",
    "Verified",
    "connect",
    "new_id",
]
