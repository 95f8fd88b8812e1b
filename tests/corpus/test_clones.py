"""Repositories that lie elsewhere: over real HTTP and from files, offline, killed, twice at once."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import CGIHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.git import fetch, remote, said
from freshstack_dspy.errors import SourceError

from .read_corpus import files, read
from .test_git import commit, git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


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
    served = tmp_path / "srv" / "lib.git"
    git(tmp_path, "clone", "-q", "--bare", str(work), str(served))
    git(served, "update-server-info")
    (served / "git-daemon-export-ok").touch()
    return served


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing."""


class SmartGit(CGIHTTPRequestHandler):
    have_fork = False

    def log_message(self, *words: object) -> None:
        """Say nothing."""

    def is_cgi(self) -> bool:
        self.cgi_info = ("/cgi", self.path.removeprefix("/").replace("lib.git", "git/lib.git", 1))
        return True


def serving(handler: type[SimpleHTTPRequestHandler], folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/lib.git"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def dumb(served: Path) -> Iterator[str]:
    """A server that knows nothing of git: no shallow copies, no commit by its id."""
    yield from serving(Silent, served.parent)


@pytest.fixture
def smart(served: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Git's own server program behind Python's web server."""
    backend = Path(git(served, "--exec-path")) / "git-http-backend"
    if not backend.exists():
        pytest.skip("git has no http-backend here")
    folder = served.parent / "cgi"
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        f"#!/bin/sh\nGIT_HTTP_EXPORT_ALL=1 GIT_PROJECT_ROOT={served.parent} exec {backend}\n"
    )
    program.chmod(0o755)
    yield from serving(SmartGit, served.parent)


def fetched(
    url: str, clones: Path, revision: str | None = None, *, offline: bool = False
) -> CorpusConfig:
    corpus = CorpusConfig(name="docs", url=url, revision=revision)
    return fetch(corpus, clones, offline=offline)


def content(corpus: CorpusConfig) -> dict[str, bytes]:
    return files(read(corpus.path, revision=corpus.revision))


@pytest.mark.parametrize("server", ["dumb", "smart", "file"])
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
    assert len(list(clones.glob("*/*.git"))) == 2
    assert not list(clones.glob("*/.*"))


def test_history_is_left_out_where_the_server_allows_it(served: Path, tmp_path: Path) -> None:
    found = fetched(f"file://{served}", tmp_path / "clones", "main")

    assert found.path is not None
    assert git(found.path, "rev-list", "--count", str(found.revision)) == "1"


def test_offline_serves_what_is_here_and_says_so(served: Path, tmp_path: Path) -> None:
    url, clones, notes = f"file://{served}", tmp_path / "clones", list[str]()
    here = fetched(url, clones, "main")
    shutil.rmtree(served)

    again = fetch(
        CorpusConfig(name="docs", url=url, revision="main"),
        clones,
        offline=True,
        progress=notes.append,
    )

    assert again == here
    assert notes == [f"{url}: main as last fetched, {str(here.revision)[:12]}"]
    assert fetched(url, clones, here.revision) == here  # and not offline: nobody is asked
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
    ["v9", "0" * 40, "0" * 64, "abcdef1", "--upload-pack=touch x", "a..b", "main:a.md", "*"],
)
def test_a_revision_that_is_none_is_one_line(served: Path, tmp_path: Path, revision: str) -> None:
    with pytest.raises(SourceError) as error:
        fetched(f"file://{served}", tmp_path / "clones", revision)

    assert repr(revision) in str(error.value) or "cannot be fetched" in str(error.value)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "clones").glob("*/*"))


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% x", "--upload-pack=x", "-oProxyCommand=x", "ftp://host/x", "fd::17",
     "git@-oProxyCommand=x:y", "ssh://-oProxyCommand=x/y", "host:path", "https://host", "../x",
     "https://host/x y", "git://host/x", "https://host/a\nb", ""],
)  # fmt: skip
def test_only_addresses_of_known_forms_are_used(tmp_path: Path, url: str) -> None:
    with pytest.raises(SourceError, match="allowed: https://HOST/PATH"):
        fetched(url, tmp_path)


@pytest.mark.parametrize(
    "url", ["https://bob:hunter2@host/x", "https://hunter2@host/x", "ssh://bob:hunter2@host/x",
            "https://host/x?token=hunter2"],
)  # fmt: skip
def test_a_password_is_refused_and_never_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="holds a name or password"):
        CorpusConfig(name="docs", url=url)
    unchecked = CorpusConfig(name="docs", url="https://host/x").model_copy(update={"url": url})
    with pytest.raises(SourceError) as error:
        fetch(unchecked, tmp_path, offline=False)

    assert "hunter2" not in str(error.value).partition("?")[0]


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("https://github.com/pallets/click.git", "github.com-pallets-click-"),
        ("git@example.org:team/lib", "example.org-team-lib-"),
        ("ssh://git@example.org:22/team/lib", "example.org-team-lib-"),
        ("file:///srv/git/../lib", "local-..-lib-"),
    ],
)
def test_clones_are_named_after_their_address(url: str, folder: str) -> None:
    name = remote(url).folder

    assert name[:-12] == folder
    assert "/" not in name


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:9/x: cannot be fetched: fatal: "):
        fetched("http://127.0.0.1:9/x", tmp_path / "clones")


FETCH = """
import sys
from pathlib import Path
from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.git import fetch
print(fetch(CorpusConfig(name="docs", url=sys.argv[1]), Path(sys.argv[2]), offline=False).revision)
"""


def test_two_processes_may_fetch_at_once(served: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", FETCH, f"file://{served}", str(tmp_path / "clones")]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    said = {process.communicate()[0].strip() for process in both}

    assert said == {git(served, "rev-parse", "main")}
    assert len(list((tmp_path / "clones").glob("*/*.git"))) == 1
    assert not list((tmp_path / "clones").glob("*/.*"))


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no such signals there")
def test_a_killed_fetch_leaves_nothing_that_is_taken_for_a_clone(
    served: Path, tmp_path: Path
) -> None:
    """A stand-in for git stops for ever in the middle of the download."""
    clones, slow = tmp_path / "clones", tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *--depth*) touch {tmp_path}/begun; exec sleep 5;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    slow.chmod(0o755)
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH, f"file://{served}", str(clones)],
        env={**os.environ, "PATH": path},
        stderr=subprocess.DEVNULL,
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert not list(clones.glob("*/*.git"))
    assert content(fetched(f"file://{served}", clones)) == {"a.md": b"two"}


def test_a_hostile_server_cannot_send_damaged_objects(served: Path, tmp_path: Path) -> None:
    """A tree with a path that git itself never writes is refused on arrival."""
    blob = bytes.fromhex(git(served, "rev-parse", "main:a.md"))
    tree = git(
        served, "hash-object", "-w", "-t", "tree", "--literally", "--stdin",
        data=b"100644 ../x\0" + blob,
    )  # fmt: skip
    forged = git(served, "commit-tree", tree, "-m", "x")
    git(served, "update-ref", "refs/heads/main", forged)

    with pytest.raises(SourceError, match="cannot be fetched"):
        fetched(f"file://{served}", tmp_path / "clones", "main")


@pytest.mark.parametrize(
    "url", ["https://bob:hun/ter2@host/x", "bob:hunter2@host:x", "ftp://bob:ter2@ter2@host/x"]
)
def test_an_address_with_an_at_sign_is_not_quoted(url: str) -> None:
    with pytest.raises(SourceError) as error:
        remote(url)

    assert "ter2" not in str(error.value)
    assert "url is not shown, as it may hold a password; allowed: https://" in str(error.value)


def test_no_part_of_a_password_is_left_in_what_git_said() -> None:
    message = b"fatal: unable to access 'https://bob:se@cr/et@host/x': no"

    assert said(message) == "fatal: unable to access 'https://host/x': no"
