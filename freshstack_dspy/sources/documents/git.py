"""A git repository at a revision, read from its object store and never from its working tree.

The repository may be hostile: see `git_program` for what keeps its own configuration from
starting a program or opening a connection.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.documents.folder import LINK
from freshstack_dspy.sources.documents.git_boundary import check_inside
from freshstack_dspy.sources.documents.git_listing import ListingError, list_tree
from freshstack_dspy.sources.documents.git_program import Git, said
from freshstack_dspy.sources.documents.skips import Skip
from freshstack_dspy.sources.documents.tree import Entry, Wanted, named_entry, without_hidden

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
