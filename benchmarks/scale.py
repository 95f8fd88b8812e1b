"""How time and memory grow with the corpus: cut and indexed, unchanged, one file more, searched.

    python benchmarks/scale.py [--tiny] [CHUNKS …]

The corpus is the source and documentation of the installed packages, repeated with a line changed in
each copy until there are about so many chunks of 128 tokens (250,000 and 1,000,000; in the folder
TMPDIR). Each step is a command in a process of its own; the index is LanceDB's.
"""

import json
import sys
import tempfile
from pathlib import Path

from timing import TINY, Took, files, freshstack, report

SIZES = [int(word) for word in sys.argv[1:] if word.isdecimal()]
SIZES = SIZES or ([500, 1_500] if TINY else [250_000, 1_000_000])
QUESTIONS, MAX_TOKENS = 3 if TINY else 100, 128
MOST_MEGABYTES = 3_000
CONFIG = f"""
name = "scale"
out = "collection"
[model]
name = "extractive/baseline"
[queries]
path = "questions.jsonl"
[chunking]
max_tokens = {MAX_TOKENS}
[[corpus]]
name = "packages"
path = "corpus"
[index]
path = "index"
lexical = "lance"
[pool]
retrievers = ["bm25"]
"""


def corpus(folder: Path, chunks: int) -> float:
    """Write files of about so many chunks; give how many MB."""
    originals = files(50e6, ".py", ".pyi", ".md", ".rst", ".txt")
    size, copy = 0, 0
    while True:
        for number, (path, content) in enumerate(originals):
            if size >= 3.1 * MAX_TOKENS * chunks:
                return size / 1e6
            lines = content.decode().splitlines(keepends=True)
            if copy:
                lines.insert(number * 7919 % len(lines), f"# copy {copy} of file {number}\n")
            file = folder / f"{copy:03}" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            size += file.write_text("".join(lines), encoding="utf-8")
        copy += 1


def questions() -> str:
    """Questions with the words of files, and answers with those of others."""
    texts = [" ".join(content.decode().split()[:200]) for _, content in files(5e6, ".py")]
    rows = (
        {
            "query_id": str(number),
            "title": f"{number} {texts[number % len(texts)][:150]}",
            "answer": texts[-number % len(texts)][:600],
        }
        for number in range(QUESTIONS)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def step(name: str, took: Took, chunks: int) -> None:
    report(f"{name}.ms_a_chunk", 1000 * took.seconds / chunks, cpu=1000 * took.cpu / chunks)
    report(f"{name}.peak_mb", took.megabytes, most=MOST_MEGABYTES)


def main() -> None:
    for size in SIZES:
        with tempfile.TemporaryDirectory() as place:
            folder, name = Path(place), f"scale.{size}"
            megabytes = corpus(folder / "corpus", size)
            (folder / "questions.jsonl").write_text(questions())
            (folder / "build.toml").write_text(CONFIG)
            first = freshstack("index", "build.toml", "--json", folder=folder)
            counted = freshstack("index", "build.toml", "--json", folder=folder)
            chunks = json.loads(counted.output[counted.output.index("{") :])["chunks"]
            report(f"{name}.chunks", chunks, megabytes=megabytes)
            step(f"{name}.cut_and_indexed", first, chunks)
            step(f"{name}.unchanged", counted, chunks)
            (folder / "corpus/one.md").write_text("# One more\n\nA file that is new.\n")
            more = freshstack("index", "build.toml", "--json", folder=folder)
            step(f"{name}.one_file_more", more, chunks)
            built = freshstack("build", "build.toml", folder=folder)
            report(f"{name}.build_seconds", built.seconds, cpu=built.cpu, questions=QUESTIONS)
            report(f"{name}.build_peak_mb", built.megabytes, most=MOST_MEGABYTES)


if __name__ == "__main__":
    main()
