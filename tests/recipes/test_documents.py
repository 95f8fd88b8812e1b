"""Questions and passages from a file and from a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from freshstack_dspy import Query, build, load_config
from freshstack_dspy.config import load_judging
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.recipes.pieces import decontextualize, synthesize
from freshstack_dspy.recipes.session import Session

from .scripted import Inputs, Said, ScriptedProvider
from .scripted import synthesize as synthesize_script

TEXT = "# Dials\n\nA dial shows the phase of the moon.\n"


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@contextmanager
def asking(folder: Path, provider: ScriptedProvider | None) -> Iterator[Session]:
    name = "openai/scripted" if provider else "extractive/baseline"
    config = folder / "model.toml"
    config.write_text(f'[model]\nname = "{name}"\nretries = 0\n')
    with open_session(load_judging(config), provider=provider, searching=False) as session:
        yield session


@pytest.fixture
def session(tmp_path: Path, provider: ScriptedProvider) -> Iterator[Session]:
    with asking(tmp_path, provider) as session:
        yield session


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my docs"
    folder.mkdir()
    (folder / "dial.md").write_text(TEXT)
    (folder / "moon.md").write_text("# Moons\n\nThere is one.\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\x00")
    return folder


def test_a_file_gives_questions_that_say_where_they_come_from(
    folder: Path, session: Session
) -> None:
    harvest = synthesize(session, folder / "dial.md")

    (question,) = harvest.records
    assert isinstance(question, Query)
    assert question.call_id
    assert (question.text, question.answer) == ("What about # Dials?", "# Dials")
    assert question.origin == "synthetic"
    assert question.seed_chunk_ids == (f"my-docs/dial.md_0_{len(TEXT)}",)
    assert (harvest.failures, harvest.skipped) == ([], [])


def test_a_folder_gives_passages_of_every_file_and_tells_what_it_skipped(
    folder: Path, session: Session
) -> None:
    harvest = decontextualize(session, folder)

    assert [
        (record.model_dump()["path"], record.model_dump()["text"]) for record in harvest.records
    ] == [
        ("dial.md", f"dial.md: {TEXT.strip()}"),
        ("moon.md", "moon.md: # Moons\n\nThere is one."),
    ]
    assert [file.path for file in harvest.skipped] == ["logo.png"]


def test_a_piece_without_a_reply_is_a_failure_and_the_others_go_on(
    folder: Path, tmp_path: Path
) -> None:
    def check_moons(inputs: Inputs) -> object:
        if "Moons" in inputs["passages"][0]["text"]:
            return Said("no", "content_filter")
        return synthesize_script(inputs)

    with asking(tmp_path, ScriptedProvider(SynthesizeQueries=check_moons)) as session:
        harvest = synthesize(session, folder)

    assert len(harvest.records) == 1
    (failure,) = harvest.failures
    assert (failure.path, failure.status) == ("moon.md", "refused")
    assert session.lm.ledger.steps()["synthesize"].failed == 1


@pytest.mark.parametrize("name", ["my-docs", "other"])
def test_a_build_reads_the_questions_and_pools_their_seeds_where_it_has_them(
    folder: Path, tmp_path: Path, session: Session, name: str
) -> None:
    """Seeds are known by the corpus's name: under another one they are unknown, and left out."""
    lines = [record.model_dump_json() + "\n" for record in synthesize(session, folder).records]
    (tmp_path / "q.jsonl").write_text("".join(lines))
    (tmp_path / "build.toml").write_text(
        'name = "a"\nout = "out"\n[queries]\npath = "q.jsonl"\n[index]\npath = "index"\n'
        f'[[corpus]]\nname = "{name}"\npath = "my docs"\n[cache]\npath = "built"\n'
        '[model]\nname = "extractive/baseline"\n'
    )

    made = build(load_config(tmp_path / "build.toml"))

    seeds = [query.seed_chunk_ids for query in made.queries]
    assert made.manifest.counts.synthetic == len(lines) == 2
    assert list(map(len, seeds)) == ([1, 1] if name == "my-docs" else [0, 0])
    pooled = {(candidate.query_id, candidate.chunk_id) for candidate in made.pool}
    assert {(query.query_id, seed) for query in made.queries for seed in query.seed_chunk_ids} <= (
        pooled
    )
