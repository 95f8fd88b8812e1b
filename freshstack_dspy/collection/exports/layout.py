"""What an export says of itself: the collection, scale, slices and counts, and who wrote what."""

import hashlib
import json
import re
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from freshstack_dspy.collection.card import attribution
from freshstack_dspy.collection.collection import Collection, write_rows
from freshstack_dspy.collection.layouts import (
    EXPORT_FILE,
    IDS_FILE,
    LICENCES_FILE,
    README_FILE,
    ExportFormat,
)
from freshstack_dspy.collection.manifest import baseline_warning, exported_from, is_baseline
from freshstack_dspy.collection.markdown import escape, table
from freshstack_dspy.collection.slices import Slices, check_any, slices_of
from freshstack_dspy.files import canonical_json, encode_records
from freshstack_dspy.records import Candidate, Chunk, Judgment, Nugget, Query, Record

if TYPE_CHECKING:
    import pyarrow as pa

_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, in folders that are made where they lack."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, each with its end, one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON Lines, with no character inside that some readers end a line at."""
    write_lines(path, (canonical_json(row).translate(_LINE_ENDS) for row in rows))


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as indented JSON with sorted keys."""
    text = json.dumps(values, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)
    write_text(path, f"{text}\n")


class Selection:
    """The queries of some slices with all that belongs to them.

    Attributes:
        collection: Where they are from.
        slices: Which slices.
        whole_corpus: Whether the format holds every chunk, or only those pooled or judged.
        queries: Ascending by id; each has nuggets.
        nuggets: The supported nuggets of each query, by query id, in order.
        judgments: The judgments of each query, by query id, by nugget id, then chunk id.
    """

    def __init__(
        self,
        collection: Collection,
        slices: Slices,
        *,
        whole_corpus: bool = True,
    ) -> None:
        """Select.

        Args:
            collection: Where from.
            slices: Which slices; None: queries with a supported nugget.
            whole_corpus: Whether the format holds every chunk, or only those pooled or judged.

        Raises:
            CollectionError: A name is not that of a slice, or no query is in these slices.
        """
        self.collection = collection
        self.whole_corpus = whole_corpus
        self.slices = slices_of(slices)
        check_any(collection, self.slices)
        ids = set(collection.query_ids(self.slices))
        self.queries: list[Query] = [one for one in collection.queries if one.query_id in ids]
        self._measured = {
            nugget_id
            for nuggets in collection.qrels_of(self.slices).nuggets.values()
            for nugget_id in nuggets
        }
        self.nuggets: dict[str, list[Nugget]] = {query.query_id: [] for query in self.queries}
        for nugget in collection.nuggets:
            if nugget.nugget_id in self._measured:
                self.nuggets[nugget.query_id].append(nugget)
        self.judgments: dict[str, list[Judgment]] = {query.query_id: [] for query in self.queries}
        for judgment in collection.judgments:
            if judgment.nugget_id in self._measured:
                self.judgments[judgment.query_id].append(judgment)

    @cached_property
    def support(self) -> dict[str, dict[str, int]]:
        """Nugget id -> chunk id -> 1 where the label reaches the threshold of support, else 0."""
        return self.collection.qrels(self.slices).official().qrels_nuggets

    @cached_property
    def chunks_held(self) -> int:
        """How many chunks the export has: all, or those pooled or judged for its queries."""
        if self.whole_corpus:
            return len(self.collection.corpus.rows)
        judged = {one.chunk_id for each in self.judgments.values() for one in each}
        return len(judged.union(one.chunk_id for each in self.pool.values() for one in each))

    def chunks(self) -> Iterator[Chunk]:
        """Give the chunks of the corpus, by chunk id."""
        return self.collection.chunks()

    def labels(self, query_id: str) -> dict[str, dict[str, int | None]]:
        """Give what was judged for a query: chunk id -> nugget id -> label, or None if it failed."""
        labels: dict[str, dict[str, int | None]] = defaultdict(dict)
        for judgment in self.judgments[query_id]:
            labels[judgment.chunk_id][judgment.nugget_id] = judgment.label
        return {chunk_id: labels[chunk_id] for chunk_id in sorted(labels)}

    def grades(self, query_id: str) -> dict[str, int]:
        """Grade the judged chunks of a query: by how many of its nuggets each supports.

        A chunk that supports none is graded 0 only if no judgment of it failed: a failure is no 0.
        """
        threshold = self.collection.threshold
        grades = {}
        for chunk_id, labels in self.labels(query_id).items():
            grade = sum(label is not None and label >= threshold for label in labels.values())
            if grade or None not in labels.values():
                grades[chunk_id] = grade
        return grades

    @cached_property
    def pool(self) -> dict[str, list[Candidate]]:
        """The pool of each query, by query id, by chunk id."""
        pool: dict[str, list[Candidate]] = {query.query_id: [] for query in self.queries}
        for candidate in self.collection.pool:
            if candidate.query_id in pool:
                pool[candidate.query_id].append(candidate)
        return pool


def write_about(
    folder: Path,
    selection: Selection,
    format_: ExportFormat,
    ids: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write `export.json`, the licences of the corpus, and `ids.json` where an id changed.

    Args:
        folder: Where.
        selection: What is exported.
        format_: As what.
        ids: By kind, exported id -> ours of those that differ.
    """
    write_json(folder / EXPORT_FILE, _record(selection, format_))
    if licences := selection.collection.licences:
        (folder / LICENCES_FILE).write_bytes(encode_records(licences))
    if ids:
        write_json(folder / IDS_FILE, ids)


def write_readme(folder: Path, selection: Selection, how_to_load: str, head: str = "") -> None:
    """Write the README: the collection, how the tool loads this, and the table of authors.

    Args:
        folder: Where.
        selection: What is exported.
        how_to_load: Markdown.
        head: What stands above all, as the front matter that a hub reads.
    """
    write_text(folder / README_FILE, f"{head}{about(selection, how_to_load)}")


def about(selection: Selection, how_to_load: str) -> str:
    """Give the README of an export without what the format wants above it."""
    manifest = selection.collection.manifest
    scale = manifest.scale
    counts = _counts(selection)
    rows = [(escape(name.replace("_", " ")), str(number)) for name, number in counts.items()]
    synthetic = ""
    if counts["synthetic_queries"]:
        synthetic = (
            f"\n**{counts['synthetic_queries']} of the queries are synthetic: a language model "
            "wrote them, no person asked them.**\n"
        )
    warning = baseline_warning(manifest)
    return (
        f"# {escape(manifest.name)}\n\n"
        + (f"{warning}\n\n" if warning else "")
        + f"Exported from the collection whose data have the hash `{manifest.content_hash}`: "
        f"its queries in the slices {', '.join(selection.slices)}, and "
        f"{_which_chunks(selection)}.\n"
        f"{_made(selection)} Labels are on the scale {scale.name}; "
        f"{scale.threshold} or more is support.\n{synthetic}\n"
        f"{table(('what', 'number'), rows)}\n"
        f"## How to load it\n\n{how_to_load.strip()}\n\n"
        f"The texts of the corpus belong to their authors too. {_licences(selection)}\n\n"
        f"{attribution(selection.queries)}"
    )


def _which_chunks(selection: Selection) -> str:
    if selection.whole_corpus:
        return "its whole corpus"
    whole = len(selection.collection.corpus.rows)
    return (
        f"of its corpus of {whole:,} chunks those that were pooled or judged for them "
        f"({selection.chunks_held:,}), for the format has no room for others"
    )


def _made(selection: Selection) -> str:
    manifest = selection.collection.manifest
    if not manifest.recipe.startswith("import:"):
        asked = "the baseline" if is_baseline(manifest.model) else "the model"
        return f"Made by the recipe {escape(manifest.recipe)}, asking {asked} {escape(manifest.model)}."
    told = exported_from(manifest)
    if not told:
        return f"That collection was imported ({escape(manifest.recipe)}); no model was asked."
    return (
        f"That collection was imported ({escape(manifest.recipe)}) from an export of "
        f"{escape(told.get('collection', 'a collection'))} with the hash "
        f"{escape(told.get('content_hash', 'unknown'))}, by {escape(told.get('model', 'unknown'))}."
    )


def _licences(selection: Selection) -> str:
    if selection.collection.licences:
        return f"The licences and notices that came with them stand in `{LICENCES_FILE}`."
    return "No licence or notice came with them."


def _record(selection: Selection, format_: ExportFormat) -> dict[str, Any]:
    manifest = selection.collection.manifest
    origin = exported_from(manifest)
    return {
        "format": format_,
        "collection": manifest.name,
        "content_hash": manifest.content_hash,
        "schema_version": manifest.schema_version,
        "recipe": manifest.recipe,
        "model": manifest.model,
        "scale": manifest.scale.model_dump(),
        "slices": list(selection.slices),
        "counts": _counts(selection),
        **({"imported_from": origin} if origin else {}),
    }


def _counts(selection: Selection) -> dict[str, int]:
    judgments = [one for each in selection.judgments.values() for one in each]
    threshold = selection.collection.threshold
    return {
        "queries": len(selection.queries),
        "synthetic_queries": sum(query.origin == "synthetic" for query in selection.queries),
        "nuggets": sum(map(len, selection.nuggets.values())),
        "nuggets_without_judgment": _without_judgment(selection),
        "chunks": selection.chunks_held,
        "judgments": len(judgments),
        "supported": sum(one.label is not None and one.label >= threshold for one in judgments),
        "judgments_without_label": sum(one.label is None for one in judgments),
    }


def _without_judgment(selection: Selection) -> int:
    judged = {one.nugget_id for each in selection.judgments.values() for one in each}
    nuggets = (one.nugget_id for each in selection.nuggets.values() for one in each)
    return sum(nugget_id not in judged for nugget_id in nuggets)


_LOW, _HIGH = '"', "~"
"""The characters up to and from which are escaped; what is between is visible ASCII."""
_KEPT = re.compile("[#-}]+")
_ESCAPE = re.compile("!([0-9A-F]{2})|~([0-9A-F]{6})")
_IN_A_TABLE = re.compile('[^\\x00-\\x1f"\\x7f-\\x9f\u2028\u2029\ufeff]+')


def word(id_: str) -> str:
    """Give the word that stands for an id: `a b` is `a!20b`, and `ä` is `~0000E4`.

    No two ids have the same word, words sort as their ids do, and most ids are words already.
    """
    if _KEPT.fullmatch(id_):
        return id_
    if not id_:
        return "!"
    return "".join(_escaped(char) if char <= _LOW or char >= _HIGH else char for char in id_)


def id_of(word: str) -> str:
    """Give the id that a word stands for."""
    if word == "!":
        return ""
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), word)


def table_words(ids: Iterable[str]) -> dict[str, str]:
    """Name ids in a table with tabs: all by themselves, or, where one cannot be, all by words.

    Returns:
        Id -> its name.
    """
    given = list(ids)
    name: Callable[[str], str] = str if all(map(_IN_A_TABLE.fullmatch, given)) else word
    return {id_: name(id_) for id_ in given}


def _escaped(char: str) -> str:
    return f"!{ord(char):02X}" if char <= _LOW else f"~{ord(char):06X}"


class Names(NamedTuple):
    """What our ids are called in an export; each maps ours to the exported."""

    queries: Mapping[str, str]
    chunks: Mapping[str, str]
    nuggets: Mapping[str, str] = {}

    def changed(self) -> dict[str, dict[str, str]]:
        """Give exported id -> ours of those that differ, by kind; kinds without any left out."""
        kinds = {
            kind: {exported: ours for ours, exported in ids.items() if exported != ours}
            for kind, ids in self._asdict().items()
        }
        return {kind: ids for kind, ids in kinds.items() if ids}


def official_ids(nuggets: Mapping[str, Sequence[str]]) -> Names:
    """Choose ids for an export: ours where the official loader reads all of them rightly.

    Where it would not, for a single one, queries are numbered in equal width (no number begins
    with another) and nuggets are called `{query}_{position}`, as in the official data.

    Args:
        nuggets: The nugget ids of each query, in order.
    """
    if _survive(nuggets):
        return Names(
            queries={query: query for query in nuggets},
            chunks={},
            nuggets={nugget: nugget for ids in nuggets.values() for nugget in ids},
        )
    width = len(str(len(nuggets) - 1))
    queries = {query: f"{number:0{width}}" for number, query in enumerate(sorted(nuggets))}
    return Names(
        queries=queries,
        chunks={},
        nuggets={
            nugget: f"{queries[query]}_{position}"
            for query, ids in nuggets.items()
            for position, nugget in enumerate(ids)
        },
    )


def _survive(nuggets: Mapping[str, Sequence[str]]) -> bool:
    # Whatever begins with an id is sorted right behind it.
    prefix_free = not any(two.startswith(one) for one, two in pairwise(sorted(nuggets)))
    return prefix_free and all(
        "_" not in query and all(nugget.startswith(f"{query}_") for nugget in ids)
        for query, ids in nuggets.items()
    )


def write_split(
    folder: Path, split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]
) -> str:
    """Write a split of a data set and give the name of its file, `{split}-{hash}.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    unnamed = folder / f"{split}.parquet"
    write_rows(unnamed, schema, rows)
    with unnamed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return unnamed.rename(folder / f"{split}-{digest[:16]}.parquet").name


def record_schema(record: type[Record]) -> "pa.Schema":
    """Give the Arrow schema of a record: its fields, in their order."""
    import pyarrow as pa

    return pa.schema(
        {name: _arrow_type(field.annotation) for name, field in record.model_fields.items()}
    )


def _arrow_type(annotation: Any) -> "pa.DataType":
    import pyarrow as pa

    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if annotation in plain:
        return plain[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return pa.string()
    if origin is Annotated:
        return _arrow_type(inner[0])
    if origin in (Union, types.UnionType):
        (given,) = (each for each in inner if each is not type(None))
        return _arrow_type(given)
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return pa.struct(list(record_schema(annotation)))
    raise TypeError(f"no Arrow type for {annotation!r}")
