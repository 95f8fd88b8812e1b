"""Measure BM25 in many languages on XQuAD: 1,190 questions over 240 paragraphs, translated by people.

    python benchmarks/languages.py [--tiny] [XQUAD]

XQUAD is a copy of github.com/google-deepmind/xquad, `xquad.de.json` and so on; skipped without one.
Prints one JSON line a measurement: recall@10 and nDCG@10, of which one paragraph is relevant.
"""

import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scifact import report

from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.records import Chunk

FOLDERS = [Path(one) for one in sys.argv[1:] if one != "--tiny"]
LANGUAGES = (
    ("de",)
    if "--tiny" in sys.argv
    else ("de", "es", "ro", "ru", "tr", "el", "ar", "hi", "th", "zh")
)
Questions = list[tuple[str, str]]


def read(folder: Path, language: str) -> tuple[list[Chunk], Questions]:
    """The paragraphs of a language, and its questions with the id of theirs."""
    chunks: list[Chunk] = []
    questions: Questions = []
    articles: Any = json.loads((folder / f"xquad.{language}.json").read_text())["data"]
    for paragraph in (one for article in articles for one in article["paragraphs"]):
        text = paragraph["context"]
        chunk = Chunk(
            chunk_id=f"{language}/{len(chunks):03}",
            source=language,
            path=f"{language}/{len(chunks):03}",
            start_byte=0,
            end_byte=len(text.encode()),
            text=text,
            tokens=len(text) // 4,
            language=language,
        )
        chunks.append(chunk)
        questions += [(one["question"], chunk.chunk_id) for one in paragraph["qas"]]
    return chunks, questions


def measure(name: str, chunks: Sequence[Chunk], questions: Questions, *languages: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        index = HybridIndex.build(
            root, "xquad", chunks, dimensions=0, languages=languages or ["en"], progress=False
        )
        found = index.search("bm25", [text for text, _ in questions], 10)
    ranks = [
        next((rank for rank, one in enumerate(ranking, 1) if one.chunk_id == wanted), None)
        for ranking, (_, wanted) in zip(found, questions, strict=True)
    ]
    recall = sum(rank is not None for rank in ranks) / len(ranks)
    ndcg = sum(1 / math.log2(1 + rank) for rank in ranks if rank) / len(ranks)
    of = "+".join(languages) or "none"
    report(f"languages.{name}, languages {of}", f"{recall:.3f} {ndcg:.3f}")


def main(folder: Path) -> None:
    english, asked = read(folder, "en")
    for language in LANGUAGES:
        chunks, questions = read(folder, language)
        for listed in ((), (language,)):
            measure(f"{language} alone", chunks, questions, *listed)
        for listed in ((), ("en", language)):
            measure(
                f"{language} and en, asked in {language}", [*english, *chunks], questions, *listed
            )
            measure(f"{language} and en, asked in en", [*english, *chunks], asked, *listed)
            to_english = [(text, id_.replace(language, "en", 1)) for text, id_ in questions]
            measure(f"en, asked in {language}", english, to_english, *listed)


if __name__ == "__main__":
    if FOLDERS and FOLDERS[0].is_dir():
        main(FOLDERS[0])
    else:
        report("languages.xquad", "skipped: name a copy of XQuAD")
