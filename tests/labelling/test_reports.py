"""Reports on the queries of examples/crux: drawn, labelled through the page's server, compared."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import ModelConfig, load_config, retrieve, sample
from freshstack_dspy.answering.contexts import evaluate_contexts
from freshstack_dspy.calibration.agreement import AgreementReport, agree_on_reports
from freshstack_dspy.calibration.labels import read_labels
from freshstack_dspy.calibration.sampling import read_tasks
from freshstack_dspy.errors import CollectionError, ConfigError, SourceError
from freshstack_dspy.files import encode_records
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.records import ReportLabel
from tests.cli.conftest import Command, freshstack  # noqa: F401  a fixture
from tests.labelling.conftest import Serve
from tests.test_sample import ROOT, rebuilt

Answers = Mapping[tuple[str, str], str]
"""By query and run: 1 or 0 for each of the five answerable sub-questions."""
JUDGE: Answers = {
    ("aldby", "bm25"): "11111",
    ("aldby", "direct prompting"): "11010",
    ("aldby", "oracle result"): "11111",
    ("aldby", "oracle retrieval"): "11101",
    ("tarn", "bm25"): "00000",
    ("tarn", "direct prompting"): "00000",
    ("tarn", "oracle result"): "11010",
    ("tarn", "oracle retrieval"): "01000",
}
ANA: Answers = {
    **JUDGE,
    ("aldby", "direct prompting"): "00000",
    ("tarn", "oracle result"): "11110",
}
BOB: Answers = {**ANA, ("aldby", "bm25"): "01111"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection, and the reports that the baseline writes and rates."""
    path = tmp_path_factory.mktemp("crux")
    collection = rebuilt("crux", path)
    run = retrieve(collection, "bm25", index_path=path / "index")
    config = load_config(ROOT / "examples/crux/build.toml")
    cache = config.cache.model_copy(update={"path": path / "cache", "bundles": ()})
    with open_session(
        config.model_copy(update={"model": ModelConfig(), "cache": cache}), searching=False
    ) as session:
        table = evaluate_contexts(session, collection, [run])
    (path / "reports.jsonl").write_bytes(encode_records(table.reports))
    answers = {
        (report.query_id, report.run_id): "".join(
            str(int((nugget.label or 0) >= report.scale.threshold)) for nugget in report.nuggets
        )
        for report in table.reports
    }
    assert answers == JUDGE
    return path


def tasks_of(folder: Path, **options: Any) -> Path:
    tasks = folder / "tasks.jsonl"
    tasks.unlink(missing_ok=True)
    reports = folder / "reports.jsonl"
    sample(folder / "collection", tasks, "report", answers=reports, **options)
    return tasks


def labelled(serve: Serve, tasks: Path, annotator: str, said: Answers, start: int) -> None:
    """Label all tasks; ten characters from `start` on show an answer."""
    client = serve(tasks, annotator)
    numbers: dict[tuple[str, str | None], int] = {}
    for number, task in enumerate(read_tasks(tasks)[1]):
        report = task.query_id, task.run_id
        place = numbers[report] = numbers.get(report, -1) + 1
        label = int(said[task.query_id, task.run_id or ""][place])
        text = (task.answer or "")[start : start + 10]
        evidence = {"evidence": [(start, start + 10)], "marked": [text]} if label else {}
        sent = [{"kind": "report", "label": label, **evidence}]
        assert client.post(f"/api/tasks/{number}", json=sent).status_code == 200


def test_reports_are_labelled_and_compared_by_hand(
    folder: Path,
    serve: Serve,
    tmp_path: Path,
    freshstack: Command,  # noqa: F811
) -> None:
    """The judge says yes 21 times of 40, ana 19 times, both 18 times; bob 18 times, all with ana."""
    tasks = tasks_of(folder)
    labelled(serve, tasks, "ana", ANA, 0)
    labelled(serve, tasks, "bob", BOB, 5)
    files = [tmp_path / f"labels-{name}.jsonl" for name in ("ana", "bob")]
    collection = folder / "collection"
    alone = agree_on_reports(collection, folder / "reports.jsonl", read_labels(files[0], "report"))
    both = agree_on_reports(collection, folder / "reports.jsonl", read_labels(files, "report"))

    def value(report: AgreementReport, name: str, who: str = "judge") -> float:
        interval = getattr(report.metrics[name], who)
        assert interval.value is not None
        return float(interval.value)

    assert value(alone, "kappa") == pytest.approx((0.9 - 798 / 1600) / (1 - 798 / 1600))
    assert value(both, "kappa", "people") == pytest.approx((0.975 - 0.5025) / (1 - 0.5025))
    assert value(both, "evidence: spans overlap", "people") == 1
    assert value(both, "evidence: F1 of characters", "people") == 0.5
    assert both.metrics["evidence: F1 of characters"].judge is None  # this scale has no quotes
    assert (both.pairs, both.labels, both.shared, both.weighted) == (40, 80, 40, True)
    assert alone.coverage is not None
    assert both.coverage is not None
    # Of 28 pairs of reports judge and ana order 21 alike and 1 differently; 3 and 5 are tied.
    [judge_and_ana] = alone.coverage.correlated
    taus = {
        each.raters: each.correlations["Kendall's tau-b"].value for each in both.coverage.correlated
    }
    assert judge_and_ana.correlations["Kendall's tau-b"].value == pytest.approx(
        20 / (25 * 23) ** 0.5
    )
    assert list(taus) == ["judge and people", "judge and ana", "judge and bob", "people, each two"]
    assert taus["judge and ana"] == judge_and_ana.correlations["Kendall's tau-b"].value
    # The runs' means are .3, .8, .5 and .5 by the judge, and 0, .9, .5 and .45 by people.
    means = [mean for each in both.coverage.runs for mean in (each.judge.value, each.people.value)]
    assert means == pytest.approx([0.5, 0.45, 0.3, 0, 0.8, 0.9, 0.5, 0.5])
    assert both.coverage.over_runs is not None
    assert both.coverage.over_runs.value == pytest.approx(5 / 30**0.5)

    command = ["agree", collection, *files, "--answers", folder / "reports.jsonl"]
    assert "80 labels of kind report: name" in freshstack(*command[:-2]).err
    done = freshstack(*command, "--disagreements", 1)
    assert done.code == 0, done.err
    assert "judge and bob" in done.out
    assert "run 'bm25': judge 1, bob 0" in " ".join(done.out.split())


def test_the_page_shows_a_report_and_not_who_wrote_it(folder: Path, serve: Serve) -> None:
    client = serve(tasks_of(folder))
    shown = client.get("/api/tasks/7").json()

    assert shown["kind"] == "report"
    assert shown["of_report"] == [5, 6, 7, 8, 9]
    assert len(shown["texts"]) == 1
    assert not any(run in json.dumps(shown) for run in ("bm25", "oracle", "prompting"))
    assert client.get("/api/state").json()["grades"]["report"][1]["name"] == "yes"


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ({"label": 1}, "mark the words"),
        ({"label": 1, "evidence": [[0, 3]], "marked": ["xyz"]}, "not 'xyz'"),
        ({"label": 1, "evidence": [[0, 3]]}, "1 places, and marked 0 texts"),
        ({"label": 2}, "less than or equal to 1"),
    ],
)
def test_what_does_not_fit_the_report_is_not_saved(
    folder: Path, serve: Serve, tmp_path: Path, label: dict[str, Any], said: str
) -> None:
    answer = serve(tasks_of(folder)).post("/api/tasks/0", json=[{"kind": "report", **label}])

    assert answer.status_code == 422
    assert said in answer.json()["error"]
    assert not (tmp_path / "labels-ana.jsonl").exists()


def label_of(folder: Path, **fields: Any) -> ReportLabel:
    task = read_tasks(tasks_of(folder))[1][0]
    ids = task.model_dump(include={"query_id", "run_id", "nugget_id"})
    return ReportLabel(**{**ids, "report": task.answer, "label": 0, "annotator": "ana", **fields})


def test_labels_of_other_reports_are_counted_or_refused(folder: Path) -> None:
    known, changed = label_of(folder), label_of(folder, report="Another text.", annotator="bob")
    other = label_of(folder, run_id="another")
    report = agree_on_reports(
        folder / "collection", folder / "reports.jsonl", [known, changed, other]
    )

    assert {why: len(items) for why, items in report.lost.items()} == {
        f"of reports that are not in {folder / 'reports.jsonl'}": 1,
        "of reports that have another text now": 1,
    }
    assert "run 'another'" in page_text(report.page())
    with pytest.raises(CollectionError, match="1 of reports that are not in"):
        agree_on_reports(folder / "collection", folder / "reports.jsonl", [other])


def test_as_many_reports_of_each_run_are_drawn_or_whole_queries(folder: Path) -> None:
    _, drawn = read_tasks(tasks_of(folder, limit=4))
    reports = {(task.query_id, task.run_id) for task in drawn}
    assert Counter(run for _, run in reports) == dict.fromkeys((run for _, run in JUDGE), 1)
    assert {task.probability for task in drawn} == {0.5}
    reports_file, tasks = folder / "reports.jsonl", folder / "tasks.jsonl"
    larger = sample(folder / "collection", tasks, "report", 6, answers=reports_file)
    assert (larger.kept, len(larger.tasks)) == (20, 30)
    _, drawn = read_tasks(tasks_of(folder, limit=1, purpose="runs"))
    assert len({task.query_id for task in drawn}) == 1
    assert len({task.run_id for task in drawn}) == 4


def test_of_many_runs_some_are_drawn_whatever_their_names(folder: Path, tmp_path: Path) -> None:
    report = json.loads((folder / "reports.jsonl").read_text().splitlines()[0])
    runs = [f"bm25#{number:02}" for number in range(1, 49)]
    file = tmp_path / "reports.jsonl"
    file.write_text("".join(json.dumps(report | {"run_id": run}) + "\n" for run in runs))
    sample(folder / "collection", tmp_path / "tasks.jsonl", "report", answers=file)
    _, drawn = read_tasks(tmp_path / "tasks.jsonl")

    assert {(task.stratum, task.probability) for task in drawn} == {("any run", 30 / 48)}
    assert {task.run_id for task in drawn} != set(runs[:30])


def test_reports_that_cannot_be_drawn_are_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--out"):
        sample(folder / "collection", tmp_path / "tasks.jsonl", "report")
    file = tmp_path / "reports.jsonl"
    for line, error, said in (
        ({"query_id": "none", "run_id": "a", "text": "b"}, CollectionError, "no query 'none'"),
        ({"query_id": "tarn", "run_id": "a", "text": "b"}, SourceError, "has no 'nuggets'"),
    ):
        file.write_text(json.dumps(line) + "\n")
        with pytest.raises(error, match=said):
            sample(folder / "collection", tmp_path / "tasks.jsonl", "report", answers=file)
