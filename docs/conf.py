"""The site: the pages of docs/, and those of the public names from their docstrings: `make site`."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

from docutils import nodes
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.pycode import ModuleAnalyzer

import freshstack_dspy

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
from cli_help import help_page  # noqa: E402

project = "freshstack_dspy"
html_title = "freshstack_dspy"
html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
suppress_warnings = ["myst.header"]
myst_heading_anchors = 4
nitpicky = True
default_role = "literal"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "inherited-members": "BaseModel, Program, Module, Prediction, Mapping, tuple, Exception, dict",
}
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 80

PUBLIC = {
    f"{value.__module__}.{value.__qualname__}": f"freshstack_dspy.{name}"
    for name in freshstack_dspy.__all__
    for value in [getattr(freshstack_dspy, name)]
}
"""Where a public name is defined -> how it is imported."""
KINDS = {"class", "exception", "function"}
ROW = re.compile(r"^\| ([^|]+) \| (.+) \|$", re.MULTILINE)
OTHER_MEANINGS = set(
    "baseline calibrated corpus judgment label mode okay query run scale support threshold".split()
)
"""Terms that the pages also use as plain words: not linked."""


def setup(app: Sphinx) -> None:
    """Connect what follows."""
    app.connect("source-read", prepare_source)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", document)
    app.connect("missing-reference", resolve)
    app.connect("doctree-resolved", link_names)
    app.connect("doctree-resolved", link_terms)
    app.connect("builder-inited", lambda _: explain_fields(BaseModel))
    app.connect("doctree-read", shorten_contents, priority=900)


def prepare_source(_: Sphinx, docname: str, source: list[str]) -> None:
    """Make the lists of the first page the navigation; links out of docs/ name their file."""
    text = re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", source[0])
    if docname == "index":
        for section in text.split("\n## ")[1:]:
            pages = "\n".join(re.findall(r"^- \[.*?\]\((.+?)\)", section, re.MULTILINE))
            heading = section.partition("\n")[0]
            if not pages:
                continue
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```\n"
    source[0] = text + (f"\n{help_page()}" if docname == "cli" else "")


def skip(app: Sphinx, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what Pydantic and DSPy bring."""
    theirs = inspect.isfunction(value) and not value.__module__.startswith(project)
    return True if theirs or name.startswith("model_") else None


def shorten(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Give no signature where it would only repeat the fields, or says `*args`."""
    long = any(part in (signature or "") for part in ("*args", "<factory>"))
    return ("", "") if what == "class" and (long or issubclass(value, BaseModel)) else None


def document(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Read Google's sections; what stands below an attribute has none."""
    if what not in {"attribute", "property"}:
        settings = Config(napoleon_use_ivar=True)
        lines[:] = GoogleDocstring(lines, settings, app, what, name, value, options).lines()


def explain_fields(model: type[BaseModel]) -> None:
    """Show the fields of records plainly: type and default, and the bounds in words."""
    for each in model.__subclasses__():
        explain_fields(each)
        if not each.__module__.startswith(project):
            continue
        hints = get_type_hints(each)
        analyzer = ModuleAnalyzer.for_module(each.__module__)
        analyzer.analyze()
        for name in each.__annotations__.keys() & each.model_fields.keys():
            field = each.model_fields[name]
            each.__annotations__[name] = hints[name]
            section = isinstance(field.default, BaseModel)
            if not (field.is_required() or field.default_factory or section):
                type.__setattr__(each, name, field.default)
            if bounds := bounds_of(field):
                above = analyzer.attr_docs.get((each.__qualname__, name), [])
                analyzer.attr_docs[each.__qualname__, name] = [*above, f"{bounds}.", ""]


def bounds_of(field: FieldInfo) -> str:
    """The bounds of a number, in words."""
    words = {"ge": "At least", "gt": "Above", "le": "at most", "lt": "below"}
    return ", ".join(
        f"{text} {getattr(each, name):,}"
        for each in field.metadata
        for name, text in words.items()
        if hasattr(each, name)
    )


def shorten_contents(app: Sphinx, doctree: nodes.document) -> None:
    """List the names of a page beside it, without their members."""
    for item in app.env.tocs[app.env.current_document.docname].findall(nodes.list_item):
        anchor = next(iter(item.findall(nodes.reference)))["anchorname"]
        if anchor.startswith(f"#{project}."):
            del item[1:]


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Lead to a name wherever it is defined; a type that has no page is text."""
    if node.get("refdomain") != "py":
        return None
    found = link(app, node["refdoc"], PUBLIC.get(node["reftarget"], node["reftarget"]), content)
    return found or (None if node["reftype"] == "exc" else content)


def link(app: Sphinx, docname: str, name: str, content: nodes.Node) -> nodes.reference | None:
    """Lead from a page to the class or function of a name, whole or its end."""
    objects = app.env.domains.python_domain.objects
    for whole in (name, f"{project}.{name}", *objects):
        place = objects.get(whole)
        if place and place.objtype in KINDS and f".{whole}".endswith(f".{name}"):
            page = app.builder.get_relative_uri(docname, place.docname)
            return nodes.reference("", "", content, refuri=f"{page}#{place.node_id}")
    return None


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link classes, and functions that are called, where prose names them in code."""
    function = r"[a-z_]+$" if docname.startswith("api/") else r"[a-z_]+(?=\()"
    for code in list(doctree.findall(nodes.literal)):
        if isinstance(code.parent, nodes.reference | nodes.title):
            continue
        if page := re.fullmatch(r"docs/([\w-]+)\.md", code.astext()):
            place = app.builder.get_relative_uri(docname, page[1])
            code.replace_self(nodes.reference("", "", code.deepcopy(), refuri=place))
            continue
        name = re.match(rf"([A-Z]\w+$|{function})", code.astext().removeprefix(f"{project}."))
        if name and (new := link(app, docname, name[1], code.deepcopy())):
            code.replace_self(new)


def glossary() -> dict[str, str]:
    """Each term, and what it means in plain text."""
    rows = ROW.findall((DOCS / "index.md").read_text(encoding="utf-8"))[1:]
    plain = {
        words: re.sub(r"\s*\(\[[^\]]*\]\([^)]*\)\)|[*`]|\[|\]\([^)]*\)", "", text)
        for words, text in rows
    }
    return {
        term.strip("* "): text for words, text in plain.items() for term in re.split("[,;]", words)
    }


def link_terms(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link the first mention of each term of the glossary on a page, and give its rows an id."""
    terms = {term: text for term, text in glossary().items() if term not in OTHER_MEANINGS}
    if docname == "index":
        for row in doctree.findall(nodes.row):
            words = re.split("[,;]", row[0].astext())
            row["ids"] += [nodes.make_id(f"term {word}") for word in words]
        return
    place = app.builder.get_relative_uri(docname, "index")
    for text in list(doctree.findall(nodes.Text)):
        above = text.parent
        if isinstance(above, nodes.paragraph) and not isinstance(above.parent, nodes.entry):
            above.replace(text, list(linked(str(text), terms, place)))


def linked(text: str, terms: dict[str, str], place: str) -> Iterator[nodes.Node]:
    """A text in pieces; terms that are found are taken out of `terms`."""
    while terms:
        words = "|".join(sorted(map(re.escape, terms), key=len, reverse=True))
        found = re.search(rf"(?<![\w-])({words})s?(?![\w-])", text)
        if not found:
            break
        meaning, name = terms.pop(found[1]), nodes.make_id(f"term {found[1]}")
        yield nodes.Text(text[: found.start()])
        yield nodes.reference(
            "", found[0], refuri=f"{place}#{name}", reftitle=meaning, classes=["term"]
        )
        text = text[found.end() :]
    yield nodes.Text(text)
