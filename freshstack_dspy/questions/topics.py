"""What to gather a corpus from: tags that occur together, and what questions link to or name.

FreshStack chooses the repositories of a topic by the tags that occur next to the topic's own: the
first k of them, where k balances the questions covered against the size of the index.
Source: arXiv 2504.13128, §3.2.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.questions.stackexchange import AskedQuestion, questions_of_dump
from freshstack_dspy.records import Query, Record, instant

# Tags


class TagCount(Record):
    """One tag in a list."""

    tag: str
    questions: int
    """How many questions have it."""
    share: float
    """The share of all questions."""
    added: int
    """How many questions have it and none of the tags before it in the list."""
    coverage: float
    """The share of questions that have this tag or one before it."""
    query_ids: tuple[str, ...] | None = None
    """The questions that have it; None where only tags were read."""


class TagCoverage(Record):
    """How the questions of a topic spread over other tags."""

    questions: int
    without: int
    """Questions that have none of the tags that count: nothing covers them."""
    distinct: int
    """How many tags there are that count."""
    tags: tuple[TagCount, ...]


def asked_questions(
    config: QueriesConfig, progress: ReadProgress | None = None
) -> Iterator[AskedQuestion]:
    """Give each question that passes the filters, but for `limit`.

    In a Stack Exchange dump the questions alone are looked at: filters of answers, licences and
    duplicates do not count. From other sources it gives the queries that would be read, and those
    without an answer.
    """
    if config.source == "stackexchange":
        yield from questions_of_dump(config, progress)
        return
    unlimited = config.model_copy(update={"limit": None})
    for query in read_queries(unlimited, progress, answered=False).queries:
        asked = instant(query.asked_at) if query.asked_at else None
        yield AskedQuestion(query.tags, asked, bool(query.answer))


def tag_coverage(
    questions: Iterable[Collection[str]],
    *,
    ignored: Collection[str] = (),
    limit: int | None = None,
) -> TagCoverage:
    """Count the tags of questions, and how many questions they cover one after the other.

    Next in the list is the tag that adds the most questions; it ends when none adds any. Ties go
    to the tag of more questions, then by name. Case does not matter.
    """
    passed = {tag.casefold() for tag in ignored}
    sets: Counter[frozenset[str]] = Counter()
    for tags in questions:
        sets[frozenset(tag for tag in map(str.casefold, tags) if tag not in passed)] += 1
    counts: Counter[str] = Counter()
    having: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for tags, number in sets.items():
        for tag in tags:
            counts[tag] += number
            having[tag].append(tags)
    total, covered = sets.total(), 0
    gains, uncovered = dict(counts), dict(sets)
    listed: list[TagCount] = []
    while gains and (limit is None or len(listed) < limit):
        tag = min(gains, key=lambda tag: (-gains[tag], -counts[tag], tag))
        added = gains.pop(tag)
        if not added:
            break
        covered += added
        number, share, coverage = counts[tag], counts[tag] / total, covered / total
        listed.append(
            TagCount(tag=tag, questions=number, share=share, added=added, coverage=coverage)
        )
        for tags in having[tag]:
            number = uncovered.pop(tags, 0)
            for other in tags & gains.keys():
                gains[other] -= number
    return TagCoverage(
        questions=total, without=sets[frozenset()], distinct=len(counts), tags=tuple(listed)
    )


class NewTopic(Record):
    """A tag that is new since a date."""

    tag: str
    questions: int
    """Asked since the date."""
    answered: int
    """How many of these have an accepted answer."""
    earlier: int
    """Asked before the date; the tag may have been added to them later."""
    first: str
    """The ISO date of the first since."""


_MOST_EARLIER = 0.05
"""Share of the questions of a new tag that may be older: old questions are tagged anew."""


def new_topics(
    questions: Iterable[AskedQuestion],
    since: str,
    at_least: int,
    *,
    ignored: Collection[str] = (),
) -> list[NewTopic]:
    """List the tags that are new since a date and have at least so many answered questions since.

    FreshStack takes topics that were introduced from 2023 on and have 50 posts (§3.1). The one
    with the most answered questions comes first; ties go by all questions, then by name.

    Raises:
        ConfigError: `since` is no ISO date.
        SourceError: No question has a date.
    """
    try:
        start = instant(since)
    except ValueError:
        raise ConfigError(f"since is {since!r}; allowed: an ISO 8601 date, as 2023-01-31") from None
    passed = {tag.casefold() for tag in ignored}
    earlier, asked, answered = Counter[str](), Counter[str](), Counter[str]()
    first: dict[str, datetime] = {}
    for question in questions:
        if question.asked is None:
            continue
        tags = {*map(str.casefold, question.tags)} - passed
        if question.asked < start:
            earlier.update(tags)
            continue
        asked.update(tags)
        answered.update(tags if question.answered else ())
        first |= {tag: min(question.asked, first.get(tag, question.asked)) for tag in tags}
    if not (earlier or asked):
        raise SourceError(
            "no question with a tag has a date, so it is not known which tags are new"
        )
    topics = [
        NewTopic(
            tag=tag,
            questions=asked[tag],
            answered=number,
            earlier=earlier[tag],
            first=first[tag].date().isoformat(),
        )
        for tag, number in answered.items()
        if number >= at_least and earlier[tag] <= _MOST_EARLIER * (earlier[tag] + asked[tag])
    ]
    return sorted(topics, key=lambda topic: (-topic.answered, -topic.questions, topic.tag))


# Links


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
    links_of = {
        query.query_id: links(f"{query.title}\n{query.body}\n{query.answer}") for query in queries
    }
    coverages: dict[LinkKind, TagCoverage] = {}
    for kind in KINDS:
        names = {
            query_id: {link.name for link in own if link.kind == kind}
            for query_id, own in links_of.items()
        }
        coverage = tag_coverage(names.values(), limit=limit)
        listed = [
            count.model_copy(
                update={"query_ids": tuple(id_ for id_, own in names.items() if count.tag in own)}
            )
            for count in coverage.tags
        ]
        coverages[kind] = coverage.model_copy(update={"tags": tuple(listed)})
    return coverages


def corpus_entries(
    links: Mapping[LinkKind, TagCoverage], distributions: Mapping[str, Sequence[str]]
) -> list[str]:
    """Give the lines of a configuration that name repositories and installed packages as corpora.

    `distributions` are as `importlib.metadata.packages_distributions` gives them.
    """
    installed = {name.casefold(): name for names in distributions.values() for name in names}
    installed |= {module.casefold(): names[0] for module, names in distributions.items()}
    named = [package.tag.removeprefix("pypi/") for package in links["package"].tags]
    packages = dict.fromkeys(installed[name] for name in named if name in installed)
    places = [repository.tag for repository in links["repository"].tags]
    names = [*(place.rpartition("/")[2] for place in places), *map(str.casefold, packages)]
    lines = []
    for place in places:
        name = place.rpartition("/")[2]
        unique = name if names.count(name) == 1 else place.replace("/", "-")
        lines += ["", "[[corpus]]", f'name = "{unique}"', f'url = "https://{place}"']
    for package in packages:
        lines += ["", "[[corpus]]", f'name = "{package}"', f'package = "{package}"']
    return lines
