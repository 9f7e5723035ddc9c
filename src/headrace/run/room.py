"""A disk that is full: how it shows, whoever writes."""

from __future__ import annotations

import errno
import sqlite3

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_DATABASE = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE"})


def no_room(error: Exception) -> bool:
    """Whether an error says that nothing more can be written for now.

    >>> no_room(OSError(errno.ENOSPC, "No space left on device")), no_room(PermissionError(errno.EACCES, "no"))
    (True, False)
    """
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", "") in _FULL_DATABASE
    return isinstance(error, OSError) and error.errno in _FULL
