# SPDX-License-Identifier: MIT
"""From one store to another: a copy through this machine, then the removal of what was copied."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, List, Sequence, Tuple

from .errors import error
from .names import Name
from .results import Entry, Options

if TYPE_CHECKING:
    from .connection import Connection

PIECE = 1 << 20  # bytes
ON_DISK = Options(durability="disk")  # whatever the store has else: the source is removed

Pair = Tuple[Name, Name]  # what is moved, and what it becomes
Met = Tuple[str, Entry]  # the path below what is moved, "" of itself; of a link, the link's


def move(fm: "Connection", pairs: Sequence[Pair], is_recursive: bool) -> None:
    """Nothing is removed before all of all pairs is copied, and nothing that was not: what cannot
    be listed is an error. ESTALE, ENOTEMPTY: something was changed or came meanwhile, and stays
    where it was. EINVAL: one would be copied to itself or into itself. Links are copied as links.
    Missing directories above what is new are made, and files replaced."""
    _refuse_own([old for old, _ in pairs], [new for _, new in pairs])
    all_met = [(pair, _look(fm, pair[0], is_recursive)) for pair in pairs]
    for (old, new), met in all_met:
        for path, entry in met:
            _copy(fm, _at(old, path), _at(new, path), entry)
    for (old, _), met in all_met:
        for path, entry in reversed(met):
            _remove(fm, _at(old, path), entry)


def below_one(matches: Sequence[Name], new: Name) -> List[Pair]:
    """Each with its place below `new`: the path that it has below the last directory that all are
    in. What is in another match goes with that."""
    parts = sorted(_parts(name) for name in matches)
    first, last = parts[0][:-1], parts[-1]
    shared = next((i for i, one in enumerate(first) if one != last[i]), len(first))
    return [(old, new.below("/".join(_parts(old)[shared:]))) for old in outermost(matches)]


def outermost(names: Sequence[Name]) -> List[Name]:
    """Without what is in another of them."""
    found: List[Name] = []
    for name in sorted(names, key=_parts):
        if not found or not name.is_below(found[-1]):
            found.append(name)
    return found


def _parts(name: Name) -> List[str]:
    return [name.node, name.store, *filter(None, name.path.split("/"))]


def _refuse_own(olds: Sequence[Name], news: Sequence[Name]) -> None:
    """What is copied over what is moved would be removed with it. What is new is in one store."""
    for old in [name for name in olds if name[:2] == news[0][:2]]:
        for new in news:
            if new == old or new.is_below(old) or old.is_below(new):
                raise error(errno.EINVAL, f"{old} cannot be moved to {new}: one is in the other")


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
            _refuse_partial(fm, _at(old, path))  # before all is copied, and this one stays
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
        with fm.open_reader(old) as source:
            with fm.open_writer(new, force=True, options=ON_DISK) as target:
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
            refuse_full(fm, name)
        elif not _is_same(fm.stat(name, follow_symlinks=False), entry):
            raise error(errno.ESTALE, f"{name} was changed while it was moved: it stays there")
        fm.rm(name, recursive=entry.is_dir)
    except FileNotFoundError:
        pass  # somebody else removed it


def refuse_full(fm: "Connection", name: Name) -> None:
    """ENOTEMPTY: of a directory that would be removed with what is in it, or is put there and
    has a journal, which a stream has not."""
    if next(fm.ls(name), None) is not None:
        raise error(errno.ENOTEMPTY, f"{name} is not empty, and stays")
    _refuse_partial(fm, name)


def _refuse_partial(fm: "Connection", name: Name) -> None:
    if fm.answer("list", {**name.fields(), "partial": True}).get("entries"):
        raise error(
            errno.ENOTEMPTY,
            f"{name} has an unfinished transfer into it, and stays: fmove ls --partial {name} "
            f"shows it, fmove purge --unfinished {name.node}:{name.store} removes what was cut off",
        )


def _is_same(one: Entry, other: Entry) -> bool:
    """Of one name at two times."""
    return (one.type, one.size, one.mtime_ns, one.leads_to) == (
        other.type,
        other.size,
        other.mtime_ns,
        other.leads_to,
    )
