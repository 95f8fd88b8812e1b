"""Personal data and secrets in what users typed: found by rules, masked, and counted.

Each rule is an expression, and for numbers a check, so that versions, hashes and other numbers of
code stay as they are. No rule finds names of people.
"""

import functools
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from freshstack_dspy.errors import ConfigError


class Rule(NamedTuple):
    """What is masked: the group `secret` of a match, or all of it."""

    pattern: re.Pattern[str]
    check: Callable[[str], bool] = bool
    """Whether a match is one."""


def _is_card(text: str) -> bool:
    """Whether the last digit is that of Luhn's formula (ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Whether the check digits are right (ISO 13616: the number modulo 97 is 1)."""
    plain = re.sub(r"\s", "", text).upper()
    return (
        15 <= len(plain) <= 34
        and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1
    )


_VERSION_PARTS = 32
"""Four numbers all below this are taken for a version; one address in 4,096 looks like one."""


def _is_address(text: str) -> bool:
    """Whether an IP address is one of the public internet, and is no version."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    version = address.version == 4 and max(address.packed) < _VERSION_PARTS
    return address.is_global and not version and (address.version == 4 or len(text) > 8)


def _is_phone(text: str) -> bool:
    return 8 <= sum(map(str.isdigit, text)) <= 15


RULES: dict[str, Rule] = {
    "private_key": Rule(
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        )
    ),
    "jwt": Rule(re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*")),
    "api_key": Rule(
        re.compile(
            r"\b(?:(?:[spr]k|gsk|xai|lsv2|whsec|nvapi|pplx|tvly)[-_](?=[\w-]{0,99}\d)[\w-]{16,}|"
            r"gh[opsur]_\w{20,}|github_pat_\w{20,}|"
            r"glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z\d]{16}|AIza[\w-]{30,}|"
            r"hf_[A-Za-z\d]{20,}|npm_[A-Za-z\d]{30,}|pypi-[\w-]{30,}|SG\.[\w-]{16,}\.[\w-]{16,})"
        )
    ),
    "secret": Rule(
        re.compile(
            r"(?i:(?:\b(?:bearer|basic)\s+|token[\"']?\s*[:=]\s*[\"']?)(?=[\w+/=.:-]{16})(?=\S{0,99}\d)|"
            r"(?:password|passwd|pwd|secret|api[ _-]?key|acc(?:ess|ount)[_-]?key|"
            r"(?:auth|access)[_-]?token)[\"']?\s*[:=]\s*[\"']?(?=[^\s\"',;]{0,99}[\d!@#$%^&*+/]))"
            r"(?P<secret>[^\s\"',;&]{6,})"
        )
    ),
    "url_login": Rule(
        re.compile(r"\b[a-z][a-z\d+.-]{0,30}://(?P<secret>[^\s/@:?#]*:[^\s/@]+)@", re.IGNORECASE)
    ),
    "url_token": Rule(
        re.compile(
            r"[?&](?:[\w-]*token|[\w-]*key|code|sig(?:nature)?|session(?:id)?|sid|auth|password|"
            r"[\w-]*secret|X-Amz-[\w-]+)=(?P<secret>[^\s&#\"')>]{6,})",
            re.IGNORECASE,
        )
    ),
    "email": Rule(
        re.compile(r"(?<![\w.%+-])(?!git@)[\w.%+-]++@(?:(?:[^\W_]|-)+\.)+[^\W\d_]{2,24}\b")
    ),
    "uuid": Rule(re.compile(r"\b[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}\b", re.IGNORECASE)),
    "iban": Rule(
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){2,7}(?: ?[A-Z\d]{1,4})?\b"), _is_iban
    ),
    "card": Rule(
        re.compile(
            r"(?<![\w.-])(?=[2-6])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{5})"
            r"(?![\w-]|\.\d|[ -]\d)"
        ),
        _is_card,
    ),
    "ipv6": Rule(
        re.compile(r"(?<![\w:.])(?:[\da-f]{0,4}:){2,7}[\da-f]{1,4}(?![\w:])", re.IGNORECASE),
        _is_address,
    ),
    "ipv4": Rule(
        re.compile(r"(?<![\w.=~^-])(?<!version )(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\w)"), _is_address
    ),
    "phone": Rule(
        re.compile(
            r"(?<![\w+])\+\d[\d ()./-]{6,18}\d(?!\w)"
            r"|(?<![\w.(-])(?<!\d\s)(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-]|\.\d|\s+\d)"
            r"|\b(?i:tel|mob|phone|call me at)[.:]? (?P<secret>\d[\d ()/-]{5,18}\d)(?!\w)"
        ),
        _is_phone,
    ),
    "user_folder": Rule(
        re.compile(
            r"(?:/home/|/Users/|\b[A-Za-z]:\\+Users\\+)"
            r"(?P<secret>(?<=\\)[^\\/:*?\"<>|\r\n]{1,60}(?=\\)|[\w.-]+)"
        )
    ),
}
"""By name, in the order in which they are applied; later rules do not see what earlier ones masked."""
_MAY_HOLD = re.compile(r"[@:=/\\]|\d\d|[-_.]\w{8}|\b[\w.+-]{15}|-----")
"""What a text has if any rule of `RULES` matches it: most questions have nothing of it."""


class Masking:
    """The rules of a configuration, and how often each was applied."""

    def __init__(self, mask: dict[str, str | Literal[False]] | Literal[False]) -> None:
        """Take `RULES`, without those that are off, and one's own after them.

        Raises:
            ConfigError: An expression is none, or a rule that is off is not there.
        """
        own = mask or {}
        if unknown := [name for name, rule in own.items() if rule is False and name not in RULES]:
            raise ConfigError(
                f"queries.mask: there is no rule {unknown[0]!r} to turn off; there are "
                f"{', '.join(RULES)}"
            )
        self._rules = {} if mask is False else {n: r for n, r in RULES.items() if n not in own}
        self._own = {name: _own(name, text) for name, text in own.items() if text}

    @functools.lru_cache(maxsize=1 << 16)  # noqa: B019 - one for each reading, and gone with it
    def __call__(self, text: str) -> tuple[str, tuple[tuple[str, int], ...]]:
        """Give a text with `[rule]` in place of what each masked, and how many places by rule."""
        rules = self._rules if _MAY_HOLD.search(text) else {}
        counts: Counter[str] = Counter()
        for name, rule in (*rules.items(), *self._own.items()):

            def masked(match: re.Match[str], name: str = name, rule: Rule = rule) -> str:
                if not rule.check(match.group()):
                    return match.group()
                counts[name] += 1
                group = "secret" if match.groupdict().get("secret") else 0
                start, end = (place - match.start() for place in match.span(group))
                return f"{match.group()[:start]}[{name}]{match.group()[end:]}"

            text = rule.pattern.sub(masked, text)
        return text, tuple(counts.items())


def _own(name: str, pattern: str) -> Rule:
    try:
        rule = Rule(re.compile(pattern))
    except re.error as error:
        raise ConfigError(
            f"queries.mask: {name} is {pattern!r}, no regular expression: {error}"
        ) from None
    if rule.pattern.match(""):
        raise ConfigError(f"queries.mask: {name} is {pattern!r}, which matches nothing at all too")
    return rule


def counts_of(rules: Mapping[str, int]) -> str:
    """Say how many places were masked, by rule."""
    return ", ".join(f"{number:,} {name}" for name, number in rules.items())
