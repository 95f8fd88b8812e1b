"""Git repositories: fetched by URL, and read at a revision from their object store.

A repository may be hostile, with a configuration of its own. Nothing is checked out.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.tree import LINK, FileTree, Skip, TreeEntry, named_entry
from freshstack_dspy.errors import SourceError

_OVERRIDES = (
    f"core.fsmonitor=false core.hooksPath={os.devnull} core.askPass= gc.auto=0 "
    "maintenance.auto=false http.lowSpeedLimit=1000 http.lowSpeedTime=60"
).split()
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
"""Up to the last @: a password may hold @ and /."""

_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?"
_URLS = (
    re.compile(rf"(?P<scheme>https?)://{_HOST}/[^?#\s]+"),
    re.compile(rf"(?P<scheme>ssh)://(?:\w[\w.-]*@)?{_HOST}/[^?#\s]+", re.ASCII),
    re.compile(r"(?P<scheme>\w[\w.-]*)@[A-Za-z0-9][A-Za-z0-9.-]*:[^\s:-][^\s:]*", re.ASCII),
    re.compile(r"(?P<scheme>file):///[^\0\r\n]+"),
)
_PROTOCOLS = {
    "https": ("https", "ssh"),  # no way down to plain HTTP; SSH, for url.insteadOf of the user
    "http": ("http", "https", "ssh"),
    "file": ("file",),
}
_REVISION = re.compile(r"(?!.*(?:\.\.|@\{))\w[\w.+/@#-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMMITTED = re.compile(rb"^committer [^\n]* (\d{1,11}) [+-]\d{4}$", re.MULTILINE)
_FETCHED = "refs/freshstack/fetched"
_FETCHING = ".fetching-"
_ABANDONED = 3600
"""Seconds after which an unfinished fetch is removed: its process was killed."""


class Git:
    """The git program in one folder, with what a hostile repository could misuse switched off."""

    def __init__(self, folder: Path, protocols: Sequence[str] = ()) -> None:
        """Find git; with no protocols it opens no connection."""
        program = shutil.which("git")
        if program is None:
            raise SourceError("git is not installed, and repositories are read with it")
        never = [] if protocols else ["protocol.allow=never"]
        options = [word for override in (*_OVERRIDES, *never) for word in ("-c", override)]
        self.command = [program, "--no-pager", "-C", str(folder), *options]
        # Our surroundings, without what would send git to another repository.
        own = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("GIT_") or _USERS_OWN.fullmatch(key)
        }
        self.environment = {
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15",
            **own,
            **_ENVIRONMENT,
            "GIT_ALLOW_PROTOCOL": ":".join(protocols),
            "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return subprocess.run(  # noqa: S603 - no shell, and no word begins with a dash but ours
            [*self.command, *words],
            env=self.environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def commit(self, revision: str) -> str | None:
        """Find the id of a commit that is here."""
        found = self.run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        return None if found.returncode else found.stdout.decode().strip()


def _reason(stderr: bytes) -> str:
    """The line of git's messages that tells most, without a name or password of an address."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
    return _USER_OF_URL.sub("", next(iter(telling or lines), "git stopped"))[:400]


# Repositories elsewhere


class Remote(NamedTuple):
    """A repository elsewhere, the folder for its copies, and by what git may connect to it."""

    url: str
    folder: str
    protocols: tuple[str, ...]


def remote(url: str) -> Remote:
    """Check an address; one that may hold a password is not shown."""
    found = next(filter(None, (form.fullmatch(url) for form in _URLS)), None)
    if found and url.isprintable():
        end = re.sub(r"[^a-z0-9.]+", "-", url.lower().removesuffix(".git"))[-40:].strip("-.")
        digest = hashlib.sha256(url.encode()).hexdigest()[:12]
        return Remote(url, f"{end}-{digest}", _PROTOCOLS.get(found["scheme"], ("ssh", "https")))
    shown = "not shown, as it may hold a password" if "@" in url else repr(url[:200])
    raise SourceError(
        f"url is {shown}; allowed: https://HOST/PATH, http://…, "
        "ssh://USER@HOST/PATH, USER@HOST:PATH and file:///PATH, without password, ? and #"
    )


def fetch(
    corpus: CorpusConfig,
    clones: Path,
    *,
    offline: bool,
    progress: Callable[[str], None] | None = None,
) -> CorpusConfig:
    """Bring the wanted revision of a corpus's `url` here; another corpus is given back as it is.

    History is left out where the server allows it. A full commit id that is here needs no
    network; a tag, a branch, or no revision (HEAD) is looked up at the remote, or, where `offline`,
    is what it was when last fetched, which `progress` reports. The corpus comes back with the bare
    repository in `clones` as `path` and the full commit id as `revision`.
    """
    if corpus.url is None or corpus.path is not None:
        return corpus
    source = remote(corpus.url)
    wanted = corpus.revision or "HEAD"
    if not _REVISION.fullmatch(wanted):
        raise SourceError(
            f"revision is {wanted!r}; allowed with url: a full commit id, a tag or a branch"
        )
    place = clones / source.folder
    known = place / f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.commit"
    if _COMMIT.fullmatch(wanted) and (place / f"{wanted}.git").is_dir():
        commit = wanted
    elif offline:
        commit = known.read_text().strip() if known.is_file() else ""
        if not commit or not (place / f"{commit}.git").is_dir():
            raise SourceError(
                f"{source.url}: {wanted!r} has not been fetched to {clones}, and nothing may be "
                "fetched in replay; fetch it first with: freshstack build CONFIG --mode defer"
            )
        if progress is not None:
            progress(f"{source.url}: {wanted} as last fetched, {commit[:12]}")
    else:
        commit = _fetched(source, wanted, place)
        known.write_text(f"{commit}\n")
    return corpus.model_copy(update={"path": place / f"{commit}.git", "revision": commit})


def _fetched(source: Remote, wanted: str, place: Path) -> str:
    """Fetch one commit into a bare repository of its own; give its id."""
    place.mkdir(parents=True, exist_ok=True)
    for unfinished in place.glob(f"{_FETCHING}*"):
        if time.time() - unfinished.stat().st_mtime > _ABANDONED:
            shutil.rmtree(unfinished, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FETCHING, dir=place) as folder:
        made = Path(folder) / "new.git"
        made.mkdir()
        git = Git(made, source.protocols)
        ref, commit = _looked_up(git, source, wanted)
        if (place / f"{commit}.git").is_dir():
            return commit
        git.run("init", "-q", "--bare", "--template=", "--object-format=sha1", ".")
        _download(git, source, ref, commit)
        found = git.commit(_FETCHED)
        if found is None:
            raise SourceError(f"{source.url}: {wanted!r} is no commit; name one, a tag or a branch")
        commit = found
        if not (place / f"{commit}.git").is_dir():  # another process may have been faster
            made.rename(place / f"{commit}.git")
    return commit


def _looked_up(git: Git, source: Remote, wanted: str) -> tuple[str, str]:
    """Give the full name and the commit of a tag or branch, the tag first, as git does."""
    if _COMMIT.fullmatch(wanted):
        return wanted, wanted
    listed = git.run("ls-remote", "--quiet", "--", source.url, wanted, f"{wanted}^{{}}")
    if listed.returncode:
        raise _unreachable(source, listed.stderr)
    pairs = (line.split("\t") for line in listed.stdout.decode(errors="replace").splitlines())
    commits = {name: commit for commit, name in pairs if _COMMIT.fullmatch(commit)}
    for ref in (wanted, f"refs/{wanted}", f"refs/tags/{wanted}", f"refs/heads/{wanted}"):
        if ref in commits:
            return ref, commits.get(f"{ref}^{{}}", commits[ref])
    raise SourceError(
        f"{source.url}: has no tag or branch {wanted!r}; of a commit, give all 40 digits; list "
        f"them with: git ls-remote {source.url}"
    )


def _download(git: Git, source: Remote, ref: str, commit: str) -> None:
    """Fetch one commit without its history, or, where the server cannot, everything."""
    fetch = ("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
    done = git.run(*fetch, "--depth=1", "--", source.url, f"+{ref}:{_FETCHED}")
    if done.returncode:  # some servers give no shallow copies, or branches and tags alone
        done = git.run(*fetch, "--", source.url, "+refs/*:refs/*")
        done = done if done.returncode else git.run("update-ref", _FETCHED, commit)
    if done.returncode:
        raise _unreachable(source, done.stderr)


def _unreachable(source: Remote, stderr: bytes) -> SourceError:
    return SourceError(
        f"{source.url}: cannot be fetched: {_reason(stderr)}; try: git ls-remote {source.url}"
    )


# Repositories here


class Repository(FileTree):
    """The files of one commit."""

    def __init__(self, path: Path, revision: str) -> None:
        """Find a commit, tag or branch in a bare repository or at the root of a working tree."""
        self._path = path
        self._git = Git(path)
        self._reader: subprocess.Popen[bytes] | None = None
        self._output("rev-parse", "--git-dir")
        known = None
        if not revision.startswith("-") and revision.isprintable():
            known = self._git.commit(revision)
        if known is None:
            raise SourceError(
                f"{path}: has no commit {revision!r}; allowed: a commit, tag or branch, as "
                f"listed by: git -C {path} log --all --oneline"
            )
        self.revision = known

    @property
    def date(self) -> str | None:
        """When the commit was made, in UTC (ISO 8601); None where it does not say."""
        # Not git show, which may run a program that the repository's configuration names.
        found = _COMMITTED.search(self._output("cat-file", "commit", str(self.revision)))
        return found and datetime.fromtimestamp(int(found[1]), UTC).isoformat()

    def entries(self) -> Iterator[TreeEntry]:
        """List the files of the commit."""
        output = self._output("ls-tree", "-r", "-l", "-z", "--full-tree", str(self.revision))
        for line in output.split(b"\0")[:-1]:
            facts, _, raw_path = line.partition(b"\t")
            mode, kind, key, size = facts.split()
            skip = None
            if mode == b"120000":
                skip = LINK
            elif kind != b"blob":
                skip = Skip("link", "a submodule; name its repository as a corpus of its own")
            path = raw_path.decode("utf-8", "surrogateescape")
            found = named_entry(path, int(size) if size.isdigit() else 0, skip, key.decode())
            yield found._replace(stamp=(found.size, 0, 0, int(key, 16)))

    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Read a file."""
        if self._reader is None:
            self._reader = subprocess.Popen(  # noqa: S603 - no shell, and words of our own
                [*self._git.command, "cat-file", "--batch"],
                env=self._git.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        to_git, from_git = self._reader.stdin, self._reader.stdout
        assert to_git is not None
        assert from_git is not None
        to_git.write(f"{entry.key}\n".encode())
        to_git.flush()
        words = from_git.readline().split()
        if len(words) != 3:
            raise SourceError(
                f"{self._path}: {entry.path} cannot be read at {self.revision}; the repository is "
                "damaged or a partial clone: check with git fsck, or clone it whole"
            )
        data = from_git.read(int(words[2]) + 1)
        return data[:-1][:most]

    def close(self) -> None:
        """End the reading process."""
        if self._reader is not None:
            with self._reader:
                self._reader.kill()
            self._reader = None

    def _output(self, *words: str) -> bytes:
        done = self._git.run(*words)
        if done.returncode == 0:
            return done.stdout
        reason = _reason(done.stderr)
        if "not a git repository" in reason:
            reason += "; name the root of one, and choose its parts with include"
        raise SourceError(f"{self._path}: git {words[0]} failed: {reason}")
