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
from freshstack_dspy.collection.makers import baseline_warning, exported_from, is_baseline
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
