"""A git repository at a revision, read from its object store and never from its working tree.

The repository may be hostile. No command used here runs hooks, filters or text conversions; the
file system monitor is off, and a missing object is never fetched, so that nothing in the
repository's own configuration can start a program or open a connection.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.tree import Entry, hidden_part, named_entry

_OVERRIDES = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "protocol.allow=never")
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_LINK, _SUBMODULE = b"120000", b"160000"


class Repository:
    """The files of one commit."""

    def __init__(self, path: Path, revision: str) -> None:
        """Find the commit.

        Args:
            path: The root of a working tree, or a bare repository.
            revision: A commit, tag or branch.

        Raises:
            SourceError: git is not installed, this is no repository, git distrusts it, or it has
                no such commit.
        """
        self._path = path
        self._reader: subprocess.Popen[bytes] | None = None
        program = shutil.which("git")
        if program is None:
            raise SourceError(
                f"{path}: git is not installed and revision = {revision!r} needs it; install git, "
                "or leave revision out to read the folder"
            )
        self._command = [program, "--no-pager", "-C", str(path)]
        for override in _OVERRIDES:
            self._command += ["-c", override]
        self.revision: str | None = self._commit(revision)

    def entries(self) -> Iterator[Entry]:
        """List the files of the commit; what lies in a hidden folder is one entry."""
        listing = self._output("ls-tree", "-r", "-l", "-z", "--full-tree", str(self.revision))
        hidden: set[str] = set()
        seen: set[bytes] = set()
        for line in listing.split(b"\0")[:-1]:
            facts, _, raw_path = line.partition(b"\t")
            mode, kind, key, size = facts.split()
            reason = None
            if mode == _LINK:
                reason = "a symbolic link; links are not followed"
            elif mode == _SUBMODULE or kind != b"blob":
                reason = "a submodule; name its repository as a corpus of its own"
            elif raw_path in seen:
                reason = "its path is there twice"
            seen.add(raw_path)
            number = int(size) if size.isdigit() else 0
            entry = named_entry(raw_path, number, reason, key.decode())
            folder = hidden_part(entry.path)
            if folder is None:
                yield entry
            elif folder not in hidden:
                hidden.add(folder)
                yield Entry(folder, reason="hidden")

    def read(self, entry: Entry, most: int) -> bytes:
        """Read a file whose size is known to be at most `most`."""
        if self._reader is None:
            self._reader = subprocess.Popen(  # noqa: S603 - no shell, and words of our own
                [*self._command, "cat-file", "--batch"],
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        try:
            self._reader.stdin.write(entry.key.encode() + b"\n")
            self._reader.stdin.flush()
        except BrokenPipeError:
            header = b""
        else:
            header = self._reader.stdout.readline()
        words = header.split()
        if len(words) != 3 or words[1] != b"blob":
            said = header.decode(errors="replace").strip() or "git stopped"
            raise SourceError(
                f"{self._path}: {entry.path} cannot be read at {self.revision}: {said}; the "
                "repository is damaged or a partial clone: check with git fsck, or clone it whole"
            )
        size = int(words[2])
        data = self._reader.stdout.read(size + 1)
        return data[:size][:most]

    def close(self) -> None:
        """End the reading process."""
        if self._reader is not None:
            with self._reader:
                pass
            self._reader = None

    def _commit(self, revision: str) -> str:
        self._output("rev-parse", "--git-dir")
        if not revision.startswith("-") and revision.isprintable():
            found = self._run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
            if found.returncode == 0:
                return found.stdout.decode().strip()
        raise SourceError(
            f"{self._path}: has no commit {revision!r}; allowed: a commit, tag or branch, as "
            f"listed by: git -C {self._path} log --all --oneline"
        )

    def _output(self, *words: str) -> bytes:
        done = self._run(*words)
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        if "dubious ownership" in said:
            raise SourceError(
                f"{self._path}: belongs to another user, so git does not trust it; if you do, "
                f"type: git config --global --add safe.directory {self._path.resolve()}"
            )
        if "not a git repository" in said:
            raise SourceError(
                f"{self._path}: not the root of a git repository; leave revision out to read it "
                "as a folder, or name the root and choose its parts with include"
            )
        raise SourceError(f"{self._path}: git {words[0]} failed: {said}")

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603 - no shell, and no word begins with a dash but ours
            [*self._command, *words],
            env=self._environment(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        """Give git our surroundings without what would send it to another repository."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        ceiling = str(self._path.resolve().parent)
        return {**own, **_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": ceiling}
