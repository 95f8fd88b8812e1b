"""The languages of a build: what is recorded, what its index is made by, and the groups."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, build, load_config
from freshstack_dspy.calibration.agreement import slicing
from freshstack_dspy.collection.retrieve import open_index
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.models import NO_MODELS
from freshstack_dspy.progress import NoProgress

TICKETS = [
    {
        "query_id": "1",
        "title": "Wie werden Rechnungen exportiert?",
        "answer": "To export invoices, type export invoices.",
    },
    {
        "query_id": "2",
        "title": "Wie wird das Passwort geändert?",
        "answer": "Das Passwort ändert der Befehl reset password.",
        "spoken": "nl",
    },
]
ENGLISH = [{"id": "export.md", "text": "To export invoices, type export invoices."}]
GERMAN = [
    {"id": "passwort.md", "text": "Das Passwort ändert der Befehl reset password."},
    {"id": "reset.py", "text": "def reset(password): ..."},
]


def config(folder: Path, **settings: Any) -> BuildConfig:
    return BuildConfig.model_validate(
        {
            "name": "tickets",
            "out": folder / "collection",
            "languages": ["de", "en", "nl"],
            "queries": {"rows": TICKETS, "language": "de"},
            "corpus": [
                {"name": "docs", "documents": ENGLISH, "language": "en"},
                {"name": "wiki", "documents": GERMAN, "language": "de"},
            ],
            "index": {"path": folder / "index", "dimensions": 2},
            "cache": {"path": folder / "cache"},
        }
        | settings
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tickets")


@pytest.fixture(scope="module")
def built(folder: Path) -> Collection:
    return build(config(folder), progress=False)


def test_what_is_said_of_a_language_is_recorded_without_a_detector(built: Collection) -> None:
    assert [query.language for query in built.queries] == ["de", "de"]
    assert {chunk.path: chunk.language for chunk in built.chunks()} == {
        "export.md": "en",
        "passwort.md": "de",
        "reset.py": None,
    }


def test_queries_and_pairs_are_grouped_by_language(built: Collection) -> None:
    name = slicing(built, "languages")
    pairs = {(one.query_id, one.nugget_id, one.chunk_id) for one in built.judgments}

    assert built.groups("language").members == {"de": ("1", "2")}
    assert built.groups("cross_language").members == {
        "other language": ("1",),
        "same language": ("2",),
    }
    assert {tuple(name(pair, "ana")) for pair in pairs} == {
        (),
        ("question de, chunk en",),
        ("question de, chunk de",),
    }


def test_a_collection_is_searched_by_the_index_of_its_build(
    built: Collection,
    folder: Path,
) -> None:
    index = open_index(built, "bm25", NO_MODELS, folder / "index", NoProgress())

    assert index.path == folder / "index" / "tickets"
    assert index.manifest.languages == ("de", "en", "nl")
    (found,) = index.search("bm25", ["die Passwörter"], 5)
    assert [one.chunk_id.split("_")[0] for one in found] == ["wiki/passwort.md"]


def test_a_language_that_is_not_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "q.jsonl").write_text("")
    (tmp_path / "build.toml").write_text(
        'name = "x"\nout = "out"\nlanguages = ["en"]\n[queries]\npath = "q.jsonl"\n'
        '[[corpus]]\nname = "docs"\npath = "docs"\nlanguage = "de"\n'
    )

    with pytest.raises(ConfigError, match=r'write languages = \["en", "de"\]'):
        load_config(tmp_path / "build.toml")
