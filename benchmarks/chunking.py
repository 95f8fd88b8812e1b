"""The chunker: its speed, its faults, and how many chunks a change of their files ends.

    python benchmarks/chunking.py [--tiny] [--data FOLDER]

No chunk is over the limit, and none has a gap before it or other bytes than its file. The files are
those of the installed packages; FOLDER/repositories may have clones, bare or not, of those in
REVISIONS. `peers/` has the chunkers of others.
"""

import io
import random
import subprocess
import tarfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from timing import TINY, data, files, report

from freshstack_dspy.config import Boundaries
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import Chunk, SourceFile

MAX_TOKENS = 2048
OTHERS = (".c", ".cfg", ".css", ".h", ".html", ".js", ".json", ".md", ".pyi", ".rst", ".toml")
SIZES = {"python": (25e6, (".py",)), "others": (5e6, (*OTHERS, ".txt", ".typed", ".yaml", ".xml"))}
REVISIONS = {
    "black": ("24.1.0", "25.1.0", "26.1.0"),
    "click": ("8.1.7", "8.2.0", "8.4.0"),
    "httpx": ("0.25.0", "0.27.0", "0.28.1"),
    "jinja": ("3.0.0", "3.1.2", "3.1.6"),
    "requests": ("v2.31.0", "v2.32.3", "v2.34.2"),
}
KINDS: tuple[Boundaries, ...] = ("packed", "stable")
Files = dict[str, bytes]


def at(repository: Path, revision: str) -> Files:
    """The files of a repository with the suffixes of above, and text in them."""
    command = ["git", "-C", repository, "archive", revision]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        contents = {
            member.name: file.read()
            for member in members
            if member.name.endswith((".py", *OTHERS, ".txt"))
            and (file := members.extractfile(member))
        }
    return {path: content for path, content in contents.items() if content.strip()}


def inserted() -> tuple[Files, Files]:
    """Files, and the same with two lines more in one place of each."""
    before = dict(files(100_000 if TINY else 5e6, ".py", ".md", ".rst"))
    after, chance = {}, random.Random(0)
    for path, content in before.items():
        lines = content.splitlines(keepends=True)
        place = chance.randrange(len(lines))
        lines[place:place] = [b"# A line that nobody had\n", b"# thought of before.\n"]
        after[path] = b"".join(lines)
    return before, after


def gone(name: str, states: Sequence[Files]) -> None:
    """Report the share of chunks whose text is no chunk of the next state.

    `moved` is the share of those whose text is still in a file: their boundaries alone changed.
    """
    for limit in (512, MAX_TOKENS):
        for kind in KINDS:
            cut = [chunks_of(state, limit, kind) for state in states]
            chunks = lost = moved = tokens = 0
            for (before, after), now in zip(pairwise(cut), states[1:], strict=True):
                texts = {chunk.text for chunk in after}
                whole = "\0".join(map(bytes.decode, now.values()))
                missing = [chunk for chunk in before if chunk.text not in texts]
                chunks, lost = chunks + len(before), lost + len(missing)
                moved += sum(chunk.text.strip() in whole for chunk in missing)
                tokens += sum(chunk.tokens for chunk in before)
            sides = {"moved": moved / chunks, "chunks": chunks, "tokens": tokens / chunks}
            report(f"chunking.{kind}.{limit}.{name}.gone", lost / chunks, **sides)


def chunks_of(state: Files, limit: int, kind: Boundaries) -> list[Chunk]:
    sources = [SourceFile("files", path, content) for path, content in state.items()]
    return [chunk for file in sources for chunk in chunk_file(file, limit, boundaries=kind)]


def main() -> None:
    gone("inserted", inserted())
    if repositories := data("repositories"):
        for name, revisions in REVISIONS.items():
            gone(name, [at(repositories / name, revision) for revision in revisions])
    for name, (size, suffixes) in SIZES.items():
        read = files(200_000 if TINY else size, *suffixes)
        sources = [SourceFile("packages", path, data) for path, data in read]
        begun = time.process_time()
        chunks = [chunk_file(file, MAX_TOKENS) for file in sources]
        megabytes = sum(len(data) for _, data in read) / 1e6
        rate = megabytes / (time.process_time() - begun)
        report(f"chunking.{name}.megabytes_per_second", rate, megabytes=megabytes)
        over = gaps = inexact = 0
        for file, cut in zip(sources, chunks, strict=True):
            ends = [0, *(chunk.end_byte for chunk in cut)]
            gaps += ends != [*(chunk.start_byte for chunk in cut), len(file.data)]
            for chunk in cut:
                over += count_tokens(chunk.text) > MAX_TOKENS
                inexact += file.data[chunk.start_byte : chunk.end_byte] != chunk.text.encode()
        report(f"chunking.{name}.files_without_chunks", sum(not cut for cut in chunks), equals=0)
        for fault, count in (("over", over), ("gaps", gaps), ("inexact", inexact)):
            report(f"chunking.{name}.{fault}", count, equals=0)


if __name__ == "__main__":
    main()
