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
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.sources import LINK, Skip, Tree, TreeEntry, named_entry
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


class _Git:
    """The git program in one folder, with what a hostile repository could misuse switched off."""

    def __init__(self, folder: Path, protocols: Sequence[str] = ()) -> None:
        """Find git; with no protocols it opens no connection."""
        program = shutil.which("git")
        if program is None:
            raise SourceError("git is not installed, and repositories are read with it")
        overrides = [*_OVERRIDES, *([] if protocols else ["protocol.allow=never"])]
        options = [word for override in overrides for word in ("-c", override)]
        self.folder = folder
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

    def output(self, *words: str) -> bytes:
        """Run a command that has to succeed."""
        done = self.run(*words)
        if done.returncode:
            reason = _reason(done.stderr)
            if "not a git repository" in reason:
                reason += "; name the root of one, and choose its parts with include"
            raise SourceError(f"{self.folder}: git {words[0]} failed: {reason}")
        return done.stdout

    def commit(self, revision: str) -> str | None:
        """Find the id of a commit that is here."""
        done = self.run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        return None if done.returncode else done.stdout.decode().strip()


def _reason(stderr: bytes) -> str:
    """The line of git's messages that tells most, without a name or password of an address."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
    return _USER_OF_URL.sub("", next(iter(telling or lines), "git stopped"))[:400]


# Repositories elsewhere


def check_url(url: str) -> Sequence[str]:
    """Give the protocols by which git may connect to an address.

    Raises:
        SourceError: It is of no allowed form; one that may hold a password is not shown.
    """
    form = next(filter(None, (form.fullmatch(url) for form in _URLS)), None)
    if form and url.isprintable():
        return _PROTOCOLS.get(form["scheme"], ("ssh", "https"))
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
    url, wanted = corpus.url, corpus.revision or "HEAD"
    if url is None or corpus.path is not None:
        return corpus
    protocols = check_url(url)
    if not _REVISION.fullmatch(wanted):
        raise SourceError(
            f"revision is {wanted!r}; allowed with url: a full commit id, a tag or a branch"
        )
    name = re.sub(r"[^a-z0-9.]+", "-", url.lower().removesuffix(".git"))[-40:].strip("-.")
    place = clones / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    last = place / f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.commit"
    if _COMMIT.fullmatch(wanted) and (place / f"{wanted}.git").is_dir():
        commit = wanted
    elif offline:
        commit = last.read_text().strip() if last.is_file() else ""
        if not commit or not (place / f"{commit}.git").is_dir():
            raise SourceError(
                f"{url}: {wanted!r} has not been fetched to {clones}, and nothing may be "
                "fetched in replay; fetch it first with: freshstack build CONFIG --mode defer"
            )
        if progress is not None:
            progress(f"{url}: {wanted} as last fetched, {commit[:12]}")
    else:
        commit = _fetched(url, protocols, wanted, place)
        last.write_text(f"{commit}\n")
    return corpus.model_copy(update={"path": place / f"{commit}.git", "revision": commit})


def _fetched(url: str, protocols: Sequence[str], wanted: str, place: Path) -> str:
    """Fetch one commit into a bare repository of its own; give its id."""
    place.mkdir(parents=True, exist_ok=True)
    for unfinished in place.glob(f"{_FETCHING}*"):
        if time.time() - unfinished.stat().st_mtime > _ABANDONED:
            shutil.rmtree(unfinished, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FETCHING, dir=place) as folder:
        new = Path(folder) / "new.git"
        new.mkdir()
        git = _Git(new, protocols)
        ref = wanted
        commit: str | None = wanted
        if not _COMMIT.fullmatch(wanted):
            ref, commit = _looked_up(git, url, wanted)
        if not (place / f"{commit}.git").is_dir():
            git.run("init", "-q", "--bare", "--template=", "--object-format=sha1", ".")
            _download(git, url, ref, str(commit))
            commit = git.commit(_FETCHED)
            if commit is None:
                raise SourceError(f"{url}: {wanted!r} is no commit; name one, a tag or a branch")
        if not (place / f"{commit}.git").is_dir():  # another process may have been faster
            new.rename(place / f"{commit}.git")
    return str(commit)


def _looked_up(git: _Git, url: str, wanted: str) -> tuple[str, str]:
    """Give the full name and the commit of a tag or branch, the tag first, as git does."""
    listing = git.run("ls-remote", "--quiet", "--", url, wanted, f"{wanted}^{{}}")
    if listing.returncode:
        raise _unreachable(url, listing.stderr)
    pairs = (line.split("\t") for line in listing.stdout.decode(errors="replace").splitlines())
    commits = {name: commit for commit, name in pairs if _COMMIT.fullmatch(commit)}
    for ref in (wanted, f"refs/{wanted}", f"refs/tags/{wanted}", f"refs/heads/{wanted}"):
        if ref in commits:
            return ref, commits.get(f"{ref}^{{}}", commits[ref])
    raise SourceError(
        f"{url}: has no tag or branch {wanted!r}; of a commit, give all 40 digits; list "
        f"them with: git ls-remote {url}"
    )


def _download(git: _Git, url: str, ref: str, commit: str) -> None:
    """Fetch one commit without its history, or, where the server cannot, everything."""
    fetch = ("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
    done = git.run(*fetch, "--depth=1", "--", url, f"+{ref}:{_FETCHED}")
    if done.returncode:  # some servers give no shallow copies, or branches and tags alone
        done = git.run(*fetch, "--", url, "+refs/*:refs/*")
        done = done if done.returncode else git.run("update-ref", _FETCHED, commit)
    if done.returncode:
        raise _unreachable(url, done.stderr)


def _unreachable(url: str, stderr: bytes) -> SourceError:
    return SourceError(f"{url}: cannot be fetched: {_reason(stderr)}; try: git ls-remote {url}")


# Repositories here


def _at(path: Path, revision: str) -> tuple[_Git, str]:
    """Find a commit, tag or branch in a bare repository or at the root of a working tree."""
    git = _Git(path)
    git.output("rev-parse", "--git-dir")
    usable = not revision.startswith("-") and revision.isprintable()
    if usable and (commit := git.commit(revision)) is not None:
        return git, commit
    raise SourceError(
        f"{path}: has no commit {revision!r}; allowed: a commit, tag or branch, "
        f"listed by: git -C {path} log --all --oneline"
    )


def find_commit(path: Path, revision: str) -> str:
    """Give the full id of a commit, tag or branch of a repository."""
    return _at(path, revision)[1]


def commit_date(path: Path, revision: str) -> str | None:
    """Give when a commit was made, in UTC (ISO 8601); None where it does not say."""
    git, commit = _at(path, revision)
    # Not git show, which may run a program that the repository's configuration names.
    time_of = _COMMITTED.search(git.output("cat-file", "commit", commit))
    return time_of and datetime.fromtimestamp(int(time_of[1]), UTC).isoformat()


@contextmanager
def repository_tree(path: Path, revision: str) -> Iterator[Tree]:
    """Open the files of one commit."""
    git, commit = _at(path, revision)
    listing = git.output("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    with subprocess.Popen(  # noqa: S603 - no shell, and words of our own
        [*git.command, "cat-file", "--batch"],
        env=git.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as reader:

        def read(key: bytes, name: bytes, most: int) -> bytes | Skip:
            assert reader.stdin is not None
            assert reader.stdout is not None
            reader.stdin.write(key + b"\n")
            reader.stdin.flush()
            words = reader.stdout.readline().split()
            if len(words) != 3:
                raise SourceError(
                    f"{path}: {name.decode(errors='replace')} cannot be read at {commit}; the "
                    "repository is damaged or a partial clone: check with git fsck, or clone it whole"
                )
            return reader.stdout.read(int(words[2]) + 1)[:-1][:most]

        def entry(line: bytes) -> TreeEntry:
            facts, _, name = line.partition(b"\t")
            mode, kind, key, digits = facts.split()
            size = int(digits) if digits.isdigit() else 0
            skip = None
            if mode == b"120000":
                skip = LINK
            elif kind != b"blob":
                skip = Skip("link", "a submodule; name its repository as a corpus of its own")
            return named_entry(
                name.decode("utf-8", "surrogateescape"),
                size,
                skip,
                read=partial(read, key, name),
                stamp=(size, 0, 0, int(key, 16)),
            )

        try:
            yield Tree(map(entry, listing.split(b"\0")[:-1]), commit)
        finally:
            reader.kill()
