"""A git repository at a revision, read from its object store and never from its working tree.

The repository may be hostile: see `git_program` for what keeps its own configuration from
starting a program or opening a connection.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.tree import LINK, Entry, Skip, Wanted, named_entry, without_hidden
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


_STALLED = 300
"""Seconds without a word from git after which it is ended."""
_QUIET = 2
_BETWEEN = 0.5
_KEPT = 64 << 10
_LISTING = 16 << 20
_NOTE = re.compile(r"(?:remote: )?([A-Z][a-z]+ [a-z]+: +\d+%?)")


class Talk(NamedTuple):
    """What came of it."""

    ok: bool
    stdout: bytes
    stderr: bytes


def talk(git: Git, *words: str, progress: Callable[[str], None] | None = None) -> Talk:
    """Run a command of git that opens a connection.

    Args:
        git: Of the folder to work in.
        words: The command.
        progress: Told how far it is, from two seconds on.
    """
    process = subprocess.Popen(  # noqa: S603 - no shell, and no word begins with a dash but ours
        git.command("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", *words),
        env=git.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    watch = _Watch(process)
    output = _Output(process.stdout, watch)
    with process, watch:
        try:
            output.start()
            stderr = _listen(process.stderr, watch, progress)
            output.join()
            ok = process.wait() == 0
        finally:
            watch.end()
    if watch.stalled:
        return Talk(ok=False, stdout=b"", stderr=f"fatal: no word for {_STALLED} seconds".encode())
    return Talk(ok, bytes(output.data), stderr)


def _listen(stderr: IO[bytes], watch: "_Watch", progress: Callable[[str], None] | None) -> bytes:
    kept, told = b"", time.monotonic() + _QUIET - _BETWEEN
    while piece := os.read(stderr.fileno(), 4096):
        watch.heard()
        kept = (kept + piece)[-_KEPT:]
        notes = _NOTE.findall(piece.decode(errors="replace"))
        if progress and notes and time.monotonic() - told > _BETWEEN:
            told = time.monotonic()
            progress(notes[-1])
    return kept


class _Output(threading.Thread):
    """Collects what git writes, up to a limit."""

    def __init__(self, stdout: IO[bytes], watch: "_Watch") -> None:
        super().__init__(daemon=True)
        self._stdout = stdout
        self._watch = watch
        self.data = bytearray()

    def run(self) -> None:
        while piece := os.read(self._stdout.fileno(), 1 << 16):
            self._watch.heard()
            self.data += piece[: _LISTING - len(self.data)]


class _Watch(threading.Thread):
    """Ends a process, and what it started, when nothing has been heard of it for long."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._last = time.monotonic()
        self._over = threading.Event()
        self.stalled = False

    def __enter__(self) -> "_Watch":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join()

    def heard(self) -> None:
        self._last = time.monotonic()

    def run(self) -> None:
        while not self._over.wait(1):
            if time.monotonic() - self._last > _STALLED:
                self.stalled = True
                self.end()
                return

    def end(self) -> None:
        """Kill the process and its children, if they still run."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (AttributeError, ProcessLookupError, PermissionError):
                self._process.kill()


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


_UNFINISHED = ".fetching-"
_ABANDONED = 24 * 3600
"""Seconds after which an unfinished copy belongs to a process that was killed."""
_OURS = "refs/freshstack/fetched"
_CHECKED = (  # objects that are not what git would write are refused …
    "fetch.fsckObjects=true",
    "fetch.unpackLimit=1",
    # … but for faults of form that old and honest histories have
    *(
        f"fetch.fsck.{fault}=ignore"
        for fault in (
            "zeroPaddedFilemode", "missingSpaceBeforeDate", "missingSpaceBeforeEmail",
            "missingNameBeforeEmail", "missingEmail", "badEmail", "badTimezone",
            "badDateOverflow", "zeroPaddedDate", "missingTaggerEntry", "badTagName",
        )
    ),
)  # fmt: skip
_UNSHALLOW = ("shallow", "unadvertised object", "not our ref", "does not support")


def fetch(
    corpus: CorpusConfig,
    clones: Path,
    *,
    offline: bool,
    progress: Callable[[str], None] | None = None,
) -> CorpusConfig:
    """Bring the wanted revision of a corpus's `url` here; another corpus is given back as it is.

    History is left out where the server allows it. A full commit id that is here needs no
    network; a tag, a branch, or no revision (HEAD) is looked up at the remote.

    Args:
        corpus: With a `url`.
        clones: The folder for copies of repositories.
        offline: Open no connection: a branch or tag is then what it was when last fetched.
        progress: Told how far it is, when it takes more than two seconds, and what stands in for
            a branch that could not be looked up.

    Returns:
        The corpus with, beside its `url`, `path` the bare repository and `revision` the full
        commit id.

    Raises:
        SourceError: The address or revision is not allowed, cannot be reached or found, or is
            not here and `offline` is set; what git sent is damaged; git is not installed.
    """
    if corpus.url is None or corpus.path is not None:
        return corpus
    tell = progress or (lambda _note: None)
    source = remote(corpus.url)
    wanted = corpus.revision or "HEAD"
    check_revision(wanted)
    place = clones / source.folder
    name = place / f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.commit"
    try:
        if is_commit(wanted) and _clone(place, wanted).is_dir():
            commit = wanted
        elif offline:
            commit = _as_last_fetched(place, name, wanted, source)
            tell(f"{source.url}: {wanted} as last fetched, {commit[:12]}")
        else:
            commit = _fetched(source, wanted, place, tell)
            _write(name, commit)
    except OSError as error:
        raise SourceError(f"{clones}: cannot be written: {error.strerror}") from None
    return corpus.model_copy(update={"path": _clone(place, commit), "revision": commit})


def _clone(place: Path, commit: str) -> Path:
    return place / f"{commit}.git"


def _as_last_fetched(place: Path, name: Path, wanted: str, source: Remote) -> str:
    commit = name.read_text(encoding="ascii", errors="replace").strip() if name.is_file() else ""
    if is_commit(commit) and _clone(place, commit).is_dir():
        return commit
    raise SourceError(
        f"{source.url}: {wanted!r} has not been fetched to {place.parent}, and nothing may be "
        "fetched in replay; fetch it first with: freshstack build CONFIG --mode defer"
    )


def _fetched(source: Remote, wanted: str, place: Path, tell: Callable[[str], None]) -> str:
    place.mkdir(parents=True, exist_ok=True)
    _sweep(place)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=place) as workplace:
        git = Git(Path(workplace), protocols=source.protocols, why=source.url)
        ref, commit = wanted, wanted
        if not is_commit(wanted):
            ref, commit = _looked_up(git, source, wanted)
            if _clone(place, commit).is_dir():
                return commit
        made = git.run(
            "init", "-q", "--bare", "--template=",
            f"--object-format={'sha256' if len(commit) == 64 else 'sha1'}", ".",
        )  # fmt: skip
        if made.returncode:
            raise SourceError(f"{place}: git cannot begin a repository here: {said(made.stderr)}")
        _download(git, source, ref, tell)
        found = git.run("rev-parse", "--verify", "--quiet", f"{_OURS}^{{commit}}")
        if found.returncode:
            raise SourceError(f"{source.url}: {wanted!r} is no commit; name one, a tag or a branch")
        commit = found.stdout.decode().strip()
        _publish(Path(workplace), _clone(place, commit))
    return commit


def _looked_up(git: Git, source: Remote, wanted: str) -> tuple[str, str]:
    """Give the full name and the commit of a tag or branch, the tag first, as git does."""
    listed = talk(git, "ls-remote", "--quiet", "--", source.url, wanted, f"{wanted}^{{}}")
    if not listed.ok:
        raise _unreachable(source, listed)
    lines = [line.split("\t") for line in listed.stdout.decode(errors="replace").splitlines()]
    commits = {line[1]: line[0] for line in lines if len(line) == 2 and is_commit(line[0])}
    for ref in (wanted, f"refs/{wanted}", f"refs/tags/{wanted}", f"refs/heads/{wanted}"):
        if ref in commits:
            return ref, commits.get(f"{ref}^{{}}", commits[ref])
    raise unknown_revision(source.url, wanted)


def _download(git: Git, source: Remote, ref: str, tell: Callable[[str], None]) -> None:
    """Fetch one commit without its history, or, where the server cannot, everything."""
    begin = [word for setting in _CHECKED for word in ("-c", setting)]
    begin += [
        "fetch",
        "--progress",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
    ]
    begin += ["--no-auto-maintenance"]

    def attempt(*words: str) -> Talk:
        return talk(git, *begin, *words, progress=lambda note: tell(f"{source.url}: {note}"))

    done = attempt("--depth=1", "--", source.url, f"+{ref}:{_OURS}")
    if done.ok:
        return
    if not any(hint in done.stderr.decode(errors="replace") for hint in _UNSHALLOW):
        raise _unreachable(source, done)
    if not is_commit(ref):
        done = attempt("--", source.url, f"+{ref}:{_OURS}")
        if not done.ok:
            raise _unreachable(source, done)
        return
    done = attempt("--", source.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    if not done.ok:
        raise _unreachable(source, done)
    if git.run("update-ref", _OURS, ref).returncode:
        raise unknown_revision(source.url, ref)


def _publish(made: Path, target: Path) -> None:
    """Give a whole repository its name, unless somebody else has been faster."""
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    else:
        made.mkdir()  # what the caller cleans up


def _write(path: Path, commit: str) -> None:
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(f"{commit}\n", encoding="ascii")
    new.replace(path)


def _sweep(place: Path) -> None:
    """Remove what killed processes left."""
    for left in place.glob(f"{_UNFINISHED}*"):
        if time.time() - left.stat().st_mtime > _ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


def _unreachable(source: Remote, done: Talk) -> SourceError:
    reason = said(done.stderr)
    return SourceError(
        f"{source.url}: cannot be fetched: {reason}; check the address with: "
        f"git ls-remote {source.url}"
    )


_LARGEST = 1 << 20
"""Bytes of a list of alternates."""


def check_inside(path: Path, git_folder: Path, common_folder: Path, objects: Path) -> None:
    """Refuse a repository that reads objects from outside of the folder that it is.

    Args:
        path: The folder that was named.
        git_folder: As `git rev-parse` tells it, as the next two.
        common_folder: That of the repository that a linked worktree belongs to.
        objects: The folder of its objects.

    Raises:
        SourceError: With what to name, or to type, instead.
    """
    root = path.resolve()
    common = common_folder.resolve()
    if _is_linked_worktree(root, git_folder.resolve(), common):
        main = common.parent if common.name == ".git" else common
        raise SourceError(
            f"{path}: a linked worktree; name the repository itself: path = {str(main)!r}"
        )
    for place in (git_folder.resolve(), common, objects.resolve()):
        if not place.is_relative_to(root):
            raise SourceError(
                f"{path}: its repository lies elsewhere, in {place}; if that is the one you want, "
                "name it itself as path"
            )
    _check_objects(path, objects.resolve(), root)


def _is_linked_worktree(root: Path, git_folder: Path, common: Path) -> bool:
    """Say whether a repository knows this folder for one of its worktrees."""
    if git_folder.parent != common / "worktrees":
        return False
    back = _lines(git_folder / "gitdir")
    return len(back) == 1 and (git_folder / back[0]).resolve() == root / ".git"


def _check_objects(path: Path, objects: Path, root: Path) -> None:
    pending, seen = [objects], {objects}
    while pending:
        folder = pending.pop()
        for link in _links(folder):
            if not link.resolve().is_relative_to(root):
                raise SourceError(
                    f"{path}: {link} leads out of the repository; copy it with: "
                    f"git clone --bare --no-local {path} COPY, if you trust it, and name the copy"
                )
        for line in _lines(folder / "info" / "alternates"):
            other = (folder / line).resolve()
            if line.startswith('"') or not other.is_relative_to(root):
                raise SourceError(
                    f"{path}: borrows objects from {line}, outside of it; to make them its own "
                    f"type: git -C {path} repack -a -d, and remove {folder}/info/alternates"
                )
            if other not in seen:
                seen.add(other)
                pending.append(other)


def _links(folder: Path) -> Iterator[Path]:
    """Give the links in a folder of objects, which has folders of files."""
    pending = [(folder, 0)]
    while pending:
        current, depth = pending.pop()
        try:
            listing = os.scandir(current)
        except OSError:
            continue  # what git cannot list either, it does not read
        with listing:
            for child in listing:
                if child.is_symlink():
                    yield Path(child.path)
                elif depth == 0 and child.is_dir(follow_symlinks=False):
                    pending.append((Path(child.path), depth + 1))


def _lines(path: Path) -> list[str]:
    """Read a small file of git's own; none, if it is not there."""
    try:
        with path.open("rb") as file:
            text = os.fsdecode(file.read(_LARGEST))
    except OSError:
        return []
    return [line for line in text.split("\n") if line and not line.startswith("#")]


_MOST_FILES = 1_000_000
_MOST_BYTES = 512 << 20
_BLOCK = 1 << 20


class ListingError(Exception):
    """git ended with an error; holds what it said."""

    def __init__(self, stderr: bytes) -> None:
        """Keep what git said."""
        super().__init__(stderr)
        self.stderr = stderr


def list_tree(git: Git, commit: str, place: str) -> Iterator[bytes]:
    """Give the entries of `git ls-tree -r -l -z`.

    Args:
        git: Of the repository.
        commit: Its full id.
        place: Of the repository, for messages.

    Raises:
        ListingError: git ended with an error.
        SourceError: There are more than a million entries, or more than 512 MiB of them.
    """
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(  # noqa: S603 - no shell, and words of our own
            git.command("ls-tree", "-r", "-l", "-z", "--full-tree", commit),
            env=git.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        with process:
            try:
                yield from _bounded(process, place)
            finally:
                process.kill()
        if process.returncode:
            stderr.seek(0)
            raise ListingError(stderr.read(_BLOCK))


def _bounded(process: "subprocess.Popen[bytes]", place: str) -> Iterator[bytes]:
    assert process.stdout is not None
    pieces: list[bytes] = []
    count = size = 0
    while block := process.stdout.read(_BLOCK):
        size += len(block)
        count += block.count(b"\0")
        if count > _MOST_FILES or size > _MOST_BYTES:
            raise SourceError(
                f"{place}: its commit lists more than {_MOST_FILES:,} files or "
                f"{_MOST_BYTES >> 20} MiB of paths; name a smaller repository, or a folder "
                "without revision"
            )
        first, *others = block.split(b"\0")
        pieces.append(first)
        if others:
            yield b"".join(pieces)
            yield from others[:-1]
            pieces = [others[-1]]
    process.wait()


_LINK, _SUBMODULE = b"120000", b"160000"
_PASSED_OVER = 1 << 20


class Repository:
    """The files of one commit."""

    of_files = True

    def __init__(self, path: Path, revision: str) -> None:
        """Find the commit.

        Args:
            path: The root of a working tree, or a bare repository.
            revision: A commit, tag or branch.

        Raises:
            SourceError: git is not installed, this is no repository, its content lies outside of
                its folder, git distrusts it, or it has no such commit.
        """
        self._path = path
        self._git = Git(path, why=f"{path} at revision {revision!r}")
        self._reader: subprocess.Popen[bytes] | None = None
        self.revision: str | None = self._commit(revision)

    def entries(self) -> Iterator[Entry]:
        """List the files of the commit; what lies in a hidden folder is one entry."""
        return without_hidden(self._listed())

    def _listed(self) -> Iterator[Entry]:
        seen: set[bytes] = set()
        for line in self._lines():
            facts, _, raw_path = line.partition(b"\t")
            mode, kind, key, size = facts.split()
            skip = None
            if mode == _LINK:
                skip = LINK
            elif mode == _SUBMODULE or kind != b"blob":
                skip = Skip("link", "a submodule; name its repository as a corpus of its own")
            elif raw_path in seen:
                skip = Skip("unreadable", "its path is there twice")
            seen.add(raw_path)
            number = int(size) if size.isdigit() else 0
            yield named_entry(raw_path, number, skip, key.decode())

    def _lines(self) -> Iterator[bytes]:
        try:
            yield from list_tree(self._git, str(self.revision), str(self._path))
        except ListingError as error:
            raise self._failed("ls-tree", error.stderr) from None

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read files, asking git for all of them at once: it need not wait for us between two."""
        with tempfile.TemporaryFile() as asked:
            asked.writelines(f"{each.entry.key}\n".encode() for each in wanted)
            asked.seek(0)
            self._reader = subprocess.Popen(  # noqa: S603 - no shell, and words of our own
                self._git.command("cat-file", "--batch", "--buffer"),
                env=self._git.environment(),
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert self._reader.stdout is not None
        for entry, most in wanted:
            yield self._next(self._reader.stdout, entry, most)

    def _next(self, answers: IO[bytes], entry: Entry, most: int) -> bytes:
        header = answers.readline()
        words = header.split()
        if len(words) != 3 or words[1] != b"blob":
            raise self._damaged(entry, header.decode(errors="replace").strip())
        size = int(words[2])
        data = answers.read(min(size, most))
        rest = size + 1 - len(data)
        while rest > 0 and (passed := answers.read(min(rest, _PASSED_OVER))):
            rest -= len(passed)
        if rest:
            raise self._damaged(entry, "")
        return data

    def _damaged(self, entry: Entry, reply: str) -> SourceError:
        return SourceError(
            f"{self._path}: {entry.path} cannot be read at {self.revision}: "
            f"{reply or 'git stopped'}; the repository is damaged or a partial clone: check with "
            "git fsck, or clone it whole"
        )

    def close(self) -> None:
        """End the reading process."""
        if self._reader is not None:
            self._reader.kill()
            with self._reader:
                pass
            self._reader = None

    def _commit(self, revision: str) -> str:
        git_folder, common, objects = (
            self._path / os.fsdecode(self._output("rev-parse", *words).removesuffix(b"\n"))
            for words in (
                ("--absolute-git-dir",), ("--git-common-dir",), ("--git-path", "objects"),
            )
        )  # fmt: skip
        check_inside(self._path, git_folder, common, objects)
        if not revision.startswith("-") and revision.isprintable():
            found = self._git.run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
            if found.returncode == 0:
                return found.stdout.decode().strip()
        raise SourceError(
            f"{self._path}: has no commit {revision!r}; allowed: a commit, tag or branch, as "
            f"listed by: git -C {self._path} log --all --oneline"
        )

    def _output(self, *words: str) -> bytes:
        done = self._git.run(*words)
        if done.returncode == 0:
            return done.stdout
        raise self._failed(words[0], done.stderr)

    def _failed(self, command: str, stderr: bytes) -> SourceError:
        reason = said(stderr)
        if "dubious ownership" in reason:
            return SourceError(
                f"{self._path}: belongs to another user, so git does not trust it; if you do, "
                f"type: git config --global --add safe.directory {self._path.resolve()}"
            )
        if "not a git repository" in reason:
            return SourceError(
                f"{self._path}: not the root of a git repository; leave revision out to read it "
                "as a folder, or name the root and choose its parts with include"
            )
        return SourceError(f"{self._path}: git {command} failed: {reason}")
