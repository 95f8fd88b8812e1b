"""Markdown cut into blocks and statements: what the baseline takes nuggets and passages from."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

BlockKind = Literal["prose", "item", "code"]
_Line = tuple[Literal["prose", "item", "code", "heading", "blank"], int, str]
"""Of which kind of block, its number, and the text."""

_FENCE = re.compile(r"[ ]{0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(\S.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(\S.*)")
_ROW = re.compile(r"[ \t]*\|(.*)")
_RULE = re.compile(r"[ \t]*[-=*_|:][-=*_|:\s]*$")
_INDENTED = re.compile(r"(?: {4}|\t)(.*)")
_QUOTE = re.compile(r"\A[ ]{0,3}>[> ]*")

_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\](?:\([^()\n]{0,1000}\)|\[[^\[\]\n]{0,100}\])")
_TAG = re.compile(
    r"</?(?:a|b|blockquote|br|code|div|em|hr|i|img|kbd|li|ol|p|pre|span|strong|sub|sup|ul)"
    r"(?:\s[^<>\n]{0,1000})?/?>",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"(?<![\w*\\])\*{1,3}(?=\S)|(?<=[^\s\\])\*{1,3}(?![\w*])")  # not 32*16
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_CODE_SPAN = re.compile(r"(`+[^`\n]*`+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]{0,3}\s+(?=[^a-z\s])|(?<=;)\s+")
_ABBREVIATION = re.compile(
    r"\b(?:[A-Z]|e\.g|i\.e|etc|vs|cf|approx|Fig|Eq|Dr|Mr|Mrs|Ms|Prof|St|No)\.$"
)
_LABEL = re.compile(r"(?:another )?(?:edit|update|note)\s*\d*\s*:\s*", re.IGNORECASE)
_PROMPT = re.compile(r"\A(?:>>>|\.\.\.|\$|In \[\d+\]:)[ ]")
_COMMENT = re.compile(r"(?:#(?!include)|//|--|/\*|\*|<!--|;)")
_LONGEST_STATEMENT = 6
"""Lines that one statement of code may take."""


class Block(NamedTuple):
    """A paragraph, list item or piece of code, with the nearest heading above it."""

    kind: BlockKind
    text: str
    heading: str


class Statement(NamedTuple):
    """A sentence of prose or a statement of code."""

    text: str
    is_code: bool


def blocks(text: str) -> list[Block]:
    """Cut a Markdown text into its paragraphs, list items and pieces of code, in order."""
    found: list[Block] = []
    heading = ""
    for (kind, _), lines in groupby(_lines(text), key=lambda line: line[:2]):
        body = "\n".join(line for _, _, line in lines)
        if kind == "heading":
            heading = plain(body)
        elif kind != "blank" and body.strip():
            found.append(Block(kind, body.strip("\n"), heading))
    return found


def statements(block: Block) -> list[Statement]:
    """Cut a block into sentences, or code into statements."""
    if block.kind == "code":
        return [Statement(text, is_code=True) for text in _code_statements(block.text)]
    prose = plain(block.text)
    label = _LABEL.match(prose)
    prose = prose[label.end() :] if label else prose
    return [Statement(text, is_code=False) for text in sentences(prose)]


def plain(text: str) -> str:
    """Drop the marks of links, emphasis, tags and escapes, and join all lines by single spaces."""
    text = _TAG.sub(" ", _LINK.sub(r"\1", text))
    pieces = _CODE_SPAN.split(text)
    pieces[::2] = [_ESCAPED.sub(r"\1", _EMPHASIS.sub("", piece)) for piece in pieces[::2]]
    return " ".join("".join(pieces).split())


def sentences(text: str) -> list[str]:
    """Cut one paragraph into sentences; `e.g.` and initials end none."""
    found: list[str] = []
    begun: list[str] = []
    for part in _SENTENCE_END.split(text):
        begun.append(part)
        if not _ABBREVIATION.search(part[-10:]):
            found.append(" ".join(begun).strip())
            begun = []
    found.append(" ".join(begun).strip())
    return [sentence for sentence in found if sentence]


def _lines(text: str) -> Iterator[_Line]:
    """Say of each line what it belongs to; lines of one kind and block number are one block."""
    fence = ""
    kind: Literal["prose", "item", "code", "blank"] = "blank"
    block = 0
    for raw in text.splitlines():
        if fence:
            if raw.strip("> \t").startswith(fence):
                fence = ""
            else:
                yield "code", block, raw
            continue
        line = _QUOTE.sub("", raw, count=1)
        block += 1
        if mark := _FENCE.match(line):
            fence = mark[1]
            kind = "blank"
        elif not line.strip() or _RULE.match(line):
            kind = "blank"
        elif heading := _HEADING.match(line):
            kind = "blank"
            yield "heading", block, heading[1]
        elif kind in ("blank", "code") and (indented := _INDENTED.match(line)):
            block -= kind == "code"
            kind = "code"
            yield kind, block, indented[1]
        elif item := _ITEM.match(line) or _ROW.match(line):
            kind = "item"
            yield kind, block, item[1].replace("|", " ")
        else:
            block -= kind in ("prose", "item")
            kind = "item" if kind == "item" else "prose"
            yield kind, block, line


def _code_statements(code: str) -> Iterator[str]:
    """Join lines while a bracket is open or the line's end goes on; leave out comments."""
    begun: list[str] = []
    depth = 0
    for line in code.splitlines():
        written = _PROMPT.sub("", line.strip(), count=1)
        stripped = written.removesuffix("\\").strip()
        if not stripped or (not begun and _COMMENT.match(stripped)):
            continue
        begun.append(stripped)
        depth += sum(stripped.count(mark) for mark in "([")
        depth -= sum(stripped.count(mark) for mark in ")]")
        is_open = depth > 0 or written.endswith(("\\", "|", "&&", ","))
        if not is_open or len(begun) == _LONGEST_STATEMENT:
            yield " ".join(begun)
            begun = []
            depth = 0
    if begun:
        yield " ".join(begun)
