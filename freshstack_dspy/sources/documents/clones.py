"""Copies of git repositories that lie elsewhere: one bare repository for each commit.

    CLONES/HOST-PATH-HASH/COMMIT.git    complete, or not there: it is made beside and renamed
    CLONES/HOST-PATH-HASH/HASH.commit   which commit a branch or tag was when last fetched

So nothing needs a lock: a process that is killed leaves a folder that nobody reads, and of two
that fetch the same commit the later one finds it there.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.documents.fetching import Talk, talk
from freshstack_dspy.sources.documents.git_program import Git, said
from freshstack_dspy.sources.documents.remotes import (
    Remote,
    check_revision,
    is_commit,
    remote,
    unknown_revision,
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
