"""Prompt tokens of judging a collection again in every shape: nothing is sent, prompts are counted.

    python benchmarks/judging.py COLLECTION [QUERIES] | --tiny

COLLECTION is the folder of any collection that a build wrote; QUERIES, how many of its queries to
count, evenly spread; all by default. Tokens are those of cl100k_base in the whole prompt: the
instructions, the reply's schema, question, nuggets and chunks. Reply tokens are expected: 49 for the
verdict on a chunk; on the scale support 44 for each pair that supports, as many as the collection
has, for grade and quotes, and on the graded scales 14 for each nugget. `--tiny` builds the sample of the
quickstart for it.

Prints one JSON line for each shape and scale: calls, prompt and expected reply tokens of the mean
query, and the prompt tokens as a multiple of those of batches of 20 on the same scale.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, load_config
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.programs.support_judge import SupportJudge, judge_inputs, whole
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.judge import (
    JudgeCall,
    ToJudge,
    judge_calls,
    passage_tokens,
    prompt_tokens,
)

ROOT = Path(__file__).resolve().parent.parent
SHAPES: tuple[dict[str, Any], ...] = (
    {"shape": "batch", "batch": 20},
    {"shape": "batch", "batch": 10},
    {"shape": "batch", "batch": 5},
    {"shape": "batch", "batch": 1},
    {"shape": "windowed", "window": 10},
    {"shape": "windowed", "window": 3},
    {"shape": "pairwise"},
)


def spread(pairs: list[Any], most: int) -> list[Any]:
    """Take every n-th, so that there are at most so many."""
    every = -(-len(pairs) // most) or 1
    return pairs[(every - 1) // 2 :: every]


def settings(judge: dict[str, Any]) -> BuildConfig:
    """A configuration that differs from the default in how it judges."""
    return BuildConfig.model_validate(
        {
            "name": "judging",
            "out": Path("out"),
            "queries": {"path": "questions.jsonl"},
            "corpus": [{"name": "corpus", "path": "corpus"}],
            "judge": judge,
        }
    )


def pairs_of(collection: Collection, most: int | None) -> list[ToJudge]:
    """What the collection's judge was to judge."""
    chunk_ids: dict[str, list[str]] = {}
    for candidate in collection.pool:
        chunk_ids.setdefault(candidate.query_id, []).append(candidate.chunk_id)
    wanted = {candidate.chunk_id for candidate in collection.pool}
    chunks = {chunk.chunk_id: chunk for chunk in collection.chunks() if chunk.chunk_id in wanted}
    pairs = [
        ToJudge(
            query,
            [nugget for nugget in collection.nuggets if nugget.query_id == query.query_id],
            [chunks[chunk_id] for chunk_id in chunk_ids[query.query_id]],
        )
        for query in collection.queries
        if query.query_id in chunk_ids
    ]
    return spread(pairs, most or len(pairs))


class Counter:
    """Counts prompts from their parts, each counted once."""

    def __init__(self, config: BuildConfig, judge: SupportJudge) -> None:
        self._config = config
        self._judge = judge
        self._chunks: dict[str, int] = {}

    def of(self, call: JudgeCall) -> int:
        """Tokens of a call's prompt; where parts meet, a few more than the whole has."""
        frame = judge_inputs(call.query, call.nuggets, [])
        return prompt_tokens(self._config.model, self._judge.predict, frame) + sum(
            self._of_chunk(passage.chunk.chunk_id, passage.path, passage.text)
            for passage in call.passages
        )

    def _of_chunk(self, chunk_id: str, path: str, text: str) -> int:
        if chunk_id not in self._chunks:
            # Without the brackets of a list, which the frame has.
            self._chunks[chunk_id] = passage_tokens(path, text) - count_tokens("[\n]")
        return self._chunks[chunk_id]


def row(
    judge_section: dict[str, Any], pairs: Sequence[ToJudge], supported: float
) -> dict[str, Any]:
    """Count one way to judge; `supported` is the share of pairs that are support."""
    config = settings(judge_section)
    judge = SupportJudge(config.judge.scale)
    calls = judge_calls(config, judge, pairs)
    counter = Counter(config, judge)
    grade = {"binary": 0, "support": 44 * supported}.get(config.judge.scale, 14)
    replies = sum(len(call.passages) * (49 + grade * len(call.nuggets)) for call in calls)
    return {
        **judge_section,
        "scale": config.judge.scale,
        "calls": round(len(calls) / len(pairs), 1),
        "prompt_tokens": round(sum(map(counter.of, calls)) / len(pairs)),
        "reply_tokens": round(replies / len(pairs)),
    }


def check(pairs: Sequence[ToJudge]) -> float:
    """The largest relative difference between a sum of parts and the whole prompt, on some calls."""
    config = settings({})
    judge = SupportJudge()
    counter = Counter(config, judge)
    differences = []
    for pair in spread(pairs, 20):
        passages = [whole(chunk) for chunk in pair.chunks[:20]]
        call = JudgeCall(pair.query, pair.nuggets, passages)
        inputs = judge_inputs(call.query, call.nuggets, passages)
        exact = prompt_tokens(config.model, judge.predict, inputs)
        differences.append(abs(counter.of(call) - exact) / exact)
    return max(differences)


def main() -> None:
    """Print the table."""
    if sys.argv[1] == "--tiny":
        with tempfile.TemporaryDirectory() as scratch:
            config = load_config(ROOT / "examples/quickstart/build.toml")
            table(build(config.model_copy(update={"out": Path(scratch) / "c"}), mode="replay"), 3)
    else:
        table(Collection.load(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)


def table(collection: Collection, queries: int | None) -> None:
    """Count every shape and scale."""
    pairs = pairs_of(collection, queries)
    print(
        json.dumps(
            {
                "collection": collection.name,
                "queries": len(pairs),
                "nuggets": round(sum(len(pair.nuggets) for pair in pairs) / len(pairs), 2),
                "chunks": round(sum(len(pair.chunks) for pair in pairs) / len(pairs), 2),
                "counting_error": round(check(pairs), 5),
            }
        )
    )
    supported = collection.manifest.counts.supported / collection.manifest.counts.judgments
    for scale in ("binary", "support", "graded_3", "graded_5"):
        shapes = SHAPES if scale == "binary" else (SHAPES[0], SHAPES[-1])
        rows = [row({**shape, "scale": scale}, pairs, supported) for shape in shapes]
        for each in rows:
            times = each["prompt_tokens"] / rows[0]["prompt_tokens"]
            print(json.dumps({**each, "times_batch": round(times, 2)}), flush=True)


if __name__ == "__main__":
    main()
