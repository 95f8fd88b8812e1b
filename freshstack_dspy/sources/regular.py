"""Regular files: the only ones that are read from a folder that others made."""

import errno
import stat
from pathlib import Path


def check_regular(path: Path) -> None:
    """Refuse what is not a regular file, before it is opened: a pipe would wait, a device not end.

    A link is followed, for some caches are made of them.

    Raises:
        OSError: It is none, or cannot be looked at.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
