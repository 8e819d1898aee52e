# SPDX-License-Identifier: MIT
"""From one store to another: a copy through this machine, then the removal of what was copied."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, List, Tuple

from .errors import error
from .names import Name
from .results import Entry

if TYPE_CHECKING:
    from .connection import Connection

PIECE = 1 << 20  # bytes

Met = Tuple[str, Entry]  # the path below what is moved, "" of itself; of a link, the link's


def move(fm: "Connection", old: Name, new: Name, is_recursive: bool) -> None:
    """Nothing is removed before all is copied, and nothing that was not: what cannot be listed is
    an error. ESTALE, ENOTEMPTY: something was changed or came meanwhile, and stays where it was.
    Links are copied as links. Missing directories above `new` are made, and files replaced."""
    all_met = _look(fm, old, is_recursive)
    for path, entry in all_met:
        _copy(fm, _at(old, path), _at(new, path), entry)
    for path, entry in reversed(all_met):
        _remove(fm, _at(old, path), entry)


def _at(name: Name, path: str) -> Name:
    return name.below(path) if path else name


def _look(fm: "Connection", old: Name, is_recursive: bool) -> List[Met]:
    """Directories before what is in them."""
    root = fm.stat(old, follow_symlinks=False)
    if root.is_dir and not is_recursive:
        raise error(errno.EISDIR, f"{old} is a directory: it is moved with recursive=True")
    found = [("", _checked(old, root))]
    for path, entry in found:  # which grows
        if entry.is_dir:
            for one in fm.ls(_at(old, path)):
                below = f"{path}/{one.name}" if path else one.name
                found.append((below, _met(fm, _at(old, below), one)))
    return found


def _met(fm: "Connection", name: Name, entry: Entry) -> Entry:
    """A listing does not tell what a link says."""
    is_link = entry.type == "link"
    return _checked(name, fm.stat(name, follow_symlinks=False) if is_link else entry)


def _checked(name: Name, entry: Entry) -> Entry:
    if not entry.is_dir and entry.type != "file" and entry.leads_to is None:
        raise error(errno.ENOTSUP, f"{name} is no file, directory or link, and cannot be copied")
    return entry


def _copy(fm: "Connection", old: Name, new: Name, entry: Entry) -> None:
    if entry.is_dir:
        _make(fm, new)
    elif entry.leads_to is not None:
        fm.ln(entry.leads_to, new, force=True)
    else:
        with fm.open_reader(old) as source, fm.open_writer(new, force=True) as target:
            shutil.copyfileobj(source, target, PIECE)


def _make(fm: "Connection", name: Name) -> None:
    try:
        fm.mkdir(name)
    except FileExistsError:
        if not fm.stat(name).is_dir:
            raise


def _remove(fm: "Connection", name: Name, entry: Entry) -> None:
    try:
        if entry.is_dir:
            if next(fm.ls(name), None) is not None:
                raise error(errno.ENOTEMPTY, f"in {name} came something that was not moved")
        elif not _is_same(fm.stat(name, follow_symlinks=False), entry):
            raise error(errno.ESTALE, f"{name} was changed while it was moved: it stays there")
        fm.rm(name, recursive=entry.is_dir)
    except FileNotFoundError:
        pass  # somebody else removed it


def _is_same(one: Entry, other: Entry) -> bool:
    """Of one name at two times."""
    return (one.type, one.size, one.mtime_ns, one.leads_to) == (
        other.type,
        other.size,
        other.mtime_ns,
        other.leads_to,
    )
