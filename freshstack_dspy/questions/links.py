"""What questions and accepted answers link to or name: where the documents of a corpus are."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from freshstack_dspy.questions.tags import TagCoverage, tag_coverage
from freshstack_dspy.records import Query

LinkKind = Literal["repository", "package", "site"]
KINDS: tuple[LinkKind, ...] = ("repository", "package", "site")

_LONGEST = 200
"""Characters of a name; a longer one is none."""
_URL = re.compile(r"https?://[^\s<>()\[\]{}\"'`|\\^]+", re.IGNORECASE)
_CODE_HOSTS = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
_NO_OWNERS = frozenset(
    "about apps collections explore features join login marketplace orgs search settings sponsors "
    "topics users".split()
)
_NO_DOCUMENTS = re.compile(
    r"(^|\.)(stackexchange\.com|stackoverflow\.com|superuser\.com|serverfault\.com|sstatic\.net"
    r"|askubuntu\.com|mathoverflow\.net|imgur\.com|gist\.github\.com|google\.com|dropbox\.com"
    r"|youtube\.com|youtu\.be|example\.(com|org|net)|localhost)$"
)
"""Hosts of other questions, pictures and private files."""
_FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
_NAMED = {
    "pypi": (
        re.compile(r"//pypi\.(?:python\.)?org/(?:project|pypi)/([\w.-]+)"),
        re.compile(r"\bpip3?[ \t]+install[ \t]+(?:-[-\w]+[ \t]+)*([A-Za-z][\w-]*)"),
    ),
    "r": (
        re.compile(r"//cran\.r-project\.org/(?:web/packages/|package=)([\w.]+)"),
        re.compile(r"//(?:www\.)?bioconductor\.org/packages/[^\s>)]*?(\w+)\.html"),
        re.compile(r"\b(?:library|require)\([\"']?([A-Za-z][\w.]*)[\"']?\)"),
    ),
    "npm": (
        re.compile(r"//(?:www\.)?npmjs\.com/package/((?:@[\w.-]+/)?[\w.-]+)"),
        re.compile(r"\bnpm[ \t]+i(?:nstall)?[ \t]+(?:-[-\w]+[ \t]+)*((?:@[\w.-]+/)?[a-z][\w.-]*)"),
    ),
    "cargo": (
        re.compile(r"//(?:crates\.io/crates|docs\.rs)/([\w-]+)"),
        re.compile(r"\bcargo[ \t]+add[ \t]+([\w-]+)"),
    ),
}
"""By ecosystem: addresses and commands that name a package."""
_IMPORT = re.compile(
    r"^(?:>>> )?[ \t]*(?:import|from(?=[ \t]+[\w.]+[ \t]+import\b))[ \t]+([A-Za-z]\w*)[^;\"'{\n]*$",
    re.MULTILINE,
)


class Link(NamedTuple):
    """A repository, a package or a site."""

    kind: LinkKind
    name: str
    """`github.com/owner/name`, `pypi/name`, or a host."""


def links(text: str) -> frozenset[Link]:
    """What a text in Markdown links to or names.

    Repositories are those of GitHub, GitLab, Bitbucket and Codeberg, also by their pages on
    `github.io`; packages are named by an address, an install command, or an import in a block of
    code, where Python's own modules are left out; every other host is a site, but for those of
    questions, pictures and private files.
    """
    named = (*_addressed(text), *_packages(text))
    return frozenset(link for link in named if len(link.name) <= _LONGEST)


def _addressed(text: str) -> Iterator[Link]:
    for match in _URL.finditer(text):
        try:
            address = urlsplit(match[0].rstrip(".,;:!?*_"))
            host = (address.hostname or "").removeprefix("www.")
        except ValueError:  # an address that is none
            continue
        parts = [part for part in address.path.split("/") if part]
        if host == "raw.githubusercontent.com":
            host = "github.com"
        if host.endswith(".github.io") and parts and "." not in parts[0]:
            host, parts = "github.com", [host.removesuffix(".github.io"), parts[0]]
        if host in _CODE_HOSTS:
            if len(parts) > 1 and parts[0] not in _NO_OWNERS:
                name = "/".join([host, parts[0], parts[1].removesuffix(".git")])
                yield Link("repository", name.lower())
        elif "." in host and not _NO_DOCUMENTS.search(host):
            yield Link("site", host)


def _packages(text: str) -> Iterator[Link]:
    for ecosystem, patterns in _NAMED.items():
        for pattern in patterns:
            for name in pattern.findall(text):
                yield Link("package", f"{ecosystem}/{name.rstrip('.')}".lower())
    for _, code in _FENCED.findall(text):
        for name in _IMPORT.findall(code):
            if name not in sys.stdlib_module_names:
                yield Link("package", f"pypi/{name}".lower())


def link_coverage(
    queries: Iterable[Query], *, limit: int | None = None
) -> dict[LinkKind, TagCoverage]:
    """Which repositories, packages and sites cover the most questions, one after the other."""
    found = {
        query.query_id: links(f"{query.title}\n{query.body}\n{query.answer}") for query in queries
    }
    return {kind: _coverage(kind, found, limit) for kind in KINDS}


def _coverage(
    kind: LinkKind, found: Mapping[str, frozenset[Link]], limit: int | None
) -> TagCoverage:
    coverage = tag_coverage(
        [[link.name for link in of if link.kind == kind] for of in found.values()], limit=limit
    )
    with_ids = (
        one.model_copy(
            update={"query_ids": tuple(id_ for id_, of in found.items() if (kind, one.tag) in of)}
        )
        for one in coverage.tags
    )
    return coverage.model_copy(update={"tags": tuple(with_ids)})


def corpus_entries(
    links: Mapping[LinkKind, TagCoverage], distributions: Mapping[str, Sequence[str]]
) -> list[str]:
    """Give the lines of a configuration that name repositories and installed packages as corpora.

    `distributions` are as `importlib.metadata.packages_distributions` gives them.
    """
    installed = {name.casefold(): name for of in distributions.values() for name in of}
    installed |= {name.casefold(): of[0] for name, of in distributions.items()}
    named = [one.tag.removeprefix("pypi/") for one in links["package"].tags]
    packages = dict.fromkeys(installed[name] for name in named if name in installed)
    places = [one.tag for one in links["repository"].tags]
    names = [*(place.rpartition("/")[2] for place in places), *map(str.casefold, packages)]
    lines = []
    for place in places:
        name = place.rpartition("/")[2]
        unique = name if names.count(name) == 1 else place.replace("/", "-")
        lines += ["", "[[corpus]]", f'name = "{unique}"', f'url = "https://{place}"']
    for package in packages:
        lines += ["", "[[corpus]]", f'name = "{package}"', f'package = "{package}"']
    return lines
