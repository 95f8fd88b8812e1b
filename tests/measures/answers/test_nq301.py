"""GPT-4 and people on the same 1,490 answers to 301 questions of NQ-open: how far they agree."""

import csv
import json
from collections import defaultdict
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

from freshstack_dspy.collection.answers import read_agreement
from freshstack_dspy.measures.agreement import cohen_kappa, exact_match
from freshstack_dspy.measures.answers import agrees_with_any, score_agreement
from freshstack_dspy.measures.statistics import bootstrap_interval

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "qa-eval-nq301"
YES_OR_NO = {"Yes": True, "No": False}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no folder {FOLDER}")


def rows_of(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def first_word(said: str) -> bool | None:
    """GPT-4 was asked for Yes or No first; what begins otherwise decides nothing."""
    return YES_OR_NO.get(said.split(maxsplit=1)[0].strip(".,"))


def test_gpt_4_and_people_agree_beyond_chance(tmp_path: Path) -> None:
    people, judge = rows_of("NQ301_human.tsv"), rows_of("NQ301_gpt-4.tsv")
    path = tmp_path / "agreement.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, (human, gpt) in enumerate(zip(people, judge, strict=True)):
            assert human["id"] == gpt["id"]
            if human["Model answer"] != gpt["Model answer"]:
                continue  # of one row the two files hold different answers
            said = first_word(gpt["gpt-4"])
            query = f"{human['id']}/{number}"
            for run, agrees, reason in (
                ("people", YES_OR_NO[human["Acceptable?"]], ""),
                ("gpt-4", said, gpt["gpt-4"]),
            ):
                row = {"run_id": run, "query_id": query, "agrees": agrees, "reason": reason}
                file.write(json.dumps(row) + "\n")

    compared = read_agreement([path])
    gpt_4, by_people = score_agreement(compared).runs

    assert by_people.means["agreement"].value == 816 / 1489
    assert gpt_4.counts == {"agree": 762, "disagree": 717, "undecided": 10}
    assert gpt_4.means["agreement"].value == pytest.approx(762 / 1479)

    verdicts = {(each.run, each.query_id): agrees_with_any(each.agrees) for each in compared}
    groups: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for (run, query), said in verdicts.items():
        if run == "gpt-4" and said is not None:
            groups[query.split("/")[0]].append((int(said), int(verdicts["people", query] or 0)))
    pairs = [pair for group in groups.values() for pair in group]
    kappa = bootstrap_interval(groups, lambda some: cohen_kappa(some).value, resamples=200)

    assert len(pairs) == 1479
    assert exact_match(pairs).value == pytest.approx(0.8485, abs=5e-5)
    assert kappa.value == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))
    assert kappa.value == pytest.approx(0.6962, abs=5e-5)
    assert kappa.value is not None
    assert kappa.low is not None
    assert kappa.high is not None
    assert 0.6 < kappa.low < kappa.value < kappa.high < 0.8
