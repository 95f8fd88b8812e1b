"""Which files are licences, notices and lists of authors: kept beside a corpus, not in it."""

import re

_KNOWN = (
    r"apache|mit|bsd|gpl|lgpl|agpl|mpl|epl|cc0|cc|isc|zlib|unlicense|boost|artistic|wtfpl|"
    r"psf|python|ofl|third[-_]?party|thirdparty|exceptions?|\d+"
)
_PROSE = r"(?:\.(?:txt|md|markdown|rst|adoc|html?|rtf))?"
_ANY_CASE = (
    r"(?:un)?licen[cs]es?|copying|copyrights?|authors|contributors|"
    r"third[-_]?party[-_]?(?:notices?|licen[cs]es?)"
)
_SHOUTED = r"NOTICES?|PATENTS|CREDITS|MAINTAINERS"
_NAME = re.compile(
    rf"(?:(?i:{_ANY_CASE})|{_SHOUTED})(?:[-_. ](?:(?i:{_KNOWN})|[A-Z][A-Z0-9]*))*(?i:{_PROSE})"
    rf"|(?i:(?:{_KNOWN})(?:[-_.](?:{_KNOWN}))*[-_]licen[cs]e{_PROSE})"
)
_FOLDER = re.compile(r"(?:^|/)(?:LICENSES|[^/]+\.dist-info/licen[cs]es)/")
_CODE = re.compile(r"\.(?:py|pyi|js|ts|tsx|jsx|go|rs|java|c|h|cc|cpp|rb|php|cs|kt|swift)$", re.I)


def is_licence(path: str) -> bool:
    """Tell from its path whether a file is a licence, a notice or a list of authors.

    `LICENSE`, `LICENCE.txt`, `LICENSE-APACHE`, `COPYING.LESSER`, `NOTICE`, `AUTHORS.rst`,
    `third_party_notices.txt`, and all that lies in `LICENSES/` or in the `licenses` of a
    `.dist-info`; not `license.py`, `license-keys.md` or `notice.ts`.
    """
    if _CODE.search(path):
        return False
    name = path.rpartition("/")[2]
    return _NAME.fullmatch(name) is not None or _FOLDER.search(path) is not None
