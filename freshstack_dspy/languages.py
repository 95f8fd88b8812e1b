"""Natural languages: which one a text is in, and the stems and stop words of each."""

import functools
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import Stemmer

from freshstack_dspy.errors import ConfigError

ENGLISH = ("en",)
_ENGLISH_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)
"""Lucene's."""
_STOP_WORDS = {
    "da": "DANISH",
    "de": "GERMAN",
    "es": "SPANISH",
    "fr": "FRENCH",
    "it": "ITALIAN",
    "nl": "DUTCH",
    "no": "NORWEGIAN",
    "pt": "PORTUGUESE",
    "ru": "RUSSIAN",
    "sv": "SWEDISH",
    "tr": "TURKISH",
}
"""The lists of bm25s, which are NLTK's."""
_VARIETIES = {"wuu": "zh", "yue": "zh", "ary": "ar", "arz": "ar", "nn": "no"}
"""What the detector tells apart and a configuration does not."""

FEWEST_LETTERS = 12
"""A shorter text in an alphabet is undetermined; of Chinese, Japanese and Korean a third will do."""
_LEAST_OF_ALL, _LEAST_OF_THESE = 0.05, 0.8
"""What the languages to choose from must have of the probability, and the chosen one of theirs."""
_MOST_LOOKED_AT = 4_000
"""Characters of a text that are looked at, without code."""
_NO_PROSE = re.compile(
    r"^(?P<fence>[ \t]*(?:`{3,}|~{3,})).*?(?:^(?P=fence)|\Z)"
    r"|`[^`\n]*`|<[^<>\n]*>|\]\([^()\n]*\)"
    r"|(?a:\b\w+://[!-~]+|[!-~]{0,200}[\w)][./_:=(]\w[!-~]*|[\w.-]{1,64}@[\w.-]+)",
    re.MULTILINE | re.DOTALL,
)
"""Code, tags, addresses, paths and names with marks inside, which are ASCII: around them in Chinese
there is no space. Their lengths are bounded, so that a long line takes no time by its square."""
_LETTER = re.compile(r"[^\W\d_]")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")


def language_of(text: str, languages: Sequence[str]) -> str | None:
    """Tell which of some languages a Markdown text is in, by its prose.

    With one language to choose from, the text is not looked at. None: it is too short, in none of
    them, or could be in several.

    Raises:
        ConfigError: There are several, and the detector is not installed or does not know one.
    """
    if len(languages) < 2:
        return languages[0] if languages else None
    prose = " ".join(_NO_PROSE.sub(" ", text[: 4 * _MOST_LOOKED_AT]).split())[:_MOST_LOOKED_AT]
    if len(_LETTER.findall(prose)) + 2 * len(_WIDE.findall(prose)) < FEWEST_LETTERS:
        return None
    ranked = dict(_detector().rank(prose))
    if unknown := [code for code in languages if code not in ranked]:
        raise ConfigError(
            f"languages names {unknown[0]!r}, which is not told apart from others; allowed: "
            f"{', '.join(sorted(ranked.keys() - _VARIETIES.keys()))}"
        )
    shares = {code: float(ranked[code]) for code in languages}
    for variety, code in _VARIETIES.items():
        if code in shares and variety not in shares:
            shares[code] += float(ranked[variety])
    best, of_all = max(shares, key=lambda code: shares[code]), sum(shares.values())
    sure = of_all >= _LEAST_OF_ALL and shares[best] >= _LEAST_OF_THESE * of_all
    return best if sure else None


@functools.cache
def _detector() -> Any:
    try:
        library = importlib.import_module("py3langid.langid")
    except ImportError:
        raise ConfigError(
            "to tell several languages apart needs the package py3langid; install it with: "
            "pip install 'freshstack_dspy[languages]'; or say language of [queries] and of each "
            "[[corpus]]"
        ) from None
    return library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)


@functools.lru_cache(maxsize=64)
def stop_words(languages: tuple[str, ...]) -> frozenset[str]:
    """Words of these languages that tell nothing about a text."""
    words = _ENGLISH_STOP_WORDS if "en" in languages else frozenset[str]()
    for name in (_STOP_WORDS[code] for code in languages if code in _STOP_WORDS):
        from bm25s import stopwords

        words |= frozenset(getattr(stopwords, f"STOPWORDS_{name}"))
    return words


@functools.lru_cache(maxsize=64)
def stems(languages: tuple[str, ...]) -> tuple[Callable[[str], str], ...]:
    """Give the Snowball stemmers of these languages; where there is none a word is its stem."""
    return tuple(map(_stemmer, languages))


def _stemmer(code: str) -> Callable[[str], str]:
    try:
        stem: Callable[[str], str] = Stemmer.Stemmer(code, maxCacheSize=0).stemWord
    except KeyError:
        return str
    return stem
