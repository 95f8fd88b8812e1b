"""Measure how far the baseline's comparison of answers agrees with people (LLM-retEval's third step).

Reads qa-eval's NQ301 from `../shared/data`: answers of models to 301 questions of NQ-open, with a
person's yes or no; gold answers are at hand for 230 of the questions. Intervals are 95 % bootstrap
intervals over questions. GPT-4's verdicts on all 301, where they say yes or no, are a yardstick.

Prints one JSON line a value: {"name", "value", "goal", "holds"}. With `--tiny` of ten questions only.
"""

import csv
import gzip
import json
import sys
from collections import defaultdict
from itertools import chain
from pathlib import Path

from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.measures.agreement import LabelPair, class_precision, class_recall, cohen_kappa
from freshstack_dspy.measures.statistics import bootstrap_interval

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


def baseline_verdicts(people: list[Row]) -> ByQuestion:
    gold = gold_answers()
    pairs: ByQuestion = defaultdict(list)
    for row in people:
        if (references := gold.get(plain(row["Question"]))) is None:
            continue
        inputs = {
            "question": {"title": row["Question"]},
            "references": [{"number": n, "text": text} for n, text in enumerate(references, 1)],
            "answer": row["Model answer"],
        }
        agrees = reply("CompareAnswers", inputs)["agrees"] == "yes"
        pairs[row["Question"]].append((int(agrees), int(row["Acceptable?"] == "Yes")))
    return pairs


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
    found = bootstrap_interval(pairs, lambda drawn: cohen_kappa(drawn).value)
    everything = list(chain.from_iterable(pairs.values()))
    report(f"{name}: answers", float(len(everything)))
    report(f"{name}: kappa", found.value, goal)
    report(f"{name}: kappa, lower end of 95 %", found.low)
    report(f"{name}: kappa, upper end of 95 %", found.high)
    report(f"{name}: precision", class_precision(everything, 1).value)
    report(f"{name}: recall", class_recall(everything, 1).value)


def main() -> None:
    if not DATA.exists():
        print(json.dumps({"skipped": f"{DATA} is absent"}))
        return
    people = rows("NQ301_human.tsv")
    if "--tiny" in sys.argv:
        chosen = sorted({row["Question"] for row in people})[:10]
        people = [row for row in people if row["Question"] in chosen]
    agreement("answers compared by the baseline", baseline_verdicts(people), GOAL)
    agreement("answers compared by GPT-4", gpt4_verdicts(people))


if __name__ == "__main__":
    main()
