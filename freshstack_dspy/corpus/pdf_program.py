"""Run as a program of its own: reads a PDF on standard input, writes its text as JSON.

    python pdf_program.py CHARACTERS SECONDS

It takes at most so much processor time and 2 GiB of memory, where the system can hold it to that.
"""

import io
import json
import sys

_MEMORY = 2 << 30


def _limit(seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; the caller's clock is left
        return
    for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, _MEMORY)):
        _, allowed = resource.getrlimit(kind)
        if allowed == resource.RLIM_INFINITY or allowed > most:  # it cannot be raised
            resource.setrlimit(kind, (most, most))


def _extracted(data: bytes, most: int) -> dict[str, str]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted:
        return {"reason": "an encrypted PDF; save it without a password"}
    pages: list[str] = []
    length = 0
    for page in reader.pages:
        text = page.extract_text().encode("utf-8", "replace").decode().strip()
        pages.append(f"{text}\n\n\f")
        length += len(text)
        if length > most:
            return {"reason": f"a PDF with more than {most:,} characters of text"}
    if not length:
        return {"reason": "a PDF without text: pictures of pages, perhaps"}
    return {"text": "".join(pages)}


def main() -> None:
    """Read, extract, and write either the text or the reason why there is none."""
    most, seconds = map(int, sys.argv[1:])
    _limit(seconds)
    try:
        answer = _extracted(sys.stdin.buffer.read(), most)
    except (Exception, RecursionError, MemoryError) as error:  # noqa: BLE001 - pypdf raises any
        answer = {"reason": f"a damaged PDF ({type(error).__name__})"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
