"""The address of a git repository elsewhere: checked, named, and shown without secrets."""

import hashlib
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from freshstack_dspy.errors import SourceError

_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?"
_WEB = re.compile(rf"(?P<scheme>https?)://{_HOST}/(?P<path>[^?#\s]+)")
_SSH = re.compile(rf"(?P<scheme>ssh)://(?:[A-Za-z0-9_][\w.-]*@)?{_HOST}/(?P<path>[^?#\s]+)")
_SCP = re.compile(
    r"(?:[A-Za-z0-9_][\w.-]*@)(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^\s:-][^\s:]*)"
)
_FILE = re.compile(r"(?:(?P<scheme>file)://)?(?P<path>/[^\0\r\n]+)")
_PROTOCOLS = {
    "https": ("https", "ssh"),  # no way down to plain HTTP; SSH, for url.insteadOf of the user
    "http": ("http", "https", "ssh"),
    "ssh": ("ssh", "https"),
    "file": ("file",),
}
_REVISION = re.compile(r"[A-Za-z0-9_][\w.+/@#-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ABBREVIATED = re.compile(r"[0-9a-f]{7,63}")


class Remote(NamedTuple):
    """A repository elsewhere."""

    url: str
    folder: str
    """The name of the folder for its clones: host, path, and a hash of the address."""
    protocols: tuple[str, ...]
    """By which git may connect to it."""


def remote(url: str) -> Remote:
    """Check an address.

    Raises:
        SourceError: It is not of an allowed form, or holds a password; without it in the message.
    """
    for scheme, form in (("web", _WEB), ("ssh", _SSH), ("ssh", _SCP), ("file", _FILE)):
        found = form.fullmatch(url)
        if found and url.isprintable():
            parts = found.groupdict()
            protocol = parts.get("scheme") or scheme
            path = PurePosixPath(parts["path"].removesuffix("/").removesuffix(".git"))
            words = [parts.get("host") or "local", *path.parts[-2:]]
            name = re.sub(r"[^a-z0-9.]+", "-", "-".join(words).lower()).strip("-.")[:60]
            digest = hashlib.sha256(url.encode()).hexdigest()[:12]
            return Remote(url, f"{name}-{digest}", _PROTOCOLS[protocol])
    shown = "not shown, as it may hold a password" if "@" in url else repr(url[:200])
    raise SourceError(
        f"url is {shown}; allowed: https://HOST/PATH, http://…, "
        "ssh://USER@HOST/PATH, USER@HOST:PATH and file:///PATH, without password, ? and #"
    )


def is_commit(revision: str) -> bool:
    """Say whether a revision is a full commit id, which never means another commit."""
    return _COMMIT.fullmatch(revision) is not None


def check_revision(revision: str) -> None:
    """Refuse what is not the name of a commit, tag or branch.

    Raises:
        SourceError: It is not.
    """
    if not _REVISION.fullmatch(revision) or ".." in revision or "@{" in revision:
        raise SourceError(
            f"revision is {revision!r}; allowed with url: a full commit id, a tag or a branch"
        )


def unknown_revision(url: str, revision: str) -> SourceError:
    """Say that a remote has no such commit, tag or branch."""
    hint = ""
    if _ABBREVIATED.fullmatch(revision) and not is_commit(revision):
        hint = "; of a commit, give all 40 digits"
    return SourceError(
        f"{url}: has no commit, tag or branch {revision!r}{hint}; list them with: "
        f"git ls-remote {url}"
    )
