"""A judge by DSPy's typed decisions: a label by cuts that optimizers fit, and a probability."""

from pathlib import Path
from typing import Any

import dspy
from dspy.experimental import Score

from freshstack_dspy import Judgment, build
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider


class ScoringJudge(dspy.Module):
    """Asks for the distribution of each pair, as `docs/your-own-step.md` shows it."""

    def __init__(self) -> None:
        super().__init__()
        asks: Any = dspy.Signature(
            "question, nugget, passage -> support", "How far does the passage state the nugget?"
        )
        self.decide: Any = dspy.Predict(
            asks.with_updated_fields(
                "support", type_=Score["not", "partly", "fully"], desc="how far it states it"
            )
        )

    def forward(
        self, query: Any, nuggets: Any, chunks: Any, *, vote: int = 1, step: str = "support"
    ) -> Any:
        judgments = []
        for chunk in chunks:
            for nugget in nuggets:
                said = self.decide(question=query.text, nugget=nugget.text, passage=chunk.text)
                judgments.append(
                    Judgment(
                        query_id=query.query_id,
                        nugget_id=nugget.nugget_id,
                        chunk_id=chunk.chunk_id,
                        label=said.support.level,
                        probability=1 - said.support.probabilities[0],
                        status="ok",
                        reason="",
                        call_id=said.call_id,
                    )
                )
        return dspy.Prediction(judgments=judgments)


def distribution(inputs: Any) -> Any:
    holds = inputs["nugget"].lower() in inputs["passage"].lower()
    probabilities = [0.0, 0.25, 0.75] if holds else [0.75, 0.25, 0.0]
    named = dict(zip("012", probabilities, strict=True))
    return {"support": {"probabilities": named, "confidence": 0.5}}


def test_a_score_judges_a_build_and_its_probability_is_kept(tmp_path: Path) -> None:
    provider = ScriptedProvider(answer=distribution)
    config, programs = domain(tmp_path), {"support_judge": ScoringJudge()}

    made = build(config, provider=provider, programs=programs)

    plain = build(domain(tmp_path / "plain"), provider=ScriptedProvider())
    labels = {(one.nugget_id, one.chunk_id): one.label for one in plain.judgments}
    assert {(one.nugget_id, one.chunk_id): one.label for one in made.judgments} == labels
    assert {(one.label, one.probability) for one in made.judgments} == {(2, 1.0), (0, 0.25)}
    assert all(len(one.call_id or "") == 64 for one in made.judgments)
    assert '"probability":1.0' in (config.out / "judgments.jsonl").read_text()
    again = build(config, mode="replay", replace=True, programs=programs)
    assert again.manifest.content_hash == made.manifest.content_hash
