"""Questions with five candidates each, of which three hold a fact; best first is 1, 4, 3, 0, 2."""

from math import log2
from typing import Any

from freshstack_dspy import Collection, Run

WORDS = (
    "amber basalt cobalt dolomite emerald flint garnet halite indigo jasper kaolin lapis mica "
    "nickel onyx pyrite quartz ruby slate topaz umber vanadium wolfram xenotime yttrium"
).split()
FACTS = ("melts at once", "sinks in oil")
HOLDS = {1: FACTS[0], 3: FACTS[0], 4: FACTS[1]}
"""The fact that a candidate holds, by its place."""
GIVEN = 1 / log2(3) + 0.5 / log2(5) + 1 / log2(6)
"""DCG of the order as given, alpha = 0.5: a fact at ranks 2, 4 (again) and 5."""
IDEAL = 1 + 1 / log2(3) + 0.5 / log2(4)


def collection(queries: int = 25) -> Collection:
    """A collection of so many questions, whose labels are those of `HOLDS`."""
    words = WORDS[:queries]
    chunks = {
        f"{word}{place}": f"Sample {place} of {word} {HOLDS.get(place, 'was found in a cave')}."
        for word in words
        for place in range(5)
    }
    nuggets = [
        {"nugget_id": f"{word}_{number}", "query_id": word, "text": fact}
        for word in words
        for number, fact in enumerate(FACTS)
    ]
    judgments = [
        {
            "nugget_id": nugget["nugget_id"],
            "chunk_id": f"{nugget['query_id']}{place}",
            "label": 2 * (HOLDS.get(place) == nugget["text"]),
        }
        for nugget in nuggets
        for place in range(5)
    ]
    return Collection.of(
        queries=[{"query_id": word, "title": f"What does {word} do?"} for word in words],
        nuggets=nuggets,
        judgments=judgments,
        chunks=[{"chunk_id": chunk_id, "text": text} for chunk_id, text in chunks.items()],
        name="minerals",
    )


def run(queries: int = 25) -> Run:
    """The candidates of every question in the order of their places."""
    scores = {word: {f"{word}{n}": 5.0 - n for n in range(5)} for word in WORDS[:queries]}
    return Run.from_scores(scores, name="given")


def order(passages: list[str], *, taught: bool) -> list[int]:
    """The numbers of passages, by one who was taught to put facts first, each once before again.

    One who was not moves the first that holds a fact down by a place.
    """
    holding = [next((fact for fact in FACTS if fact in text), None) for text in passages]
    places = list(range(len(passages)))
    if not taught:
        places[1], places[2] = places[2], places[1]
        return [place + 1 for place in places]
    again = [fact in holding[:place] for place, fact in enumerate(holding)]
    return [n + 1 for n in sorted(places, key=lambda n: (holding[n] is None, again[n], n))]


def ranked(inputs: Any, *, shown: bool) -> Any:
    """The reply of a ranker that is taught by demonstrations."""
    return {"ranking": order([each["text"] for each in inputs["passages"]], taught=shown)}
