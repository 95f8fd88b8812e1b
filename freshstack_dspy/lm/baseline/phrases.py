"""Key phrases and names: what a text is about, in its own words."""

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import overload

import numpy as np
import numpy.typing as npt

from freshstack_dspy.lm.baseline.markdown import blocks, plain
from freshstack_dspy.text import STOP_WORDS, terms

Floats = npt.NDArray[np.float64]

_FUNCTION_WORDS = """
    about above after again against all almost already also although always am among any anyone
    anything aren because been before being below between both can cannot could couldn d did
    didn do does doesn doing don done during each either else enough etc even ever every
    everyone everything few from had hadn has hasn have haven having he her here hers him his
    how however i instead isn its itself just least less let like ll m many may me might more
    most much must my neither never nobody nor nothing now off often ok okay once one only other
    others our out over own per perhaps please quite rather re s same shall she should shouldn
    since so some someone something still t than them themselves though through thus too under
    until up upon us ve versus very via wasn we were weren what whatever when whenever where
    whether which while who whom whose why within without won would wouldn yes yet you your
"""
_COMMON_WORDS = """
    able actual add addition additional additionally allow another around ask available away
    back base become began begin best better big bring call came case cause certain change clear
    close come common consequently consider contain continue day despite different down due
    early easy end especially exist fact far feel find first five follow form four full further
    furthermore gave general generally get give given go good great group grow half hand happen
    hard help high hold hour idea important include increase instance issue keep kind knew know
    known large last late later lead learn leave led left life likely line list little live long
    look lot low main major make man mean means month moreover mostly move name near need new
    next note number offer old open order overall part particular particularly people person
    place plan play point possible problem provide put question quick read real reason receive
    recent relate remain report result right run said saw say second see seem seen send serve
    set several show side significant significantly similar simple simply single six small sort
    speak specific start state stay stop strong such sure take taken talk tell ten tend term
    therefore thing think third three time today together told took top total toward tried true
    try turn two type typically understand use usual value various view want watch way week well
    went whole wide word work world write wrong year young
"""
_FREQUENT_WORDS = """
    accept access account achieve across act action active address affect age agree aim amount
    appear apply approach area argue article aspect associate attempt attention author average
    avoid aware basic behavior belief benefit book build business buy care carry center century
    challenge character choice choose city claim class company compare complete concern
    condition connect consist control cost country course cover create critical culture current
    customer data deal death decide decision decrease deep define degree demand describe design
    detail determine develop development difference difficult direct discuss draw drive economic
    education effect effective effort emphasize enable encourage energy engage ensure enter
    environment establish event evidence example expect experience explain express face factor
    fail fall family famous father favor feature field figure file focus force foster free
    function future gain goal government head health hear highlight history home human impact
    implement impose improve individual industry influence inform information initial input
    interest introduce involve job join key land language law level light limit link local lose
    loss maintain manage mark market material matter measure media meet member mention method
    mind minute model modern money mother national natural nature negative object office online
    opportunity oppose option organization original outcome output parent party pass past pay
    perform period personal physical policy political poor popular population positive power
    practice prefer prepare present press prevent price primary private process produce product
    program project promote property protect prove public purpose quality raise range rate reach
    react reality reduce reflect regard region reject relationship relevant rely remove
    represent request require research resource respond response rest return rise risk role rule
    safe sale scale school science search section security sell sense separate series service
    share short sign sit situation size skill social society solution solve source space special
    spend stage stand standard step store story strategy street string structure student study
    style subject success suffer suggest summary supply support surface system table target task
    teach team test text theory thought throughout title tool topic trade tradition train treat
    trend trouble understanding unit university user variety version visit voice wait walk war
    water white win woman women worth
"""
_FUNCTION, _COMMON, _FREQUENT, _RARE = 0.3, 0.1, 0.05, 0.01
"""In which share of sentences a term of each list, and of none, is expected."""

_LONG_WORD = 8
_LONG, _COMPOUND = 0.7, 0.5
"""By how much a long word, a number or a compound name is rarer still."""


@functools.lru_cache(maxsize=1)
def _listed() -> dict[str, float]:
    shares: dict[str, float] = {}
    for words, share in (
        (_FREQUENT_WORDS, _FREQUENT),
        (_COMMON_WORDS, _COMMON),
        (_FUNCTION_WORDS, _FUNCTION),
    ):
        shares.update(dict.fromkeys(terms(words), share))
    return shares


@functools.lru_cache(maxsize=65_536)
def expected_share(term: str) -> float:
    """In which share of all sentences a term is expected, in (0, 1)."""
    listed = _listed().get(term)
    if listed is not None:
        return listed
    if "." in term or "_" in term:
        return _RARE * _COMPOUND
    if len(term) >= _LONG_WORD or not term.isalpha():
        return _RARE * _LONG
    return _RARE


@overload
def information(share: float) -> float: ...
@overload
def information(share: Floats) -> Floats: ...
def information(share: float | Floats) -> float | Floats:
    """How much a term tells that occurs in a share of the sentences: 1 for an unlisted word."""
    told: float | Floats = np.log(share) / math.log(_RARE)
    return told


def total_information(found: Iterable[str]) -> float:
    """How much some terms tell together, repetitions counted."""
    return sum(information(expected_share(term)) for term in found)


def is_common(term: str) -> bool:
    """Whether a term is on one of the two shorter lists, and so names nothing."""
    return expected_share(term) >= _COMMON


_WORD = re.compile(r"[^\W_][\w.+#-]*[\w+#]|[^\W_]")
_BOUNDARY = re.compile(r"[,;:!?()\[\]{}\"“”|<>=`]|\.(?:\s|$)|\s[-–—]\s")
_NAME = re.compile(r"\b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*\b(?:\(\))?")
_MIXED_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|\w[._:]\w|_\w|\(\)$")
_NOT_A_NAME = re.compile(r"https?://\S+|\b(?:e\.g|i\.e|U\.S|a\.k\.a)\b")
_FAULT = re.compile(
    r"\b\w*(?:Error|Exception|Warning)\b[^\n`]{0,200}|\b(?:error|fatal):[^\n`]{1,200}"
)
_LONGEST_PHRASE = 4
_LONGEST_NAME = 60
_LONGEST_FAULT = 160


def key_phrases(text: str, limit: int) -> list[str]:
    """The most telling runs of up to four uncommon words of the prose.

    Returns:
        Phrases as they are written, the most telling first.
    """
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}
    for block in blocks(text):
        if block.kind != "code":
            for phrase in _phrases(_NOT_A_NAME.sub(" ", plain(block.text))):
                counts[phrase.lower()] += 1
                written.setdefault(phrase.lower(), phrase)
    value = {key: total_information(terms(key)) * count**0.5 for key, count in counts.items()}
    order = sorted(value, key=lambda key: (-value[key], key))
    chosen: list[str] = []
    covered: set[str] = set()
    for key in order:
        found = set(terms(key))
        if not found <= covered:
            chosen.append(written[key])
            covered |= found
        if len(chosen) == limit:
            break
    return chosen


def names(text: str, limit: int) -> list[str]:
    """The names of code in a text: dotted, underscored, mixed-case or called.

    Returns:
        At most `limit` names, the most frequent first, then as they appear.
    """
    counts = Counter(
        name.removesuffix("()")
        for name in _NAME.findall(_NOT_A_NAME.sub(" ", text))
        if _MIXED_CASE.search(name) and len(name) <= _LONGEST_NAME
    )
    return [name for name, _ in counts.most_common(limit)]


def faults(text: str, limit: int) -> list[str]:
    """The error messages that a text quotes, each once, in order."""
    found = [
        " ".join(fault.split())[:_LONGEST_FAULT].rstrip(" .?!") for fault in _FAULT.findall(text)
    ]
    return list(dict.fromkeys(found))[:limit]


def _phrases(text: str) -> list[str]:
    found: list[str] = []
    for part in _BOUNDARY.split(text):
        run: list[str] = []
        for word in [*_WORD.findall(part), ""]:
            if word and len(run) < _LONGEST_PHRASE and not _is_filler(word):
                run.append(word)
                continue
            if run:
                found.append(" ".join(run))
            run = [word] if word and not _is_filler(word) else []
    return found


def _is_filler(word: str) -> bool:
    found = terms(word)
    return word.lower() in STOP_WORDS or not found or all(map(is_common, found))
