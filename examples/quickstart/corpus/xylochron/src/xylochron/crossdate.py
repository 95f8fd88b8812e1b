"""Finding the position of a sample on a master, and checking series that are dated.

Two different jobs live here. ``crossdate`` slides an undated sample along a master and
ranks the positions; ``segment_check`` cuts a *dated* series into segments and asks of
each whether it would fit better some years away, which points to missing or false rings.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from xylochron.errors import OverlapTooShortError
from xylochron.series import Series

HARD_MINIMUM = 20
"""Below this many common rings the t-values are not computed at all."""
CRITICAL_R = 0.3281
"""One-sided 99 % level of the correlation for segments of 50 years."""


@dataclass(frozen=True)
class Match:
    """One position of a sample on a master."""

    sample: str
    master: str
    first_year: int
    last_year: int
    overlap: int
    t_bp: float
    """Baillie–Pilcher t-value: logarithms of five-year ratios."""
    t_h: float
    """Hollstein t-value: logarithms of the ratio of neighbouring rings (Wuchswert)."""
    glk: float
    """Gleichläufigkeit in percent: share of years in which both rise or both fall."""


@dataclass(frozen=True)
class SegmentFlag:
    """One segment of a dated series that does not sit well."""

    start: int
    end: int
    flag: str
    """``A``: weak where it is, nothing better nearby. ``B``: better ``shift`` years away."""
    r: float
    shift: int


def crossdate(
    sample: Series,
    master: Series,
    *,
    min_overlap: int = 50,
    allow_short: bool = False,
    top: int = 10,
) -> list[Match]:
    """Rank the positions of a sample on a master, highest t_bp first.

    Positions with fewer than ``min_overlap`` common rings are left out *silently*: a
    sample shorter than ``min_overlap`` gives an empty list.

    Args:
        sample: The sample; its own dates, if any, are ignored.
        master: A dated series or a chronology's ``as_series()``.
        min_overlap: Fewest common rings of a position.
        allow_short: Needed for a ``min_overlap`` below 30.
        top: How many positions to return.

    Raises:
        OverlapTooShortError: ``min_overlap`` is below 30 without ``allow_short``, or
            below 20 in any case.
    """
    floor = HARD_MINIMUM if allow_short else 30
    if min_overlap < floor:
        raise OverlapTooShortError(
            f"min_overlap={min_overlap} is below {floor}"
            + ("" if allow_short else "; pass allow_short=True if you know what you do")
        )
    ours = np.asarray(sample.complete_widths(), dtype=float)
    theirs = np.asarray(master.complete_widths(), dtype=float)
    base = master.between(-10_000, 10_000).first_year or 0
    matches = []
    for offset in range(min_overlap - len(ours), len(theirs) - min_overlap + 1):
        low, high = max(offset, 0), min(offset + len(ours), len(theirs))
        if high - low < min_overlap:
            continue
        mine, yours = ours[low - offset : high - offset], theirs[low:high]
        matches.append(
            Match(
                sample.id,
                master.id,
                base + offset,
                base + offset + len(ours) - 1,
                high - low,
                t_value(_baillie_pilcher(mine), _baillie_pilcher(yours)),
                t_value(_hollstein(mine), _hollstein(yours)),
                gleichlaeufigkeit(mine, yours),
            )
        )
    return sorted(matches, key=lambda match: (-match.t_bp, match.first_year))[:top]


def batch_crossdate(
    samples: Sequence[Series],
    masters: Sequence[Series],
    *,
    workers: int = 1,
    top: int = 5,
    min_overlap: int = 50,
) -> list[Match]:
    """Crossdate every sample on every master, in ``workers`` processes.

    With more than one worker the processes are *spawned* on every system, so the calling
    script needs an ``if __name__ == "__main__":`` guard.
    """
    pairs = [(sample, master) for sample in samples for master in masters]
    job = partial(_pair, min_overlap=min_overlap, top=top)
    if workers == 1:
        found = [job(pair) for pair in pairs]
    else:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            found = list(pool.map(job, pairs, chunksize=16))
    return [match for matches in found for match in matches]


def _pair(pair: tuple[Series, Series], *, min_overlap: int, top: int) -> list[Match]:
    return crossdate(*pair, min_overlap=min_overlap, top=top)


def segment_check(
    series: Series, master: Series, *, length: int = 50, lag: int = 25, max_shift: int = 10
) -> list[SegmentFlag]:
    """Flag the segments of a dated series that fit badly (A) or better elsewhere (B)."""
    ours = _baillie_pilcher(np.asarray(series.complete_widths(), dtype=float))
    theirs = _baillie_pilcher(np.asarray(master.complete_widths(), dtype=float))
    first = series.between(-10_000, 10_000).first_year or 0
    gap = first - (master.between(-10_000, 10_000).first_year or 0)
    flags = []
    for start in range(0, len(ours) - length + 1, lag):
        fits = {}
        for shift in range(-max_shift, max_shift + 1):
            low = start + gap + shift
            if 0 <= low and low + length <= len(theirs):
                fits[shift] = _r(ours[start : start + length], theirs[low : low + length])
        if 0 not in fits:
            continue
        best = max(fits, key=lambda shift: (fits[shift], -abs(shift)))
        if best != 0 or fits[0] < CRITICAL_R:
            year = first + start
            flag = "B" if best != 0 else "A"
            flags.append(SegmentFlag(year, year + length - 1, flag, fits[0], best))
    return flags


def t_value(x: np.ndarray, y: np.ndarray) -> float:
    """Student's t of a correlation: ``r·√(n−2) / √(1−r²)``."""
    r = _r(x, y)
    return float(r * np.sqrt(len(x) - 2) / np.sqrt(max(1 - r * r, 1e-12)))


def gleichlaeufigkeit(x: np.ndarray, y: np.ndarray) -> float:
    """Percent of intervals with the same sign; a step of zero on one side counts half."""
    signs = np.abs(np.sign(np.diff(x)) - np.sign(np.diff(y)))
    return float(100 * (1 - signs.mean() / 2))


def _baillie_pilcher(widths: np.ndarray) -> np.ndarray:
    """Logarithm of each width in percent of its five-year running mean; ends dropped."""
    mean = np.convolve(widths, np.ones(5) / 5, mode="valid")
    return np.log(100 * np.maximum(widths[2:-2], 1) / np.maximum(mean, 1))


def _hollstein(widths: np.ndarray) -> np.ndarray:
    safe = np.maximum(widths, 1)
    return np.log(safe[1:] / safe[:-1])


def _r(x: np.ndarray, y: np.ndarray) -> float:
    if x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
