# SPDX-License-Identifier: MIT
"""Groups: what many put is seen at once, by one commit."""

from __future__ import annotations

import errno
import secrets
from typing import TYPE_CHECKING, Any, Dict, Iterable, Optional

from .errors import error
from .names import Name, to_json
from .results import Options, Result, Rotated

if TYPE_CHECKING:
    from .connection import Connection, OnProgress, Source

COMMIT_S = 3600.0  # all that came may have to get to the disk
KEEP_MAX = 1000


def new_id() -> str:
    """A secret, for those who put members."""
    return secrets.token_hex(16)


def check_latest(latest: Optional[str], keep_last: int) -> None:
    """Before anything is published for which the link could not be led."""
    if latest is not None and (not latest or "/" in latest):
        raise error(errno.EINVAL, f"latest={latest!r} is not a name beside what is put", exit=2)
    if keep_last and latest is None:
        raise error(errno.EINVAL, "keep_last is of one link: say latest, too", exit=2)
    if not 0 <= keep_last <= KEEP_MAX:
        raise error(errno.EINVAL, f"keep_last={keep_last}: must be 0 to {KEEP_MAX}", exit=2)


class Group:
    """What is put below name with this ID. As a context: commit(), or after an exception discard().

    Any process that knows name and ID may put members, and make a Group of its own for it.
    """

    def __init__(self, connection: "Connection", name: Name, id: str) -> None:
        self.connection = connection
        self.name = name
        self.id = id

    def begin(
        self,
        *,
        members: int = 0,
        expect: Iterable[str] = (),
        force: bool = False,
        expires: Optional[float] = None,
        timeout: float = COMMIT_S,
    ) -> "Group":
        """expires: it ends after so many seconds; else as the store says."""
        fields = _expected(members, expect, force)
        if expires is not None:
            fields["expires_ms"] = int(expires * 1000)
        self._ask("group_begin", fields, timeout)
        return self

    def put(
        self,
        source: "Source",
        path: str,
        *,
        force: bool = False,
        timeout: Optional[float] = None,
        progress: "Optional[OnProgress]" = None,
        options: Options = Options(),
    ) -> Result:
        """A member, at that path below the group's."""
        return self.connection.put(
            source,
            self.name.below(path),
            group=self.id,
            force=force,
            timeout=timeout,
            progress=progress,
            options=options,
        )

    def check(
        self, *, members: int = 0, expect: Iterable[str] = (), timeout: float = COMMIT_S
    ) -> None:
        """Raises what a commit would."""
        fields = {**_expected(members, expect, False), "check_only": True}
        self._ask("group_commit", fields, timeout)

    def commit(
        self,
        *,
        members: int = 0,
        expect: Iterable[str] = (),
        force: bool = False,
        latest: Optional[str] = None,
        keep_last: int = 0,
        timeout: float = COMMIT_S,
    ) -> Rotated:
        """
        latest: the symbolic link of that name, beside it, leads to it then, unless it leads to what
        was published later: what was committed may be committed again. keep_last: of what it was
        led to with this the last so many stay.
        """
        check_latest(latest, keep_last)
        left = timeout if latest is None else self.check_link(latest, timeout)
        self._ask("group_commit", _expected(members, expect, force), left)
        return Rotated() if latest is None else self.lead(latest, keep_last)

    def check_link(self, latest: str, timeout: float = COMMIT_S) -> Optional[float]:
        """As Connection's, before the commit."""
        return self.connection.check_link(self.name, latest, timeout)

    def lead(self, latest: str, keep_last: int = 0) -> Rotated:
        """Of what is committed, as commit() does then."""
        return self.connection.lead(self.name, latest, keep_last, later=True)

    def discard(self, *, timeout: float = COMMIT_S) -> None:
        """It ends, with all that came."""
        self._ask("group_discard", {}, timeout)

    def _ask(self, op: str, fields: Dict[str, Any], timeout: Optional[float]) -> None:
        self.connection.answer(
            op, {**self.name.fields(), "group": self.id, **fields}, timeout=timeout
        )

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()


def _expected(members: int, expect: Iterable[str], force: bool) -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    lines = "\n".join(expect)
    if members:
        fields["members"] = members
    if lines:
        fields["expect"] = to_json(lines)
    if force:
        fields["force"] = True
    return fields
