"""A page as HTML: a fragment for a notebook, or one file without scripts and without a network."""

import html
from collections.abc import Iterable, Iterator

from freshstack_dspy.pages.markdown import is_web_address, visible
from freshstack_dspy.pages.page import Cell, Page, Picture, Span, Table, Text, Value, cell_lines

_STYLE = """\
.fs{--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--paper:#fff;--shade:#f6f8fa;--mark:#fff3b0;
--warn:#9a3412;--link:#0550ae;color:var(--ink);background:var(--paper);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums;
overflow-wrap:break-word}
@media (prefers-color-scheme:dark){.fs{--ink:#e6edf3;--soft:#9da7b1;--line:#3d444d;--paper:#0d1117;
--shade:#161b22;--mark:#5c4a00;--warn:#ffb37c;--link:#79b8ff}}
.fs h1,.fs h2,.fs h3,.fs h4{line-height:1.25;margin:1.6em 0 .5em;font-weight:600}
.fs h1{font-size:1.6em;margin-top:0}.fs h2{font-size:1.3em}.fs h3{font-size:1.1em}.fs h4{font-size:1em}
.fs p,.fs ul{margin:.5em 0;max-width:48em}.fs a{color:var(--link)}
.fs .note,.fs small,.fs caption,.fs figcaption{color:var(--soft);font-size:.87em}
.fs .warning{color:var(--warn);font-weight:600}
.fs .decision{background:var(--shade);border-left:4px solid var(--link);padding:.5em .9em}
.fs .scroll{overflow-x:auto;margin:.8em 0}
.fs table{border-collapse:collapse;background:none;margin:0}
.fs caption{text-align:left;padding:.2em 0;caption-side:top}
.fs th,.fs td{padding:.3em .7em;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
color:var(--ink);background:none}
.fs thead th{border-bottom-width:2px;vertical-align:bottom}
.fs tbody th{font-weight:400}.fs .n{text-align:right;white-space:nowrap}
.fs small{display:block}
.fs code{font:.9em ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
.fs pre{overflow-x:auto;background:var(--shade);padding:.5em .9em;margin:.5em 0}
.fs blockquote{margin:.5em 0;padding:.5em .9em;background:var(--shade);border-left:3px solid var(--line);
white-space:pre-wrap;overflow-wrap:anywhere;font:.87em/1.45 ui-monospace,SFMono-Regular,Menlo,monospace}
.fs mark{background:var(--mark);color:inherit;padding:0 .1em;border-bottom:2px solid currentColor}
.fs figure{display:inline-block;vertical-align:top;margin:1em 0;width:min(100%,31em)}
@media (min-width:37em){.fs figure{margin-right:2em}}
.fs figcaption{min-height:2.9em;display:flex;align-items:flex-end}
.fs svg{width:100%;height:auto}
.fs summary{cursor:pointer;color:var(--link)}
.fs summary h3,.fs summary h4,.fs summary h5{display:inline;margin:0}
.fs .folded{margin:.5em 0;padding-left:1em;border-left:3px solid var(--line)}
@media print{.fs{--ink:#000;--soft:#333;--line:#999;--paper:#fff;--shade:#f4f4f4;--mark:#eee;
--warn:#000;--link:#000}.fs .scroll{overflow:visible}.fs tr,.fs figure{break-inside:avoid}
.fs h2,.fs h3,.fs h4{break-after:avoid}
.fs figure{display:block}.fs figure details{display:none}
.fs .folded::details-content{content-visibility:visible;block-size:auto}}
"""
_DOCUMENT = """\
body{margin:0}
main.fs{padding:2em max(1em,calc(50vw - 34em)) 4em;min-height:100vh;box-sizing:border-box}
"""
# Nothing is fetched and no script runs, whatever the texts of others hold.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_fragment(page: Page) -> str:
    """Write a page for a notebook."""
    return f'<style>{_STYLE}</style><div class="fs">{_page(page, 3)}</div>'


def html_document(page: Page) -> str:
    """Write a page as one file; texts of others are shown as they are, and never obeyed."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{_DOCUMENT}{_STYLE}</style>\n</head>\n"
        f'<body>\n<main class="fs">\n{_page(page, 1)}</main>\n</body>\n</html>\n'
    )


def escape(text: str) -> str:
    """Make a text safe within HTML, also within an attribute."""
    return html.escape(visible(text))


def _page(page: Page, level: int) -> str:
    tag = f"h{min(level, 6)}"
    heading = f"<{tag}{_id(page)}>{escape(page.title)}</{tag}>\n" if page.title else ""
    return heading + "".join(_parts(page, level))


def _parts(page: Page, level: int) -> Iterator[str]:
    depth = -1  # of the list that is open
    for each in page.parts:
        item = each.indent if isinstance(each, Text) and each.kind == "item" else -1
        while depth < item:
            yield "<ul>\n"
            depth += 1
        while depth > item:
            yield "</ul>\n"
            depth -= 1
        if isinstance(each, Page):
            yield _section(each, level + 1)
        elif isinstance(each, Text):
            yield _text(each)
        elif isinstance(each, Picture):
            yield (
                f"<figure><figcaption>{escape(each.title)}</figcaption>\n{each.svg}\n<details>"
                f"<summary>the numbers</summary>{_table(each.table)}</details></figure>\n"
            )
        else:
            yield _table(each)
    yield "</ul>\n" * (depth + 1)


def _id(page: Page) -> str:
    return f' id="{escape(page.anchor)}"' if page.anchor else ""


def _section(page: Page, level: int) -> str:
    if not page.folded:
        return f"<section>\n{_page(page, level)}</section>\n"
    tag, rest = f"h{min(level, 6)}", "".join(_parts(page, level))
    return (  # a link to what is within opens it
        f'<details class="folded"><summary><{tag}>{escape(page.title)}</{tag}></summary>\n'
        f"<div{_id(page)}>{rest}</div></details>\n"
    )


def _text(text: Text) -> str:
    words = _spans(text)
    if text.kind == "item":
        return f"<li>{words}\n"  # its end tag may be left out, and a list within it follows
    if text.kind == "excerpt":
        return f"<blockquote>{words}</blockquote>\n"
    if text.kind == "code":
        return f"<pre><code>{words}</code></pre>\n"
    named = "" if text.kind == "plain" else f' class="{text.kind}"'
    return f"<p{named}>{words}</p>\n"


_TAGS = {"code": "code", "strong": "strong", "mark": "mark"}


def _spans(spans: Iterable[Span]) -> str:
    found = []
    for span in spans:
        words = escape(span.text)
        if tag := _TAGS.get(span.style):
            words = f"<{tag}>{words}</{tag}>"
        if span.href.startswith("#") or is_web_address(span.href):
            words = f'<a href="{escape(span.href)}">{words}</a>'
        found.append(words)
    return "".join(found)


def _table(table: Table) -> str:
    right = [' class="n"' if flush else "" for flush in table.flush_right()]
    head = "".join(
        f'<th scope="col"{flush}>{"<br>".join(map(escape, name.splitlines()))}</th>'
        for name, flush in zip(table.header, right, strict=True)
    )
    rows = []
    for row in table.rows:
        cells = [
            f'<th scope="row"{right[at]}>{_cell(cell, table.digits)}</th>'
            if at < table.keys and cell != ""
            else f"<td{right[at]}>{_cell(cell, table.digits)}</td>"
            for at, cell in enumerate(row)
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>\n")
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(table.title or "table")}">'
        f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody></table></div>\n"
    )


def _cell(cell: Cell, digits: int) -> str:
    if isinstance(cell, Span):
        return _spans((cell,))
    if isinstance(cell, tuple):
        first, *others = (_cell(one, digits) for one in cell)
        return first + "".join(f"<small>{one}</small>" for one in others)
    if isinstance(cell, Value) and cell.low is not None:
        return f"{cell.number}<small>{cell.interval}</small>"
    first, *others = map(escape, cell_lines(cell, digits))
    return first + "".join(f"<br>{one}" for one in others)
