"""Git repositories: read at a revision, fetched over real HTTP and from files, and hostile ones."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.git import check_url, fetch
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import SourceFile

from .read_corpus import files, read, reasons

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

    assert read(repository, revision="v1") == [
        SourceFile("docs", "a.md", b"one\r\n", first),
        SourceFile("docs", "src/b.py", "é = 1\n".encode(), first),
    ]
    for revision in ("main", "HEAD", second, second[:10], "v1~0^{/x}"):
        assert read(repository, revision=revision)[0].path == "a.md"
    assert read(repository, revision="main")[0] == SourceFile("docs", "a.md", b"two", second)


def test_links_and_submodules_are_skipped(repository: Path) -> None:
    (repository / "link").symlink_to("/etc/passwd")
    (repository / "large").write_bytes(b"x" * 1001)
    git(repository, "add", "-A")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    git(repository, "commit", "-q", "-m", "x")

    found = read(repository, limit=1000, revision="HEAD", exclude=("src",))

    assert list(files(found)) == ["a.md"]
    assert reasons(found) == {
        "large": "larger than max_file_bytes (1,001 of 1,000 bytes)",
        "link": "a symbolic link; links are not followed",
        "module": "a submodule; name its repository as a corpus of its own",
        "src/b.py": "excluded by 'src'",
    }


@pytest.mark.parametrize(
    "revision",
    ["v9", "--help", "HEAD:a.md", "main..main", "a\nb", "0" * 40],
)
def test_an_unknown_revision_is_an_error_that_says_how_to_list_them(
    repository: Path, revision: str
) -> None:
    with pytest.raises(SourceError) as error:
        read(repository, revision=revision)

    assert f"has no commit {revision!r}; allowed: a commit, tag or branch" in str(error.value)


def test_only_the_root_of_a_repository_is_one(repository: Path) -> None:
    with pytest.raises(SourceError, match=r"not a git repository .*; name the root of one"):
        read(repository / "src", revision="HEAD")


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

    assert files(read(repository, revision="HEAD"))["a.md"] == b"one\r\n"


def test_a_missing_object_is_an_error_and_is_not_fetched(repository: Path, trap: str) -> None:
    """A partial clone would run its remote's transport to fetch it."""
    key = git(repository, "rev-parse", "HEAD:src/b.py")
    git(repository, "config", "remote.origin.url", f"ext::sh -c {trap.replace(' ', '% ')}")
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "protocol.ext.allow", "always")
    (repository / ".git" / "objects" / key[:2] / key[2:]).unlink()

    with pytest.raises(SourceError, match=r"git fsck|git ls-tree failed"):
        read(repository, revision="HEAD")


# Repositories elsewhere


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A repository with two commits, a tag and a branch, bare, in a folder to serve."""
    work = tmp_path / "work"
    git(tmp_path, "init", "-q", "-b", "main", str(work))
    (work / "a.md").write_text("one")
    commit(work)
    git(work, "tag", "-a", "v1", "-m", "x")
    (work / "a.md").write_text("two")
    commit(work)
    git(work, "branch", "feature/x")
    served = tmp_path / "srv/lib.git"
    git(tmp_path, "clone", "-q", "--bare", str(work), str(served))
    git(served, "update-server-info")
    (served / "git-daemon-export-ok").touch()
    return served


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def dumb(served: Path) -> Iterator[str]:
    """A server that knows nothing of git: no shallow copies, no commit by its id."""
    handler = partial(Silent, directory=str(served.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/lib.git"
        server.shutdown()
        thread.join()


def fetched(
    url: str, clones: Path, revision: str | None = None, *, offline: bool = False
) -> CorpusConfig:
    corpus = CorpusConfig(name="docs", url=url, revision=revision)
    return fetch(corpus, clones, offline=offline)


def content(corpus: CorpusConfig) -> dict[str, bytes]:
    return files(read(corpus.path, revision=corpus.revision))


@pytest.mark.parametrize("server", ["dumb", "file"])
def test_a_revision_is_brought_here_and_pinned(
    server: str, served: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"file://{served}" if server == "file" else request.getfixturevalue(server)
    clones = tmp_path / "clones"
    first, second = git(served, "rev-parse", "v1^{commit}"), git(served, "rev-parse", "main")

    for revision, meant in ((None, second), ("v1", first), ("feature/x", second), (first, first)):
        found = fetched(url, clones, revision)

        assert (found.revision, found.url) == (meant, url)
        assert content(found) == {"a.md": b"one" if meant == first else b"two"}
        assert found.path is not None
        history = git(found.path, "rev-list", "--count", str(found.revision))
        assert history == "1" or server == "dumb"
    assert len(list(clones.glob("*/*.git"))) == 2
    assert not list(clones.glob("*/.*"))


def test_offline_serves_what_is_here_and_says_so(served: Path, tmp_path: Path) -> None:
    url, clones, notes = f"file://{served}", tmp_path / "clones", list[str]()
    here = fetched(url, clones, "main")
    shutil.rmtree(served)

    corpus = CorpusConfig(name="docs", url=url, revision="main")
    again = fetch(corpus, clones, offline=True, progress=notes.append)

    assert again == here
    assert notes == [f"{url}: main as last fetched, {str(here.revision)[:12]}"]
    assert fetched(url, clones, here.revision) == here  # and not offline: no one is asked
    for revision in ("v1", "0" * 40, None):
        with pytest.raises(SourceError, match=r"has not been fetched to .* fetch it first with"):
            fetched(url, clones, revision, offline=True)


def test_a_branch_that_moved_is_fetched_again(served: Path, tmp_path: Path) -> None:
    url, clones = f"file://{served}", tmp_path / "clones"
    before = fetched(url, clones, "main")
    git(served, "update-ref", "refs/heads/main", "v1^{commit}")

    after = fetched(url, clones, "main")

    assert (content(before), content(after)) == ({"a.md": b"two"}, {"a.md": b"one"})


@pytest.mark.parametrize(
    "revision",
    ["v9", "0" * 40, "abcdef1", "--upload-pack=touch x", "main:a.md"],
)
def test_a_revision_that_is_none_is_one_line(served: Path, tmp_path: Path, revision: str) -> None:
    with pytest.raises(SourceError) as error:
        fetched(f"file://{served}", tmp_path / "clones", revision)

    assert repr(revision) in str(error.value) or "cannot be fetched" in str(error.value)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "clones").glob("*/*"))


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% x", "--upload-pack=x", "ftp://host/x", "git@-oProxyCommand=x:y",
     "ssh://-oProxyCommand=x/y", "../x", "https://host/x y", "https://host/a\nb"],
)  # fmt: skip
def test_only_addresses_of_known_forms_are_used(tmp_path: Path, url: str) -> None:
    with pytest.raises(SourceError, match="allowed: https://HOST/PATH"):
        fetched(url, tmp_path)


@pytest.mark.parametrize(
    "url", ["https://bob:hunter2@host/x", "ssh://bob:hunter2@host/x", "https://bob:hun/ter2@host/x"]
)
def test_a_password_is_an_error_and_never_shown(url: str) -> None:
    with pytest.raises(SourceError, match="not shown, as it may hold a password") as error:
        check_url(url)

    assert "ter2" not in str(error.value)
