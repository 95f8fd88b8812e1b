"""Questions and passages from a file and from a folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy.config import ModelConfig, load_config
from freshstack_dspy.errors import SourceError
from freshstack_dspy.lm.client import RecordedLM, connect
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.documents import Harvest, decontextualize, synthesize
from freshstack_dspy.recipes.session import Silence
from freshstack_dspy.records import Query

from .scripted import Inputs, Said, ScriptedProvider
from .scripted import synthesize as synthesize_script

TEXT = "# Dials\n\nA dial shows the phase of the moon.\n"


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def lm(tmp_path: Path, provider: ScriptedProvider) -> Iterator[RecordedLM]:
    store = ReplyStore(tmp_path / "cache")
    yield connect(ModelConfig(name="openai/scripted", retries=0), store=store, provider=provider)
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my docs"
    folder.mkdir()
    (folder / "dial.md").write_text(TEXT)
    (folder / "moon.md").write_text("# Moons\n\nThere is one.\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\x00")
    return folder


def questions(path: Path, lm: RecordedLM, *style: str) -> Harvest:
    return synthesize(path, lm, limit=2, style_examples=style, progress=Silence())


def passages(path: Path, lm: RecordedLM) -> Harvest:
    return decontextualize(path, lm, limit=2, progress=Silence())


def test_a_file_gives_questions_that_say_where_they_come_from(folder: Path, lm: RecordedLM) -> None:
    harvest = questions(folder / "dial.md", lm)

    (question,) = harvest.records
    assert isinstance(question, Query)
    assert question.call_id
    assert (question.text, question.answer) == ("What about # Dials?", "# Dials")
    assert question.origin == "synthetic"
    assert question.seed_chunk_ids == (f"my-docs/dial.md_0_{len(TEXT)}",)
    assert (harvest.failures, harvest.skipped) == ([], [])


def test_a_folder_gives_passages_of_every_file_and_tells_what_it_skipped(
    folder: Path, lm: RecordedLM
) -> None:
    harvest = passages(folder, lm)

    assert [
        (record.model_dump()["path"], record.model_dump()["text"]) for record in harvest.records
    ] == [
        ("dial.md", f"dial.md: {TEXT.strip()}"),
        ("moon.md", "moon.md: # Moons\n\nThere is one."),
    ]
    assert [file.path for file in harvest.skipped] == ["logo.png"]


def test_limit_and_style_reach_the_question(
    folder: Path, lm: RecordedLM, provider: ScriptedProvider
) -> None:
    questions(folder / "dial.md", lm, "why so?", "how come?")

    (inputs,) = provider.asked
    assert (inputs["limit"], inputs["style_examples"]) == (2, ["why so?", "how come?"])


def test_a_long_document_goes_in_pieces(
    tmp_path: Path, lm: RecordedLM, provider: ScriptedProvider
) -> None:
    path = tmp_path / "long.md"
    path.write_text("\n\n".join(f"Paragraph {number} of many." for number in range(600)))

    harvest = passages(path, lm)

    assert provider.calls["DecontextualizePassages"] == len(harvest.records) > 2


def test_a_piece_without_a_reply_is_a_failure_and_the_others_go_on(
    folder: Path, tmp_path: Path
) -> None:
    def check_moons(inputs: Inputs) -> object:
        if "Moons" in inputs["passages"][0]["text"]:
            return Said("no", "content_filter")
        return synthesize_script(inputs)

    store = ReplyStore(tmp_path / "cache")
    provider = ScriptedProvider(SynthesizeQueries=check_moons)
    lm = connect(ModelConfig(name="openai/scripted"), store=store, provider=provider)

    harvest = questions(folder, lm)
    store.close()

    assert len(harvest.records) == 1
    (failure,) = harvest.failures
    assert (failure.path, failure.status) == ("moon.md", "refused")
    assert lm.ledger.steps()["synthesize"].failed == 1


def test_asking_again_asks_nobody(folder: Path, lm: RecordedLM, provider: ScriptedProvider) -> None:
    first = passages(folder, lm)

    assert passages(folder, lm) == first
    assert provider.calls.total() == 2


@pytest.mark.parametrize("name", [".hidden.md", "link.md", "odd [name]?.md"])
def test_a_file_that_is_named_is_read_whatever_its_name(
    folder: Path, lm: RecordedLM, name: str
) -> None:
    """A folder's hidden files and links are skipped; this one somebody asked for."""
    if name == "link.md":
        (folder / name).symlink_to(folder / "dial.md")
    else:
        (folder / name).write_text(TEXT)

    harvest = questions(folder / name, lm)

    (question,) = harvest.records
    assert isinstance(question, Query)
    assert question.seed_chunk_ids == (f"my-docs/{name}_0_{len(TEXT)}",)


def test_the_neighbours_of_a_file_are_not_even_looked_at(
    folder: Path, lm: RecordedLM, provider: ScriptedProvider
) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "dial.md").write_text("# Deeper\n")

    harvest = questions(folder / "dial.md", lm)

    assert (len(harvest.records), harvest.skipped, provider.calls.total()) == (1, [], 1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbf \n", "blank"),
        (b"a\x00b", "binary (a NUL at byte 1)"),
        (b"\xe9\xf1\xfa", "not UTF-8; byte 0 is 0xe9"),
        (b"a" * 1_000_001, "larger than 1,000,000 bytes; split it"),
        (b"a" * 999_999 + "é".encode(), "larger than 1,000,000 bytes; split it"),
    ],
)
def test_a_file_without_text_is_one_line(
    tmp_path: Path, lm: RecordedLM, data: bytes, said: str
) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(data)

    with pytest.raises(SourceError) as caught:
        questions(path, lm)

    assert str(caught.value) == f"{path}: {said}"


def test_what_is_not_there_is_one_line(tmp_path: Path, lm: RecordedLM) -> None:
    with pytest.raises(SourceError) as caught:
        questions(tmp_path / "gone.md", lm)

    assert str(caught.value) == f"{tmp_path / 'gone.md'}: cannot be read: No such file or directory"


def test_a_folder_without_text_is_one_line(tmp_path: Path, lm: RecordedLM) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"\x00")

    with pytest.raises(SourceError) as caught:
        passages(folder, lm)

    assert str(caught.value) == (
        f"{folder}: no file of text or code in it: a.png: binary (a NUL at byte 0)"
    )


def test_the_baseline_answers_both(folder: Path, tmp_path: Path) -> None:
    store = ReplyStore(tmp_path / "baseline")
    lm = connect(ModelConfig(), store=store)

    found = [questions(folder, lm), passages(folder, lm)]
    store.close()

    for harvest in found:
        assert harvest.records
        assert harvest.failures == []


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("latin.txt", "# Caf\xe9".encode("latin-1"), "# Caf\xe9"),
        ("wide.md", "\ufeff# Dials".encode("utf-16-le"), "# Dials"),
        ("page.html", b"<nav>Home</nav><main><h1>Dials</h1></main>", "# Dials"),
    ],
)
def test_one_file_is_read_as_a_corpus_is(
    tmp_path: Path, lm: RecordedLM, provider: ScriptedProvider, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)

    questions(tmp_path / name, lm)

    (inputs,) = provider.asked
    assert inputs["passages"][0]["text"].strip("\ufeff\n") == said


@pytest.mark.parametrize("name", ["my-docs", "other"])
def test_a_build_reads_the_questions_and_pools_their_seeds_where_it_has_them(
    folder: Path, tmp_path: Path, lm: RecordedLM, name: str
) -> None:
    """Seeds are told by the corpus's name: under another one they are unknown, and left out."""
    lines = [record.model_dump_json() + "\n" for record in questions(folder, lm).records]
    (tmp_path / "q.jsonl").write_text("".join(lines))
    (tmp_path / "build.toml").write_text(
        'name = "a"\nout = "out"\n[queries]\npath = "q.jsonl"\n[index]\npath = "index"\n'
        f'[[corpus]]\nname = "{name}"\npath = "my docs"\n[cache]\npath = "built"\n'
    )

    made = build(load_config(tmp_path / "build.toml"))

    seeds = [query.seed_chunk_ids for query in made.queries]
    assert made.manifest.counts.synthetic == len(lines) == 2
    assert list(map(len, seeds)) == ([1, 1] if name == "my-docs" else [0, 0])
    pooled = {(candidate.query_id, candidate.chunk_id) for candidate in made.pool}
    assert {(query.query_id, seed) for query in made.queries for seed in query.seed_chunk_ids} <= (
        pooled
    )
