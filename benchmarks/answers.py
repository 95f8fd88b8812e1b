"""Measure how far each comparer of answers agrees with people (LLM-retEval's third step).

Reads qa-eval's NQ301 from `../shared/data`: answers of models to 301 questions of NQ-open, with a
person's yes or no; gold answers are at hand for 230 of the questions. Intervals are 95 % bootstrap
intervals over questions. GPT-4's verdicts, where they say yes or no, are a yardstick: on all 301
questions, and on those with gold answers. A score is compared with its default threshold, and with
the one that is best on the other half of the questions. With `--embedder FOLDER`, a model of
sentence-transformers, the cosine of its vectors too.

Prints one JSON line a value: {"name", "value", "goal", "holds"}. With `--tiny` of ten questions only.
"""

import csv
import functools
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np

from freshstack_dspy.answering.comparing import COMPARERS
from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.index.models import FolderEmbedder
from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.measures import kappa as measures
from freshstack_dspy.measures.kappa import LabelPair, kappa_interval, table_of
from freshstack_dspy.measures.similarity import SIMILARITIES
from freshstack_dspy.signatures.answers import AgreementGrade

SHARED = (folder / "shared" / "data" for folder in Path(__file__).resolve().parents)
DATA = next((folder for folder in SHARED if folder.is_dir()), Path("shared")) / "qa-eval-nq301"
GOAL = 0.4

Row = dict[str, str]
ByQuestion = dict[str, list[LabelPair]]


def rows(name: str) -> list[Row]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def gold_answers() -> dict[str, list[str]]:
    with gzip.open(DATA / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as file:
        found = map(json.loads, file)
        return {plain(row["question"]): row["answers"] for row in found}


def plain(question: str) -> str:
    return question.lower().strip(" ?")


Scores = dict[str, list[tuple[float, int]]]
"""By question, of each answer the comparer's score and the person's label."""


def scored(people: list[Row], compare: Callable[[str, list[str], str], float]) -> Scores:
    gold = gold_answers()
    found: Scores = defaultdict(list)
    for row in people:
        question, given = row["Question"], row["Model answer"]
        if (references := gold.get(plain(question))) is not None:
            score = compare(question, references, given)
            found[question].append((score, int(row["Acceptable?"] == "Yes")))
    return found


def by_baseline(question: str, references: list[str], given: str) -> float:
    inputs = {
        "question": {"title": question},
        "references": [{"number": n, "text": text} for n, text in enumerate(references, 1)],
        "answer": given,
    }
    return float(reply("CompareAnswers", inputs)["agrees"] == "yes")


def by_grade(question: str, references: list[str], given: str) -> float:
    inputs = {
        "question": {"title": question},
        "references": [{"number": n, "text": text} for n, text in enumerate(references, 1)],
        "answer": given,
    }
    grades: tuple[str, ...] = get_args(AgreementGrade)
    return float(grades.index(reply("GradeAgreement", inputs)["grade"]))


def cosine_of(folder: str) -> Callable[[str, str], float]:
    embedder = FolderEmbedder(EmbedderConfig(name="embedder", path=Path(folder)))

    @functools.cache
    def vector(text: str) -> Any:
        (found,) = embedder.embed_passages([text], lambda _: None)
        return found / (found @ found) ** 0.5

    return lambda one, other: float(vector(one) @ vector(other))


def at(scores: Scores, threshold: float) -> ByQuestion:
    return {
        question: [(int(score >= threshold), person) for score, person in of]
        for question, of in scores.items()
    }


def at_best_of_other_half(scores: Scores) -> tuple[ByQuestion, list[float]]:
    questions = sorted(scores)
    halves = [questions[::2], questions[1::2]]
    verdicts: ByQuestion = {}
    chosen = []
    for tuned, tested in (halves, halves[::-1]):
        known = {question: scores[question] for question in tuned}

        def kappa(threshold: float, known: Scores = known) -> float:
            table = table_of(chain(*at(known, threshold).values()), 2)
            return float(np.nan_to_num(measures.kappa(table)))

        best = max((n / 20 for n in range(1, 21)), key=kappa)
        chosen.append(best)
        verdicts |= at({question: scores[question] for question in tested}, best)
    return verdicts, chosen


def gpt4_verdicts(people: list[Row]) -> ByQuestion:
    said = {(row["Question"], row["Model answer"]): row["Acceptable?"] for row in people}
    pairs: ByQuestion = defaultdict(list)
    for row in rows("NQ301_gpt-4.tsv"):
        verdict, key = row["gpt-4"].strip().lower(), (row["Question"], row["Model answer"])
        if key in said and verdict.startswith(("yes", "no")):
            pairs[key[0]].append((int(verdict.startswith("yes")), int(said[key] == "Yes")))
    return pairs


def report(name: str, value: float | None, goal: float | None = None) -> None:
    holds = goal is None or (value or 0.0) > goal
    shown = "none" if goal is None else f"> {goal}"
    line = {"name": name, "value": round(value or 0.0, 3), "goal": shown, "holds": holds}
    print(json.dumps(line))


def agreement(name: str, pairs: ByQuestion, goal: float | None = None) -> None:
    found = kappa_interval(pairs)
    table = table_of(chain.from_iterable(pairs.values()), 2)
    report(f"{name}: answers", float(table.sum()))
    report(f"{name}: kappa", found.value, goal)
    report(f"{name}: kappa, lower end of 95 %", found.low)
    report(f"{name}: kappa, upper end of 95 %", found.high)
    report(f"{name}: precision", float(np.nan_to_num(measures.precision(table, 1))))
    report(f"{name}: recall", float(np.nan_to_num(measures.recall(table, 1))))


def main() -> None:
    if not DATA.exists():
        print(json.dumps({"skipped": f"{DATA} is absent"}))
        return
    people = rows("NQ301_human.tsv")
    if "--tiny" in sys.argv:
        chosen = sorted({row["Question"] for row in people})[:10]
        people = [row for row in people if row["Question"] in chosen]
    agreement("answers compared by the baseline", at(scored(people, by_baseline), 1), GOAL)
    graded = scored(people, by_grade)
    for grade in (1, 2, 3):
        agreement(f"answers graded by the baseline, from {grade}", at(graded, grade))
    similarities = dict(SIMILARITIES)
    if "--embedder" in sys.argv:
        similarities["embedding"] = cosine_of(sys.argv[sys.argv.index("--embedder") + 1])
    for name, similarity in similarities.items():

        def nearest(_: str, references: list[str], given: str, by: Any = similarity) -> float:
            return max(by(one, given) for one in references)

        scores = scored(people, nearest)
        agreement(f"answers compared by {name}", at(scores, COMPARERS[name]))
        if name != "exact_match":
            verdicts, chosen = at_best_of_other_half(scores)
            report(f"{name}: lower threshold of the two halves", min(chosen))
            report(f"{name}: higher threshold of the two halves", max(chosen))
            agreement(f"answers compared by {name}, threshold of the other half", verdicts)
    gpt4 = gpt4_verdicts(people)
    agreement("answers compared by GPT-4", gpt4)
    known = gold_answers()
    same = {question: of for question, of in gpt4.items() if plain(question) in known}
    agreement("answers compared by GPT-4, questions with gold answers", same)


if __name__ == "__main__":
    main()
