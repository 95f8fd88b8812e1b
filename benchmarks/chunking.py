"""The chunker: speed on Python, and no chunk over the limit, no gap, no other bytes, in any text.

    python benchmarks/chunking.py [--tiny]

The files are those of the installed packages; `peers/` has the chunkers of others.
"""

import time

from timing import TINY, files, report

from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import SourceFile

MAX_TOKENS = 2048
OTHERS = (".c", ".cfg", ".css", ".h", ".html", ".js", ".json", ".md", ".pyi", ".rst", ".toml")
SIZES = {"python": (25e6, (".py",)), "others": (5e6, (*OTHERS, ".txt", ".typed", ".yaml", ".xml"))}


def main() -> None:
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
