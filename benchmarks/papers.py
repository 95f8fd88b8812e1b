"""Set what the papers of FreshStack, CRUX and LLM-retEval print next to what public data give.

    python benchmarks/papers.py --data DIR [--tiny]

DIR has the downloads of `SOURCES`; what is absent is named, and the rest is measured. Prints the
table of docs/reproduce.md. `--tiny` makes data of the same layouts up, whose numbers mean nothing.
"""

import csv
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from freshstack_dspy import Collection, Run, evaluate
from freshstack_dspy.answering.contexts import RETRIEVAL, Sampling, evaluate_contexts
from freshstack_dspy.collection.collection import import_collection
from freshstack_dspy.collection.retrieve import retrieve
from freshstack_dspy.measures.density import REQUIRED, required_chunks
from freshstack_dspy.measures.kappa import (
    coincidences_of,
    fleiss,
    kappa,
    precision,
    recall,
    table_of,
)
from freshstack_dspy.measures.statistics import bootstrap, kendall_tau
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import Page, Table, Text

SOURCES = {
    "LANCER": "git clone https://github.com/DylanJoo/LANCER (75be2d1)",
    "crux": "git clone -b anonymous https://github.com/DylanJoo/crux (1bd6336)",
    "crux-labeling": "git clone https://github.com/DylanJoo/crux-labeling (a3c6758)",
    "qa-eval": "git clone https://github.com/castorini/qa-eval (3163bec)",
    "fresh-stack.github.io": "git clone https://github.com/fresh-stack/fresh-stack.github.io "
    "(abfdf08)",
    "freshstack": "TOPIC/queries and TOPIC/corpus for langchain, yolo, laravel, angular and godot: "
    "save_to_disk of https://huggingface.co/datasets/freshstack/queries-oct-2024, split test, and "
    "corpus-oct-2024, split train",
}

CRUX_TABLE_1 = """
BM25             44.4 35.7 35.8 61.2 53.4 39.3 35.4 38.2 50.6 60.0
Contriever       52.1 45.2 41.7 70.3 60.5 43.1 36.6 36.6 55.4 58.3
SPLADE-v3        49.0 45.0 41.0 67.7 59.4 45.4 40.4 41.3 60.6 64.3
LR+MMR           45.6 36.7 36.4 65.8 57.2 41.4 35.2 37.9 52.9 58.9
DR+MMR           42.7 35.1 33.8 62.6 53.5 39.0 33.5 36.1 51.3 57.6
LSR+MMR          44.2 35.6 36.5 64.4 56.5 39.2 33.8 37.3 51.6 59.2
LR+miniLM        49.0 42.5 38.4 67.9 57.9 45.3 39.8 41.2 58.2 63.0
DR+miniLM        49.3 42.9 39.9 69.3 59.7 45.1 40.3 40.4 57.8 62.4
LSR+miniLM       49.4 42.6 39.2 69.3 59.2 45.4 40.3 40.6 58.0 62.6
LR+monoT5        50.7 42.4 37.9 66.5 56.7 47.9 40.2 41.6 58.3 64.0
DR+monoT5        53.2 44.7 40.7 70.8 60.0 45.4 40.0 40.9 56.6 62.6
LSR+monoT5       52.8 43.0 41.1 68.9 59.2 44.3 37.7 38.9 55.4 61.5
LR+RankZephyr    51.5 45.9 40.6 69.9 59.5 52.9 47.6 43.9 65.1 67.7
DR+RankZephyr    51.1 48.8 40.6 67.8 59.2 53.6 47.2 44.1 66.0 66.8
LSR+RankZephyr   50.4 45.9 41.2 67.3 60.0 54.4 49.1 45.8 67.0 69.8
LR+RankFirst     52.0 46.2 43.9 70.1 63.4 56.0 49.1 46.4 68.0 69.4
DR+RankFirst     53.8 49.1 44.6 70.9 64.0 54.5 47.6 44.4 66.2 67.4
LSR+RankFirst    53.6 48.2 44.3 70.9 64.0 54.5 48.2 46.0 66.5 69.2
LR+Setwise       49.6 44.2 42.5 67.8 61.9 52.1 44.9 43.2 63.9 65.5
DR+Setwise       56.6 48.4 44.4 74.9 64.4 49.9 43.8 41.0 61.0 62.5
LSR+Setwise      51.9 46.0 43.3 70.1 62.6 52.0 47.0 45.1 65.4 67.8
"""
"""Cov(Z), α-nDCG, Cov(y), Den(Z) and Den(y) on DUC, then the same on Multi-News."""

FRESHSTACK = {
    "langchain": ("203 · 49,514 · 3.1 · 5.7 · 10.9", ".230 · .475 · .261"),
    "yolo": ("57 · 27,207 · 3.5 · 3.9 · 7.4", ".137 · .342 · .337"),
    "laravel": ("184 · 52,351 · 3.0 · 3.2 · 6.0", ".319 · .602 · .441"),
    "angular": ("129 · 117,288 · 3.2 · 4.4 · 8.7", ".259 · .551 · .340"),
    "godot": ("99 · 25,482 · 3.3 · 2.9 · 5.9", ".144 · .268 · .200"),
}
"""Of each topic Table 3, and BM25 in Figure 3."""

MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")
DUC_RUNS = {"bm25": "BM25", "lsr": "SPLADE-v3", "qwen3-embed-8b": "Qwen3-Embedding-8B"}
"""Runs whose first 100 passages were rated -> the name in the paper; it has not the last."""
PAPER_RUNS = {
    "baseline.contriever": ("Contriever", ".521 · .452"),
    "reranking.bm25+monoT5": ("BM25 + monoT5", ".507 · .424"),
    "reranking.contriever+monoT5": ("Contriever + monoT5", ".532 · .447"),
    "reranking.splade+monoT5": ("SPLADE-v3 + monoT5", ".528 · .430"),
}
"""The paper's own runs, nearly all of whose first passages the ratings of the others cover."""


REQUESTS = "LANCER/data/crux-mds-duc04.request.jsonl"
QUESTIONS = "LANCER/results/crux-mds-duc04-subquestions/subquestions.oracle.json"
RUN = "LANCER/data/crux-mds-duc04-runs/{}-crux-mds-duc04.run"
RATINGS = "LANCER/results/crux-mds-duc04-ratings/ratings.oracle.{}.json"
PAPER_RUN = "crux/runs/{}.race-testb.passages.run"
PEOPLE = "crux-labeling/annotations/annotator{}/{}.jsonl"
LEADERBOARD = "fresh-stack.github.io/leaderboard_data.json"
VERDICTS = {"Acceptable?": "qa-eval/data/NQ301_human.tsv", "gpt-4": "qa-eval/data/NQ301_gpt-4.tsv"}
"""By the column that has them."""


class Row(NamedTuple):
    """A number of a paper, and ours."""

    figure: str
    what: str
    paper: str
    obtained: str


def shown(*values: float, digits: int = 3) -> str:
    return " · ".join(f"{value:.{digits}f}".removeprefix("0") for value in values)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


# -- what follows from the printed tables themselves


def crux_printed(_: Path) -> Iterator[Row]:
    """The rank correlations of Table 1 and the means of Table 2, from the rows of Table 1."""
    lines = [line.split() for line in CRUX_TABLE_1.split("\n") if line]
    for data, first, paper in (
        ("DUC", 1, ".676 · .724 · .733"),
        ("Multi-News", 6, ".838 · .800 · .810"),
    ):
        cov, alpha, report, density, dense_report = (
            {line[0]: float(line[first + at]) for line in lines} for at in range(5)
        )
        pairs = (cov, report), (alpha, report), (density, dense_report)
        taus = [kendall_tau(*pair).value or 0.0 for pair in pairs]
        what = f"{data}: Kendall's τ of Cov(Z), α-nDCG and Den(Z), from the rows as printed"
        yield Row("CRUX, Table 1", what, paper, shown(*taus))
        if data == "DUC":
            means = [f"{fmean(of.values()):.1f} ± {stdev(of.values()):.1f}" for of in (cov, report)]
            what = "η = 3: mean Cov(Z) and Cov(y) of these rows (printed under each other's name)"
            yield Row("CRUX, Table 2", what, "50.1 ± 3.5 · 40.4 ± 3.0", " · ".join(means))


def reteval_printed(_: Path, queries: int = 2889) -> Iterator[Row]:
    """Precision and F1 of one gold passage a query, and the correlation, from Recall in Table 1."""
    printed = ((1, 0.498, 0.648, 601), (5, 0.792, 0.767, 395), (10, 0.865, 0.786, 315))
    paper = {1: ".498 · .498", 5: ".158 · .264", 10: ".086 · .157"}
    for k, found, _, _ in printed:
        names = [f"q{number}" for number in range(queries)]
        scores = {
            name: {"gold" if number < round(found * queries) else "other": 1.0}
            | {f"filler {rank}": -float(rank) for rank in range(1, k)}
            for number, name in enumerate(names)
        }
        qrels = {name: {"gold": 1} for name in names}
        means = evaluate(qrels, scores, [f"P@{k}", f"F1@{k}"]).means
        what = f"P@{k} and F1@{k} of one gold passage a query, from Recall@{k} = {shown(found)}"
        yield Row("LLM-retEval, Table 1", what, paper[k], shown(*means.values()))
    phis = [phi(queries, *line[1:]) for line in printed]
    what = "GPT-4, ALL, @1 · @5 · @10: ρ if Table 1's failures were all disagreements"
    yield Row("LLM-retEval, Table 2", what, ".58 · .48 · .44", shown(*phis, digits=2))


def phi(queries: int, recalled: float, agreeing: float, apart: int) -> float:
    """Spearman's ρ of two yes or no, from how often each is yes and how often they differ."""
    one, other = recalled * queries, agreeing * queries
    both = (one + other - apart) / 2
    chance = one * (queries - one) * other * (queries - other)
    return (both * queries - one * other) / sqrt(chance)


# -- CRUX: the ratings that LANCER published, and the labels by people


def crux_contexts(data: Path) -> Iterator[Row]:
    """Contexts of two of the retrievers next to the oracle's, and the required subset."""
    ranked, ratings = duc(data)
    questions = read(data / QUESTIONS)
    requests = json_lines(data / REQUESTS)
    runs = [
        Run.from_scores({q: {p: -r for r, p in enumerate(of)} for q, of in run.items()}, name=name)
        for name, run in ranked.items()
        if name != "qwen3-embed-8b"
    ]
    runs += (read_run((data / PAPER_RUN.format(name)), name) for name in PAPER_RUNS)
    names = DUC_RUNS | {name: what for name, (what, _) in PAPER_RUNS.items()}
    paper = {"bm25": ".444 · .357", "lsr": ".490 · .450", RETRIEVAL: "1.000 · .806"}
    paper |= {name: printed for name, (_, printed) in PAPER_RUNS.items()}
    for own in (True, False):
        collection = Collection.of(
            queries=[{"query_id": one["id"], "title": one["request"]} for one in requests],
            nuggets=[
                {"nugget_id": f"{topic}_{number}", "query_id": topic, "text": text}
                for topic, texts in questions.items()
                for number, text in enumerate(texts)
                if text and text.strip()
            ],
            judgments=[
                {
                    "nugget_id": f"{topic}_{number}",
                    "chunk_id": passage,
                    "label": rating if passage.startswith(f"{topic}:") or not own else 0,
                }
                for topic, passages in ratings.items()
                for passage, of in passages.items()
                for number, rating in enumerate(of)
                if (questions[topic][number] or "").strip()
            ],
            scale="graded_5",
        )
        table = evaluate_contexts(None, collection, runs)
        rated = "passages of the topic" if own else "all rated passages"
        for name, printed in paper.items():
            means = table.values[name].means
            what = f"DUC: {names.get(name, name)}, {rated}"
            yield Row("CRUX, Table 1", what, printed, shown(means["Cov(Z)"], means["alpha_nDCG"]))
        if own:
            yield required(collection)
            yield drawn(collection, runs[:3])


def drawn(collection: Collection, runs: list[Run]) -> Row:
    """Correlate measures over random contexts of the three retrievers, as Figure 5 does."""
    names = ("Cov", "Recall", "AP", "nDCG", "alpha_nDCG")
    table = evaluate_contexts(None, collection, runs, measures=names, sampling=Sampling())
    first, *others = next(iter(table.values.values())).measures
    columns = {
        name: {row: fmean(values.values(name).values()) for row, values in table.values.items()}
        for name in (first, *others)
    }
    taus = [kendall_tau(columns[first], columns[name]).value or 0.0 for name in others]
    what = f"DUC: Kendall's τ of Cov(Z) and Recall, MAP, nDCG, α-nDCG over {len(table.values)} contexts"
    return Row("CRUX, Figure 5", what, ".66 · .64 · .65 · .78", shown(*taus, digits=2))


def read_run(path: Path, name: str) -> Run:
    """Read a run of the paper, whose topics have another split in their ids."""
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").replace("duc04-testb", "duc04-test").splitlines():
        topic, _, passage, _, score, _ = line.split()
        scores[topic][passage] = float(score)
    return Run.from_scores(scores, name=name)


def required(collection: Collection) -> Row:
    labels: Counter[bool] = Counter()
    qrels = collection.qrels()
    for query_id in qrels.nuggets:
        judged = qrels.judged(query_id)
        own = [passage for passage in judged.chunks if passage.startswith(f"{query_id}:")]
        own.sort(key=lambda passage: int(passage.partition("#")[2]))
        labels.update(label == REQUIRED for label in required_chunks(judged, own).values())
    what = "DUC: required and redundant passages, of those that the three runs found"
    return Row("CRUX, Table 4", what, "274 · 1,657", f"{labels[True]:,} · {labels[False]:,}")


Ranked = dict[str, dict[str, list[str]]]
Ratings = dict[str, dict[str, list[int]]]


def duc(data: Path) -> tuple[Ranked, Ratings]:
    """Read the runs, and the ratings of their ranks; of a passage rated twice the first counts."""
    ranked: Ranked = {}
    ratings: Ratings = defaultdict(dict)
    for name in DUC_RUNS:
        by_rank: dict[str, dict[int, str]] = defaultdict(dict)
        for line in (data / RUN.format(name)).read_text(encoding="utf-8").splitlines():
            topic, _, passage, rank, *_ = line.split()
            by_rank[topic][int(rank)] = passage
        ranked[name] = {topic: [of[rank] for rank in sorted(of)] for topic, of in by_rank.items()}
        for topic, rows in read(data / RATINGS.format(name)).items():
            for passage, row in zip(ranked[name][topic], rows, strict=False):
                ratings[topic].setdefault(passage, [max(0, rating) for rating in row])
    return ranked, ratings


def crux_people(data: Path) -> Iterator[Row]:
    """Answerability of the sub-questions by reports (Figure 4), as three people see it."""
    labels = [
        {row["id"]: row["answerability"] for row in json_lines(path)}
        for path in (data / PEOPLE.format(person, "qlabels") for person in (1, 2, 3))
    ]
    items = [
        given
        for report in labels[0]
        for given in zip(*(of[report] for of in labels), strict=True)
        if -2 not in given  # there is no such question
    ]
    agreed = float(fleiss(sum(coincidences_of(given, 1) for given in items)))
    what = f"Fleiss' κ of {len(labels)} people, {len(labels[0])} reports"
    yield Row("CRUX, §4.3", what, ".52", shown(agreed, digits=2))
    coverage: dict[str, list[float]] = defaultdict(list)
    for report, answers in ((r, a) for of in labels for r, a in of.items()):
        context = report.rpartition("_")[0] or "oracle"
        known = [answer for answer in answers if answer != -2]
        coverage[context].append(sum(known) / len(known))
    means = [fmean(coverage[name]) for name in ("oracle", "bm25", "dr_rankfirst")]
    what = "Cov(y) by people: oracle retrieval · BM25 · DR + RankFirst"
    yield Row("CRUX, Figure 4", what, "the first highest", shown(*means))


def crux_grades(data: Path) -> Iterator[Row]:
    """The grades of passages by two people, and by the model where its rating was published."""
    _, ratings = duc(data)
    people, pairs = 0, []
    for path in (data / PEOPLE.format(person, "qrels") for person in (1, 2)):
        for row in json_lines(path):
            topic, passage = (row[key].replace("testb", "test") for key in ("id", "document"))
            topic = topic[topic.index("duc04") :]
            for question, grade in row["relevances"].items():
                people += grade != -1
                if grade != -1 and passage in ratings[topic]:
                    rating = ratings[topic][passage][int(question)]
                    pairs.append((int(rating >= 3), int(grade >= 3)))
    yield Row("CRUX, §A.2", "grades of passages by people", "226", str(people))
    table = table_of(pairs, 2)
    for name, of, paper in (("precision", precision, "above .6"), ("recall", recall, ".4 · high")):
        values = shown(*(float(of(table, label)) for label in (1, 0)), digits=2)
        what = f"{name} of the model's answerable and unanswerable, on {len(pairs)} that have both"
        yield Row("CRUX, §A.2", what, paper, values)


# -- FreshStack, and the comparison of answers


def leaderboard(data: Path) -> Iterator[Row]:
    entries = read(data / LEADERBOARD)["leaderboardData"]
    apart = [
        abs(fmean(of[name] for topic, of in entry["datasets"].items() if topic != "average") - mean)
        for entry in entries
        for name, mean in entry["datasets"]["average"].items()
    ]
    # The printed ones have three decimals, and so have the topics that they are the means of.
    same = sum(difference <= 0.0005 + 1e-9 for difference in apart)
    what = f"averages of {len(entries)} systems that are the means of the topics as shown"
    yield Row("FreshStack, leaderboard", what, "all", f"{same} of {len(apart)}")


def topics(data: Path) -> Iterator[Row]:
    """Table 3, and BM25 as bm25s makes it (theirs is Pyserini's), of the topics that are there."""
    for topic, (statistics, bm25) in FRESHSTACK.items():
        counts = means = "–"
        if (data / "freshstack" / topic).is_dir():
            with tempfile.TemporaryDirectory() as folder:
                source, out = data / "freshstack" / topic, Path(folder) / topic
                collection = import_collection("freshstack", source, out, unknown_ids="drop")
                counts = counted(collection)
                run = retrieve(collection, "bm25", index_path=Path(folder) / "index")
                means = shown(*evaluate(collection, run, MEASURES).means.values())
        yield Row("FreshStack, Table 3", topic, statistics, counts)
        yield Row("FreshStack, Figure 3", topic, bm25, means)


def counted(collection: Collection) -> str:
    qrels = collection.qrels()
    judged = [qrels.judged(query_id) for query_id in qrels.nuggets]
    whole = len(judged), sum(1 for _ in collection.chunks())
    means = (
        fmean(len(one.labels) for one in judged),
        fmean(sum(of.values()) for one in judged for of in one.labels.values()),
        fmean(len(one.supported) for one in judged),
    )
    return " · ".join([*(f"{number:,}" for number in whole), *(f"{mean:.1f}" for mean in means)])


def comparer(data: Path) -> Iterator[Row]:
    """GPT-4's verdicts on short answers against those of people, as far as they say yes or no."""
    said, verdicts = (
        {(row["Question"], row["Model answer"]): row[column] for row in rows(data / name)}
        for column, name in VERDICTS.items()
    )
    pairs = defaultdict(list)
    for key, verdict in verdicts.items():
        word = verdict.strip().lower()
        if key in said and word.startswith(("yes", "no")):
            pairs[key[0]].append((int(word.startswith("yes")), int(said[key] == "Yes")))
    tables = np.stack([table_of(of, 2) for of in pairs.values()])
    found = bootstrap(tables, lambda sums: {"kappa": kappa(sums)})["kappa"]
    what = f"κ of GPT-4 and people on {sum(map(len, pairs.values())):,} answers to NQ-open"
    value, low, high = (shown(end or 0.0, digits=2) for end in (found.value, found.low, found.high))
    yield Row("LLM-retEval, §3.2", what, "highly correlated", f"{value} [{low}, {high}]")


def rows(path: Path) -> Iterable[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


PARTS: list[tuple[Callable[[Path], Iterator[Row]], set[str]]] = [
    (topics, set()),
    (leaderboard, {"fresh-stack.github.io"}),
    (crux_printed, set()),
    (crux_contexts, {"LANCER", "crux"}),
    (crux_people, {"crux-labeling"}),
    (crux_grades, {"LANCER", "crux-labeling"}),
    (reteval_printed, set()),
    (comparer, {"qa-eval"}),
]
"""What is measured, and the downloads that it takes."""


def page_of(data: Path) -> Page:
    absent = [name for name in SOURCES if not (data / name).is_dir()]
    found = chain.from_iterable(part(data) for part, needed in PARTS if not needed & {*absent})
    table = Table(Row._fields, list(found))
    downloads = [Text(f"{name}: {SOURCES[name]}", "item") for name in absent]
    return Page("", (table, *([Text("To download:"), *downloads] if absent else [])))


def made_up(data: Path) -> Path:
    """Write small files in the layouts of the downloads."""
    verdicts = "Question\tModel answer\t{}\nwho\tA\tYes\nwhen\tB\t{}\n"
    nugget = {
        "_id": "1_0",
        "text": "PackedScene saves a scene",
        "relevant_corpus_ids": ["scene.md_0_9"],
        "non_relevant_corpus_ids": ["node.md_0_9"],
    }
    question = {"query_id": "1", "query_title": "How is a scene saved?", "nuggets": [nugget]}
    topic, passages = "duc04-test-0", ("duc04-test-0:0#0", "duc04-test-0:1#1", "news-0:0#0")
    files = {
        REQUESTS: json.dumps({"id": topic, "request": "What happened?"}),
        QUESTIONS: json.dumps({topic: ["Who?", "When?", ""]}),
        LEADERBOARD: '{"leaderboardData": [{"datasets": {"a": {"m": 1}, "average": {"m": 1}}}]}',
        VERDICTS["Acceptable?"]: verdicts.format("Acceptable?", "No"),
        VERDICTS["gpt-4"]: verdicts.format("gpt-4", "Yes."),
        "freshstack/godot/queries.jsonl": json.dumps(question),
        "freshstack/godot/corpus.jsonl": "".join(
            json.dumps({"_id": f"{name}.md_0_9", "text": f"A {name} is saved"}) + "\n"
            for name in ("scene", "node")
        ),
    }
    for name in DUC_RUNS:
        files[RUN.format(name)] = "".join(
            f"{topic} Q0 {passage} {rank} {1 / rank} {name}\n"
            for rank, passage in enumerate(passages, start=1)
        )
        files[RATINGS.format(name)] = json.dumps({topic: [[5, 0, 0], [4, 3, -1], [0, 3, 1]]})
    for name in PAPER_RUNS:
        files[PAPER_RUN.format(name)] = "".join(
            f"duc04-testb-0 Q0 {passage.replace('test', 'testb')} {rank} {1 / rank} {name}\n"
            for rank, passage in enumerate(passages, start=1)
        )
    for person in (1, 2, 3):
        reports = [
            {"id": f"{context}duc04-testb-0", "answerability": [1, int(person > 1), -2]}
            for context in ("", "bm25_", "dr_rankfirst_")
        ]
        grades = {
            "id": "duc04-testb-0",
            "document": "duc04-testb-0:1#1",
            "relevances": {"0": 5, "1": 0, "2": -1},
        }
        files[PEOPLE.format(person, "qlabels")] = "\n".join(map(json.dumps, reports))
        files[PEOPLE.format(person, "qrels")] = json.dumps(grades)
    for name, text in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(text, encoding="utf-8")
    return data


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        if "--tiny" in sys.argv:
            made_up(data)
        elif "--data" in sys.argv:
            data = Path(sys.argv[sys.argv.index("--data") + 1])
        print(page_markdown(page_of(data)))


if __name__ == "__main__":
    main()
