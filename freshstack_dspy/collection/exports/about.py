"""What an export says of itself: the collection, scale, slices and counts, and who wrote what."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.card import attribution
from freshstack_dspy.collection.exports.files import write_json, write_text
from freshstack_dspy.collection.exports.selection import Selection
from freshstack_dspy.collection.jsonl import encode_records
from freshstack_dspy.collection.layouts import (
    EXPORT_FILE,
    IDS_FILE,
    LICENCES_FILE,
    README_FILE,
    ExportFormat,
)
from freshstack_dspy.collection.markdown import escape, table


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
    return (
        f"# {escape(manifest.name)}\n\n"
        f"Exported from the collection whose data have the hash `{manifest.content_hash}`: "
        f"its queries in the slices {', '.join(selection.slices)}, and its whole corpus.\n"
        f"Made by the recipe {escape(manifest.recipe)}, asking the model "
        f"{escape(manifest.model)}. Labels are on the scale {scale.name}; "
        f"{scale.threshold} or more is support.\n{synthetic}\n"
        f"{table(('what', 'number'), rows)}\n"
        f"## How to load it\n\n{how_to_load.strip()}\n\n"
        f"The texts of the corpus belong to their authors too. {_licences(selection)}\n\n"
        f"{attribution(selection.queries)}"
    )


def _licences(selection: Selection) -> str:
    if selection.collection.licences:
        return f"The licences and notices that came with them stand in `{LICENCES_FILE}`."
    return "No licence or notice came with them."


def _record(selection: Selection, format_: ExportFormat) -> dict[str, Any]:
    manifest = selection.collection.manifest
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
    }


def _counts(selection: Selection) -> dict[str, int]:
    judgments = [one for each in selection.judgments.values() for one in each]
    threshold = selection.collection.threshold
    return {
        "queries": len(selection.queries),
        "synthetic_queries": sum(query.origin == "synthetic" for query in selection.queries),
        "nuggets": sum(map(len, selection.nuggets.values())),
        "nuggets_without_judgment": _without_judgment(selection),
        "chunks": len(selection.collection.corpus.rows),
        "judgments": len(judgments),
        "supported": sum(one.label is not None and one.label >= threshold for one in judgments),
        "judgments_without_label": sum(one.label is None for one in judgments),
    }


def _without_judgment(selection: Selection) -> int:
    judged = {one.nugget_id for each in selection.judgments.values() for one in each}
    nuggets = (one.nugget_id for each in selection.nuggets.values() for one in each)
    return sum(nugget_id not in judged for nugget_id in nuggets)
