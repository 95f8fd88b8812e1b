"""Running git so that no repository, remote or surrounding setting can make it do anything else.

No command used here runs hooks, filters or text conversions; the file system monitor is off, and
a missing object is never fetched.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.errors import SourceError

_OVERRIDES = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.askPass=",
    "gc.auto=0",
    "maintenance.auto=false",
)
_OFFLINE = ("protocol.allow=never",)
_ENVIRONMENT = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "LC_ALL": "C",
}
_USERS_OWN = re.compile(r"GIT_(SSH(_COMMAND|_VARIANT)?|SSL_\w+|PROXY_SSL_\w+)")
_USER_OF_URL = re.compile(r"(?<=://)\S*@")
"""Up to the last @: a password may hold @ and /. Of a path with an @, less is shown."""


class Git:
    """The git program in one folder."""

    def __init__(self, folder: Path, *, protocols: Sequence[str] = (), why: str) -> None:
        """Find git.

        Args:
            folder: Where it works.
            protocols: What it may connect by; none: it connects to nobody.
            why: For the message, if there is no git: what needs it.

        Raises:
            SourceError: It is not installed.
        """
        program = shutil.which("git")
        if program is None:
            raise SourceError(f"git is not installed, and {why} needs it; install git")
        self._folder = folder
        self._protocols = protocols
        overrides = _OVERRIDES if protocols else _OVERRIDES + _OFFLINE
        options = [word for override in overrides for word in ("-c", override)]
        self._command = [program, "--no-pager", "-C", str(folder), *options]

    def command(self, *words: str) -> list[str]:
        """The words of a command."""
        return [*self._command, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return subprocess.run(  # noqa: S603 - no shell, and no word begins with a dash but ours
            self.command(*words),
            env=self.environment(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """Give git our surroundings without what would send it to another repository."""
        own = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("GIT_") or _USERS_OWN.fullmatch(key)
        }
        return {
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15",
            **own,
            **_ENVIRONMENT,
            "GIT_ALLOW_PROTOCOL": ":".join(self._protocols),
            "GIT_CEILING_DIRECTORIES": str(self._folder.resolve().parent),
        }


def said(stderr: bytes) -> str:
    """The line of git's messages that tells most, without a name or password of an address."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
    line = next(iter(telling or [line for line in lines if line]), "git stopped")
    printable = "".join(letter for letter in line if letter.isprintable())
    return _USER_OF_URL.sub("", printable)[:400]
