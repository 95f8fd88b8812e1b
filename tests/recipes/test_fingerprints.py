"""What the fingerprints of a build's inputs see."""

import subprocess
import sys
from pathlib import Path

import pytest

from freshstack_dspy.config import BuildConfig, CorpusConfig
from freshstack_dspy.recipes.provenance import WITHOUT_EFFECT, fingerprint_inputs

from .domain import domain

PARTS = {"code", "settings", "queries", "corpus"}
POSTS = """<?xml version="1.0" encoding="utf-8"?>
<posts>
  <row Id="1" PostTypeId="1" AcceptedAnswerId="2" CreationDate="2024-01-01T00:00:00" Score="1"
    Title="Why?" Body="&lt;p&gt;Why?&lt;/p&gt;" Tags="&lt;a&gt;" OwnerUserId="7" />
  <row Id="2" PostTypeId="2" ParentId="1" CreationDate="2024-01-01T00:00:00" Score="1"
    Body="&lt;p&gt;Therefore.&lt;/p&gt;" OwnerUserId="7" />
</posts>
"""
USERS = '<?xml version="1.0" encoding="utf-8"?>\n<users><row Id="7" DisplayName="Ada" /></users>\n'
LISTEN = """
import sys
from pathlib import Path
from freshstack_dspy.config import QueriesConfig, load_config
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.questions.reading import query_files
config = load_config(sys.argv[1])
read_queries(config.queries)  # what is imported on the way is imported now
opened = set()
def hear(event, words):
    if event == "open" and isinstance(words[0], (str, bytes)):
        opened.add(Path(words[0]).resolve())
sys.addaudithook(hear)
read_queries(config.queries)
heard = opened.copy()
print(sorted(path.name for path in heard))
print(sorted(path.name for path in query_files(config.queries)))
"""


def test_the_same_inputs_have_the_same_fingerprints_wherever_they_are(tmp_path: Path) -> None:
    here, there = domain(tmp_path / "here"), domain(tmp_path / "there")

    assert fingerprint_inputs(here) == fingerprint_inputs(there)
    assert fingerprint_inputs(here).keys() == PARTS


@pytest.mark.parametrize(
    ("sections", "part"),
    [
        ({"judge": {"batch": 1}}, "settings"),
        ({"queries": {"limit": 1}}, "queries"),
        ({"chunking": {"max_tokens": 99}}, "corpus"),
    ],
)
def test_a_change_shows_in_its_part_alone(
    tmp_path: Path, sections: dict[str, dict[str, int]], part: str
) -> None:
    before = fingerprint_inputs(domain(tmp_path))

    after = fingerprint_inputs(domain(tmp_path, **sections))

    assert {name for name in PARTS if before[name] != after[name]} == {part}


def test_every_section_is_compared_or_named_as_without_effect(tmp_path: Path) -> None:
    """A section that a later version adds is compared until somebody says otherwise."""
    assert WITHOUT_EFFECT.keys() <= BuildConfig.model_fields.keys()
    for name, excluded in WITHOUT_EFFECT.items():
        if excluded is not True:
            section = getattr(domain(tmp_path), name)
            assert excluded <= type(section).model_fields.keys()


def test_an_input_that_cannot_be_read_has_no_fingerprints(tmp_path: Path) -> None:
    """The build itself then says what is wrong, as it always does."""
    config = domain(tmp_path)
    config.queries.location.unlink()

    assert fingerprint_inputs(config) == {}


@pytest.mark.parametrize("api_base", ["http://10.0.0.1/v1", "ftp://10.0.0.1"])
def test_an_endpoint_counts_without_its_password(tmp_path: Path, api_base: str) -> None:
    plain = fingerprint_inputs(domain(tmp_path, model={"api_base": api_base}))
    secret = api_base.replace("//", "//me:secret@")

    assert fingerprint_inputs(domain(tmp_path, model={"api_base": secret})) == plain
    assert bool(plain) == api_base.startswith("http"), "a bad address is for the build to refuse"


def test_an_endpoint_in_the_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint_inputs(domain(tmp_path))

    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")

    assert fingerprint_inputs(domain(tmp_path))["settings"] != before["settings"]


def test_a_revision_is_the_commit_that_it_names_and_not_its_name(tmp_path: Path) -> None:
    config = domain(tmp_path)
    git = ("git", "-C", str(tmp_path / "corpus"), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "1"), ("tag", "v1")):
        subprocess.run([*git, *words], check=True)

    def marked(revision: str, **more: object) -> str:
        at = {"name": "dial", "path": tmp_path / "corpus", "revision": revision, **more}
        corpus = CorpusConfig.model_validate(at)
        return fingerprint_inputs(config.model_copy(update={"corpus": (corpus,)}))["corpus"]

    first = marked("v1")
    assert first == marked("HEAD")
    assert first != marked("v1", include=("docs/**",))
    (tmp_path / "corpus/src/dial.py").write_text("pass\n")
    assert first == marked("HEAD"), "the working tree is not read"
    subprocess.run([*git, "commit", "-qam", "2"], check=True)
    assert first != marked("HEAD")
    assert first == marked("v1")


@pytest.mark.parametrize("name", ["Posts.xml", "."])
def test_every_file_that_queries_are_read_from_is_hashed(tmp_path: Path, name: str) -> None:
    """Heard by an audit hook, which cannot be taken off again: so in a process of its own."""
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/Posts.xml").write_text(POSTS)
    (tmp_path / "dump/Users.xml").write_text(USERS)
    source = {"source": "stackexchange", "path": f"dump/{name}"}
    config = domain(tmp_path, queries=source)
    before = fingerprint_inputs(config)["queries"]

    done = subprocess.run(
        [sys.executable, "-c", LISTEN, str(tmp_path / "build.toml")],
        capture_output=True,
        text=True,
        check=True,
    )

    opened, hashed = done.stdout.splitlines()
    assert opened == hashed == "['Posts.xml', 'Users.xml']"
    (tmp_path / "dump/Users.xml").write_text(USERS.replace("Ada", "Eve"))
    assert fingerprint_inputs(config)["queries"] != before
