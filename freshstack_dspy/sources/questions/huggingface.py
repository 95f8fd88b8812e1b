"""The files of a Hugging Face dataset that `save_to_disk` wrote; no code of it is run."""

from pathlib import Path
from typing import Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.json_objects import json_file

_SPLITS, _STATE = "dataset_dict.json", "state.json"


def dataset_files(folder: Path, split: str | None) -> tuple[list[Path], list[Path]]:
    """Find the files of a dataset, or of one split of it.

    Args:
        folder: What `save_to_disk` was given.
        split: Which split; needed where there are several.

    Returns:
        The Arrow files with the rows, in order; and the JSON files that name them.

    Raises:
        SourceError: It is no such folder, has no such split, or names files outside of itself.
    """
    described: list[Path] = []
    place = folder
    if (folder / _SPLITS).is_file():
        described.append(folder / _SPLITS)
        place = folder / _chosen_split(folder / _SPLITS, split)
    if not (place / _STATE).is_file():
        raise SourceError(
            f"{place}: holds no {_STATE}; allowed: a folder that "
            'datasets.Dataset.save_to_disk wrote, or source = "parquet" for files *.parquet'
        )
    described.append(place / _STATE)
    state = _table(place / _STATE)
    saved = state.get("_split")
    if place == folder and split is not None and split != saved:
        raise SourceError(f"{folder}: is the split {saved!r} alone, and not {split!r}")
    if state.get("_indices_data_files"):
        raise SourceError(f"{place}: rows are chosen by an index; save it again with datasets 2 up")
    files = state.get("_data_files")
    names = (
        [one.get("filename") for one in files if isinstance(one, dict)]
        if isinstance(files, list)
        else []
    )
    if not names:
        raise SourceError(f"{place / _STATE}: names no _data_files")
    return [place / _plain(name, place / _STATE) for name in names], described


def _chosen_split(file: Path, split: str | None) -> str:
    splits = _table(file).get("splits")
    if not isinstance(splits, list) or not splits:
        raise SourceError(f"{file}: names no splits")
    names = [_plain(name, file) for name in splits]
    if split is None and len(names) == 1:
        return names[0]
    if split not in names:
        said = "has several splits" if split is None else f"has no split {split!r}"
        raise SourceError(
            f"{file.parent}: {said}; allowed: [queries] split = {' or '.join(map(repr, names))}"
        )
    return split


def _table(file: Path) -> dict[str, Any]:
    value = json_file(file)
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object")
    return value


def _plain(name: object, file: Path) -> str:
    """Refuse a name that would lead out of its folder."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:\0"):
        raise SourceError(f"{file}: names {name!r}; allowed: plain names of files beside it")
    return name
