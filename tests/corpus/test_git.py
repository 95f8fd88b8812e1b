"""Files of a git repository at a revision, from real repositories made here."""

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.corpus.git import Git, list_tree
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import LicenceFile, SkippedFile, SourceFile

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
AUTHOR = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def git(repository: Path, *words: str, data: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-C", repository, *AUTHOR, *words], check=True, capture_output=True, input=data
    )
    return done.stdout.decode().strip()


def commit(repository: Path) -> str:
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "x")
    return git(repository, "rev-parse", "HEAD")


def read(
    path: Path, revision: str = "HEAD", **settings: object
) -> list[SourceFile | SkippedFile | LicenceFile]:
    corpus = {"name": "lib", "path": path, "revision": revision, **settings}
    return list(read_files(CorpusConfig.model_validate(corpus), 1000))


def files(found: list[SourceFile | SkippedFile | LicenceFile]) -> dict[str, bytes]:
    return {file.path: file.data for file in found if isinstance(file, SourceFile)}


def skipped(found: list[SourceFile | SkippedFile | LicenceFile]) -> dict[str, str]:
    return {file.path: file.reason for file in found if isinstance(file, SkippedFile)}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    git(tmp_path, "init", "-q", "-b", "main", str(path))
    (path / "a.md").write_bytes(b"one\r\n")
    (path / "src").mkdir()
    (path / "src" / "b.py").write_bytes("é = 1\n".encode())
    commit(path)
    return path


def test_the_commit_is_read_and_not_the_working_tree(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v1")
    (repository / "a.md").write_bytes(b"two")
    second = commit(repository)
    (repository / "a.md").write_bytes(b"three")
    (repository / "untracked.md").write_bytes(b"four")

    assert read(repository, "v1") == [
        SourceFile("lib", "a.md", b"one\r\n", first),
        SourceFile("lib", "src/b.py", "é = 1\n".encode(), first),
    ]
    for revision in ("main", "HEAD", second, second[:10], "v1~0^{/x}"):
        assert read(repository, revision)[0].path == "a.md"
    assert read(repository, "main")[0] == SourceFile("lib", "a.md", b"two", second)


def test_a_bare_repository_will_do(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")

    assert read(tmp_path / "bare.git", "main") == read(repository, "main")


def test_any_path_that_git_can_hold_is_read_or_reported(repository: Path) -> None:
    names = ["with space.md", "ünï/👍.md", "new\nline.md", "tab\t.md", 'quo"te.md', "-dash.md"]
    for name in names:
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_bytes(name.encode())
    (repository / ".github").mkdir()
    (repository / ".github" / "ci.yml").write_bytes(b"x")
    (repository / ".github" / "more.yml").write_bytes(b"x")
    commit(repository)

    found = read(repository)

    assert files(found) == {
        "-dash.md": b"-dash.md",
        "a.md": b"one\r\n",
        'quo"te.md': b'quo"te.md',
        "src/b.py": "é = 1\n".encode(),
        "with space.md": b"with space.md",
        "ünï/👍.md": "ünï/👍.md".encode(),
    }
    assert skipped(found) == {
        ".github": "hidden",
        "new\\nline.md": "its name holds a line break or control character",
        "tab\\t.md": "its name holds a line break or control character",
    }
    assert [file.path for file in found] == sorted(file.path for file in found)


def test_links_submodules_and_useless_files_are_skipped(repository: Path) -> None:
    (repository / "link").symlink_to("/etc/passwd")
    (repository / "empty").touch()
    (repository / "large").write_bytes(b"x" * 1001)
    (repository / "image").write_bytes(b"\0")
    git(repository, "add", "-A")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    git(repository, "commit", "-q", "-m", "x")

    found = read(repository, exclude=("src",))

    assert list(files(found)) == ["a.md"]
    assert skipped(found) == {
        "empty": "empty",
        "image": "binary (a NUL at byte 0)",
        "large": "larger than max_file_bytes (1,001 of 1,000 bytes)",
        "link": "a symbolic link; links are not followed",
        "module": "a submodule; name its repository as a corpus of its own",
        "src/b.py": "excluded by 'src'",
    }


@pytest.mark.parametrize(
    "revision",
    ["v9", "", "--help", "-h", "HEAD:a.md", "main..main", "a\nb", "a\0b", "0" * 40, "@{99}"],
)
def test_an_unknown_revision_is_an_error_that_says_how_to_list_them(
    repository: Path, revision: str
) -> None:
    with pytest.raises(SourceError) as error:
        read_files(CorpusConfig(name="lib", path=repository, revision=revision), 1000)

    assert f"has no commit {revision!r}; allowed: a commit, tag or branch" in str(error.value)
    assert f"git -C {repository} log --all --oneline" in str(error.value)


def test_a_revision_is_never_an_option(repository: Path, tmp_path: Path) -> None:
    stolen = tmp_path / "stolen"

    with pytest.raises(SourceError, match="has no commit"):
        read(repository, f"--output={stolen}")

    assert not stolen.exists()


@pytest.mark.parametrize("name", ["plain", "repository/src"])
def test_only_the_root_of_a_repository_is_one(repository: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "plain").mkdir()

    with pytest.raises(SourceError, match="not the root of a git repository; leave revision out"):
        read(tmp_path / name)


def test_a_folder_inside_another_repository_is_not_that_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    (repository / "docs").mkdir()

    with pytest.raises(SourceError, match="not the root of a git repository"):
        read(repository / "docs")


def test_without_git_the_error_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(
        SourceError, match=r"git is not installed, and .* at revision 'HEAD' needs it"
    ):
        read(repository)


def test_an_owner_that_git_distrusts_is_explained(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in for git says what git says; only root can make a file that is another's."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'fatal: detected dubious ownership in x' >&2\nexit 128\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    with pytest.raises(SourceError) as error:
        read(repository)

    assert f"git config --global --add safe.directory {repository}" in str(error.value)


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[str]:
    """A command that leaves a mark; the test fails if it was run."""
    mark = tmp_path / "mark"
    yield f"touch {mark}; false"
    assert not mark.exists()


def test_nothing_in_a_hostile_repository_runs(repository: Path, trap: str) -> None:
    (repository / ".gitattributes").write_text("*.md filter=evil diff=evil\n", encoding="utf-8")
    commit(repository)
    for key in (
        "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "filter.evil.smudge",
        "filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.evil.command",
        "alias.cat-file", "alias.ls-tree", "uploadpack.packObjectsHook", "credential.helper",
        "pager.ls-tree", "core.alternateRefsCommand",
    ):  # fmt: skip
        git(repository, "config", key, f"!{trap}" if key.startswith("alias") else trap)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        path = repository / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{trap}\n", encoding="utf-8")
        path.chmod(0o755)

    assert files(read(repository))["a.md"] == b"one\r\n"


def test_a_missing_object_is_an_error_and_is_not_fetched(repository: Path, trap: str) -> None:
    """A partial clone would run its remote's transport to fetch it."""
    key = git(repository, "rev-parse", "HEAD:src/b.py")
    git(repository, "config", "remote.origin.url", f"ext::sh -c {trap.replace(' ', '% ')}")
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "protocol.ext.allow", "always")
    (repository / ".git" / "objects" / key[:2] / key[2:]).unlink()

    with pytest.raises(SourceError, match=r"git fsck|git ls-tree failed"):
        read(repository)


def test_replaced_objects_do_not_stand_in_for_the_commit(repository: Path) -> None:
    old = git(repository, "rev-parse", "HEAD:a.md")
    new = git(repository, "hash-object", "-w", "--stdin", data=b"forged")
    git(repository, "replace", old, new)

    assert files(read(repository))["a.md"] == b"one\r\n"


def test_a_path_that_is_there_twice_is_read_once(repository: Path) -> None:
    """git itself does not write such trees; somebody else may."""
    key = bytes.fromhex(git(repository, "rev-parse", "HEAD:a.md"))
    entry = b"100644 a.md\0" + key
    tree = git(
        repository, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", data=entry * 2
    )
    forged = git(repository, "commit-tree", tree, "-m", "x")

    found = read(repository, forged)

    assert files(found) == {"a.md": b"one\r\n"}
    assert skipped(found) == {"a.md": "its path is there twice"}


def test_reading_may_stop_early(repository: Path) -> None:
    """The process that reads ends with it: an open pipe would be a warning, and so an error."""
    reading = read_files(CorpusConfig(name="lib", path=repository, revision="main"), 1000)
    next(reading)
    reading.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["", "n" * 250], ids=["many", "long"])
def test_a_tree_bomb_is_refused(repository: Path, name: str) -> None:
    """Nine trees of ten entries each, one within the other, have 10**9 paths."""
    key, mode = git(repository, "rev-parse", "HEAD"), "160000 commit"
    for _ in range(9):
        lines = "".join(f"{mode} {key}\t{name}{number}\n" for number in range(10))
        key, mode = git(repository, "mktree", data=lines.encode()), "040000 tree"
    bomb = git(repository, "commit-tree", key, "-m", "x")

    with pytest.raises(SourceError, match="lists more than 1,000,000 files or 512 MiB of paths"):
        deque(list_tree(Git(repository, why="a test"), bomb, "repository"), maxlen=0)


@pytest.mark.parametrize(
    "borrowed", ["link", "gitdir", "objects", "pack", "alternates", "commondir", "inner"]
)
def test_the_content_of_another_repository_is_not_read(
    repository: Path, tmp_path: Path, borrowed: str
) -> None:
    trap, secret = tmp_path / "trap", repository / ".git"
    git(repository, "repack", "-a", "-d", "-q")
    git(tmp_path, "init", "-q", "-b", "main", str(trap))
    own = trap / ".git"
    (own / "refs/heads/main").write_text(git(repository, "rev-parse", "HEAD"))
    if borrowed in ("link", "gitdir"):
        shutil.rmtree(own)
    if borrowed == "link":
        own.symlink_to(secret)
    elif borrowed == "gitdir":
        own.write_text(f"gitdir: {secret}")
    elif borrowed in ("objects", "pack"):
        place = own / "objects" / borrowed.removeprefix("objects")
        shutil.rmtree(place)
        place.symlink_to(secret / "objects" / borrowed.removeprefix("objects"))
    elif borrowed == "commondir":
        (own / "commondir").write_text(str(secret))
    else:
        inner = trap / "inner"
        (inner / "info").mkdir(parents=True)
        (inner / "info" / "alternates").write_text(f"{secret}/objects\n")
        alternate = inner if borrowed == "inner" else secret / "objects"
        (own / "objects/info/alternates").write_text(f"# x\n{alternate}\n")

    with pytest.raises(
        SourceError, match=r"lies elsewhere, in|leads out of|outside of it"
    ) as error:
        read(trap)

    assert "\n" not in str(error.value)


def test_a_linked_worktree_is_told_to_name_its_repository(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))

    with pytest.raises(SourceError) as error:
        read(tmp_path / "tree")

    assert str(error.value) == (
        f"{tmp_path}/tree: a linked worktree; name the repository itself: path = '{repository}'"
    )


def test_a_repository_may_be_named_through_a_link(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to(repository)

    assert read(tmp_path / "name") == read(repository)
