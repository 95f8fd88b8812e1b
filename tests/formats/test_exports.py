"""What holds for every format."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from freshstack_dspy import Collection, evaluate, export_collection
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.formats import FORMATS
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, files_of, write_small
from tests.formats.odd import ODD_IDS, write_odd

READ_BACK = [name for name in FORMATS.ours if FORMATS.get(name).read and FORMATS.get(name).write]
"""Those that hold whole collections; training data does not."""
each_format = pytest.mark.parametrize("format_", READ_BACK)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, dict[str, Path]]:
    """A collection of everything odd, and its exports."""
    place = tmp_path_factory.mktemp("odd")
    collection = write_odd(place / "c")
    for format_ in READ_BACK:
        export_collection(collection, format_, place / format_)
    return collection, {format_: place / format_ for format_ in READ_BACK}


@each_format
def test_an_export_says_what_it_is_of(tmp_path: Path, format_: str) -> None:
    """A nugget without a judgment is not supported; only hf has it."""
    collection = write_odd(tmp_path / "c", ["12", "123"])
    done = export_collection(tmp_path / "c", format_, tmp_path / "out")
    described: dict[str, Any] = json.loads((tmp_path / "out/export.json").read_bytes())
    unsupported = int(format_ == "hf")
    counts = {
        "queries": 2,
        "synthetic_queries": 1,
        "nuggets": 4 + unsupported,
        "nuggets_without_judgment": unsupported,
        "chunks": 3 if format_ == "nuggetizer" else len(ODD_IDS),
        "judgments": 12,
        "supported": 4,
        "judgments_without_label": 2,
    }

    assert described == {
        "format": format_,
        "collection": "odd",
        "content_hash": collection.manifest.content_hash,
        "schema_version": collection.manifest.schema_version,
        "recipe": "freshstack",
        "model": "openai/some-model",
        "scale": {"name": "graded_3", "threshold": 2},
        "slices": ["answerable", "partly_supported"],
        "nuggets": "supported",
        "counts": counts,
        "calibrated": False,
        "agreement": "agreement with people: not measured",
    }
    assert done.counts == counts


@each_format
def test_the_readme_names_authors_chunks_and_warns(
    odd: tuple[Collection, dict[str, Path]], tmp_path: Path, format_: str
) -> None:
    made = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    export_collection(
        write_collection(tmp_path / "c", CONTENTS, CHUNKS, made), format_, tmp_path / "out"
    )
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    synthetic = (odd[1][format_] / "README.md").read_text(encoding="utf-8")

    assert "| 12 | How? | answer | Ada | <https://example.org/q/12> | CC BY-SA 4.0 |" in card
    assert "https://example.org/q/5" not in card.partition("The card of the whole collection")[0]
    assert "on the scale binary; 1 or more is support" in card
    assert b"Do as you like." in (tmp_path / "out/licences.jsonl").read_bytes()
    below = card.partition("# small\n\n")[2]
    assert below.startswith("**extractive/baseline is a baseline that counts words")
    assert "are synthetic" not in card
    assert "**13 of the queries are synthetic" in synthetic
    assert not (odd[1][format_] / "licences.jsonl").exists()
    if format_ == "freshstack":
        inner = (tmp_path / "out/queries/README.md").read_text(encoding="utf-8")
        assert inner.endswith(card)


@pytest.mark.parametrize(("format_", "file"), [("beir", "qrels/test.tsv"), ("trec", "qrels.txt")])
def test_qrels_of_an_export_are_a_dry_run_where_the_baseline_judged(
    tmp_path: Path, format_: str, file: str
) -> None:
    for model, is_dry_run in (("extractive/baseline", True), ("openai/some-model", False)):
        made = PROVENANCE.model_copy(update={"model": model})
        place = tmp_path / model
        write_collection(place / "c", CONTENTS, CHUNKS, made)
        export_collection(place / "c", format_, place / "out")
        chunk_id = CHUNKS[0].chunk_id

        found = evaluate(place / "out" / file, {"12": {chunk_id: 1.0}}, "nDCG@10")

        assert found.dry_run is is_dry_run

    (place / "out/export.json").write_text('{"of": "another program"}')
    assert not evaluate(place / "out" / file, {"12": {chunk_id: 1.0}}, "nDCG@10").dry_run


@each_format
def test_an_export_is_the_same_bytes_each_time(
    odd: tuple[Collection, dict[str, Path]], tmp_path: Path, format_: str
) -> None:
    export_collection(odd[1]["beir"].parent / "c", format_, tmp_path / "again")

    assert files_of(odd[1][format_]) == files_of(tmp_path / "again")


@each_format
def test_ids_lead_back_and_no_text_ends_its_line(
    odd: tuple[Collection, dict[str, Path]], format_: str
) -> None:
    collection, outs = odd
    file = outs[format_] / "ids.json"
    ids: dict[str, dict[str, str]] = json.loads(file.read_bytes()) if file.exists() else {}
    ours = {
        "queries": {query.query_id for query in collection.queries},
        "nuggets": {nugget.nugget_id for nugget in collection.nuggets},
        "chunks": set(collection.corpus.ids),
    }

    assert file.exists() is (format_ not in ("hf", "nuggetizer"))
    for kind, names in ids.items():
        assert set(names.values()) <= ours[kind]
        assert not (ours[kind] - set(names.values())) & set(names)
    assert {path.name for path in outs[format_].parent.iterdir()} == {"c", *outs}
    for name, data in files_of(outs[format_]).items():
        assert "passwd" not in name
        if name.endswith(".jsonl"):
            lines = data.decode("utf-8").splitlines()
            assert [type(json.loads(line)) for line in lines] == [dict] * data.count(b"\n")


def test_queries_of_other_slices_are_exported_when_named(tmp_path: Path) -> None:
    """Query 5 is unanswerable; query 6 has no nuggets and is never exported."""
    collection = write_small(tmp_path / "c")
    done = export_collection(collection, "trec", tmp_path / "out")
    others = export_collection(collection, "trec", tmp_path / "all", slices="all")

    assert (done.counts["queries"], others.counts["queries"]) == (2, 3)
    assert "2 of 4 queries" in done.left_out[0]
    whole = export_collection(collection, "hf", tmp_path / "hf")
    assert whole.left_out == ("2 queries of other slices are left out",)
    with pytest.raises(CollectionError, match="'easy' is no slice"):
        export_collection(collection, "trec", tmp_path / "no", slices=["easy"])  # type: ignore[list-item]
    assert not (tmp_path / "no").exists()


def test_only_an_export_is_replaced_and_only_when_asked(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "c")
    export_collection(collection, "beir", tmp_path / "out")
    before = files_of(tmp_path / "out")
    with pytest.raises(CollectionError, match="out exists"):
        export_collection(collection, "trec", tmp_path / "out")
    assert before == files_of(tmp_path / "out")

    export_collection(collection, "trec", tmp_path / "out", replace=True)
    assert (tmp_path / "out/qrels.txt").is_file()
    with pytest.raises(CollectionError, match="is not an export"):
        export_collection(collection, "trec", tmp_path / "c", replace=True)


def test_an_export_that_fails_half_way_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = write_small(tmp_path / "c")
    half = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("freshstack_dspy.formats.selection.attribution", half)
    with pytest.raises(KeyboardInterrupt):
        export_collection(collection, "beir", tmp_path / "out")

    assert {path.name for path in tmp_path.iterdir()} == {"c"}
