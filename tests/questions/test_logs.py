"""Questions from logs and traces: read, masked, merged, weighted and sampled.

Files below `logs/` were written by the tools themselves on made-up questions: OpenTelemetry SDK 1.45
with its OTLP JSON file exporter (`gen_ai.otlp.jsonl`; with OpenInference 0.1 `openinference…` and
`console.jsonl`, with Langfuse 5.0 `langfuse.otlp.jsonl`), Langfuse's own records of its API
(`langfuse_observations.jsonl`), and a Phoenix 20 server, asked by its client (`phoenix*`). The rows
below in this file are by hand, by the tools' documentation.
"""

import hashlib
import json
import random
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.measures.statistics import mean_interval, weighted_mean
from freshstack_dspy.questions.logs import (
    AskedQuestion,
    LogReading,
    answers_of,
    read_log,
    sample_questions,
)
from freshstack_dspy.questions.masking import Masking
from freshstack_dspy.questions.reading import query_files, read_queries

LOGS = Path(__file__).parent / "logs"


def log_of(rows: list[dict[str, Any]], **keys: Any) -> LogReading:
    return read_log(QueriesConfig(source="log", rows=rows, **keys))


def asked(reading: LogReading) -> dict[str, float]:
    return {question.text: question.times for question in reading.questions}


# Forms


@pytest.mark.parametrize(
    ("file", "questions", "retrieval"),
    [
        (
            "gen_ai.otlp.jsonl",
            {"How do I undo the last commit?": 2, "Why is my push rejected? Write to [email]": 1},
            "sure",
        ),
        *(
            (file, {"How do I rename a branch?": 1, "What is rebase?": 1}, "few results")
            for file in ("openinference.otlp.jsonl", "console.jsonl")
        ),
        ("langfuse.otlp.jsonl", {"How do I squash commits?": 2}, "sure"),
        (
            "langfuse_observations.jsonl",
            {"How do I squash commits?": 2, "What is a detached HEAD?": 1},
            "sure",
        ),
        *(
            (file, {"how do I rename a branch": 2, "What is rebase? Ask [email]": 1}, "sure")
            for file in ("phoenix.csv", "phoenix.jsonl", "phoenix_spans.jsonl", "phoenix.parquet")
        ),
    ],
)
def test_exports_of_the_tools(file: str, questions: dict[str, float], retrieval: str) -> None:
    reading = read_log(QueriesConfig(source="log", path=LOGS / file), answers=True)
    assert reading.kind == "traces"
    assert asked(reading) == questions
    first = next(each for each in reading.questions if each.text == next(iter(questions)))
    assert first.retrieval == retrieval
    assert first.answer.lower().startswith(("use git", "git "))
    if len(questions) == 2 and file != "gen_ai.otlp.jsonl":
        assert "no results" in {each.retrieval for each in reading.questions}


MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "First question?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "text", "text": "And then rebase?"}]},
]
LANGCHAIN = {"messages": [{"type": "human", "content": "How to chain?"}]}


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("Undo it?", "Undo it?"),
        ('{"question": "How to parse?"}', "How to parse?"),
        ({"kwargs": {"query": "Which one works?"}, "args": []}, "Which one works?"),
        ({"args": ["Which one works?"]}, "Which one works?"),
        (MESSAGES, "And then rebase?"),
        (json.dumps(LANGCHAIN), "How to chain?"),
        ({"input": {"messages": MESSAGES}}, "And then rebase?"),
        (MESSAGES[:1], None),
    ],
)
@pytest.mark.parametrize(
    "row",
    [
        lambda value: {"id": "t", "timestamp": "2026-11-01 10:00:00", "input": value, "output": ""},
        lambda value: {"id": "o", "trace_id": "t", "type": "SPAN", "input": value},
        lambda value: {"trace": {"id": "t", "input": value, "output": ""}, "observations": []},
        lambda value: {
            "context": {"trace_id": "t", "span_id": "s"},
            "attributes": {"input": {"value": value}},
        },
    ],
)
def test_inputs_in_all_their_forms(row: Any, value: Any, question: str | None) -> None:
    """By hand: what frameworks record as an input, in exports of Langfuse and of nested spans."""
    rows = [row(value), {**row("Another question here"), "trace_id": "u", "id": "u"}]
    if "context" in rows[1]:
        rows[1]["context"] = {"trace_id": "u"}
        del rows[1]["trace_id"], rows[1]["id"]
    if "trace" in rows[1]:
        rows[1]["trace"] = {**rows[1]["trace"], "id": "u"}
    reading = log_of(rows)
    if question is None:
        assert reading.rejected == {"no message of a user": 1}
    else:
        assert question in asked(reading)


def test_a_question_of_a_trace_is_that_of_its_root_and_no_prompt() -> None:
    def span(kind: str, value: Any, start: str, parent: str | None = "root") -> dict[str, Any]:
        return {
            "context": {"trace_id": "t", "span_id": kind},
            "parent_id": parent,
            "span_kind": kind,
            "start_time": start,
            "attributes": {"input.value": value} if value else {},
        }

    prompt = span("LLM", "Answer from the context. Question: undo a commit", "1")
    search, tool = span("RETRIEVER", "undo commit git", "3"), span("TOOL", "rm the branch", "0")
    chain = span("CHAIN", "How do I undo a commit?", "2")
    root = span("", None, "0", None)  # a span of a web server has no input
    for spans, expected in (
        ([prompt, tool, search, chain, root], "How do I undo a commit?"),
        ([prompt, search, root], "undo commit git"),
        ([prompt, tool, root], "Answer from the context. Question: undo a commit"),
        ([prompt, span("CHAIN", "The root's question", "9", None)], "The root's question"),
    ):
        assert [*asked(log_of(spans))] == [expected]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_table_of_searches(tmp_path: Path, ending: str) -> None:
    names = ["Search Query", "count", "Results", "clicks", "user id"]
    cells: list[list[Any]] = [
        ["reset password", 3, 10, 2, "a"],
        ["Reset password?", 1, 10, 1, "b"],
        ["reset the password", 1, 10, 1, "b"],  # the same, by the same user
        ["export a report to pdf", 2, 10, 0, "c"],
        ["delete my account", 1, 0, 0, "d"],
        ["invite people", 1, 2, 1, "e"],
        ["", 1, 10, 1, "f"],
        ["…!", 1, 10, 1, "f"],
    ]
    path = tmp_path / f"log.{ending}"
    if ending == "jsonl":
        rows = [json.dumps(dict(zip(names, row, strict=True))) for row in cells]
    else:
        mark = {"csv": ",", "tsv": "\t"}[ending]
        rows = [mark.join(map(str, row)) for row in (names, *cells)]
    path.write_text("\n".join(rows))
    config = QueriesConfig(source="log", path=path)
    reading = read_log(config)
    assert {each.text: (each.times, each.retrieval) for each in reading.questions} == {
        "reset password": (4, "sure"),
        "export a report to pdf": (2, "no click"),
        "delete my account": (1, "no results"),
        "invite people": (1, "few results"),
    }
    assert reading.rejected == {
        "asked again in the same session": 1,
        "no question": 1,
        "no word to search for": 1,
        "the same question as another": 1,
    }
    assert reading.askings == len(cells) == len(reading.questions) + sum(reading.rejected.values())
    queries = read_queries(config, answered=False).queries
    assert {query.title: query.weight for query in queries} == asked(reading)
    assert {query.fields["retrieval"] for query in queries} >= {"sure", "no click"}
    assert query_files(config) == [path]


def test_a_column_of_scores_tells_close_ones() -> None:
    rows = [
        {"query": f"topic number {word}", "scores": [1.0, 1.0 - gap]}
        for word, gap in zip(
            ("alpha", "beta", "gamma", "delta"), (0.5, 0.01, 0.4, 0.3), strict=True
        )
    ]
    rows.append({"query": "nothing is known of this"})
    retrieval = {each.text.split()[-1]: each.retrieval for each in log_of(rows).questions}
    assert retrieval == {
        "alpha": "sure",
        "beta": "close scores",
        "gamma": "sure",
        "delta": "sure",
        "this": None,
    }


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        ("when,what\n1,2\n", {}, r"log.csv.*no column is called as a query is.*'when', 'what'"),
        ("query,count\na thing,many\n", {}, r"log.csv:2: count is 'many'; allowed: a number"),
        ("query,count\na thing,1e308\n", {}, r"log.csv:2: count is '1e308'; allowed: a number"),
        ("query,count\na thing,1\na thing,0\n", {}, r"log.csv:3: count is '0'; allowed: a number"),
        ("query,time\na thing,soon\n", {}, r"log.csv:2: time is 'soon'; allowed: an ISO 8601"),
        ("query\n?\n", {}, r"none of its rows is a question \(1 no word"),
        ("query\n", {}, "holds no row"),
        ("query\nx y\n", {"columns": {"clicks": "hits"}}, "clicks = 'hits'; there are 'query'"),
        ("query\nx y\n", {"mask": {"mine": "("}}, "no regular expression"),
        ("query\nx y\n", {"mask": {"mine": False}}, "no rule 'mine' to turn off"),
        ("query\nx y\n", {"limit": 3}, "source log has no key limit; allowed here: .*sample"),
        ("query\nx y\n", {"columns": {"answer": "x"}}, "columns: answer is no part"),
        ("query,time\na b,99999999999999999999\n", {}, "log.csv:2: time is .*allowed: an ISO 8601"),
        ("query,count\na b,jo@example.com\n", {}, r"log.csv:2: count is '\[email\]'"),
        ("jo@example.com\na b\n", {}, r"there are '\[email\]'"),
    ],
)
def test_wrong_input(tmp_path: Path, content: str, keys: dict[str, Any], message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(content)
    with pytest.raises((ConfigError, SourceError, ValueError), match=message):
        read_log(QueriesConfig(source="log", path=path, **keys))


def test_langfuse_tables_by_hand(tmp_path: Path) -> None:
    """Names of its blob export and of its tables: JSON within cells, both kinds of names."""
    path = tmp_path / "observations.csv"
    path.write_text(
        "id,traceId,type,parentObservationId,startTime,input,output,sessionId\n"
        'a,t,SPAN,,2026-11-01T10:00:00Z,"{""question"": ""How to squash commits?""}",x,s\n'
        'b,t,RETRIEVER,a,2026-11-01T10:00:01Z,squash,"[{""score"": 0.9}, {""score"": 0.1}]",s\n'
    )
    (question,) = read_log(QueriesConfig(source="log", path=path)).questions
    assert (question.text, question.retrieval) == ("How to squash commits?", "few results")
    (tmp_path / "chat.csv").write_text("input,output\nHow to rebase?,So.\nHow to merge?,So.\n")
    reading = read_log(QueriesConfig(source="log", path=tmp_path / "chat.csv"))
    assert (reading.kind, len(reading.questions)) == ("searches", 2)


def test_masking_that_is_off_is_part_of_a_configuration() -> None:
    config = QueriesConfig(source="log", rows=[{"query": "x"}], mask=False)
    assert config.model_dump()["mask"] is False
    assert "mask" not in QueriesConfig(source="log", rows=[{"query": "x"}]).model_dump()


def test_traces_end_where_something_else_begins(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text((LOGS / "console.jsonl").read_text() + '{"query": "other"}\n')
    with pytest.raises(SourceError, match=r"log.jsonl:7: no trace, as the first rows are"):
        read_log(QueriesConfig(source="log", path=path))


def test_searches_end_where_traces_begin(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query\na thing\n")
    (tmp_path / "b.jsonl").write_text('{"trace_id": "t", "input": "a question", "output": "x"}\n')
    with pytest.raises(SourceError, match=r"b.jsonl:1: a trace, and the first rows are searches"):
        read_log(QueriesConfig(source="log", path=tmp_path))


@pytest.mark.parametrize(
    "value",
    [{"intValue": "x"}, {"arrayValue": None}, {"kvlistValue": {"values": ["x"]}}],
)
def test_a_value_that_is_none_of_otlp_is_named(value: Any) -> None:
    span = {"traceId": "t", "attributes": [{"key": "input.value", "value": value}]}
    row = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    with pytest.raises(SourceError, match="allowed: an AnyValue of OTLP"):
        log_of([row])


def test_what_is_too_long_deep_or_late_to_read() -> None:
    def trace(name: str, text: str) -> dict[str, str]:
        return {"trace_id": name, "input": text, "output": "", "start_time": "9" * 30}

    deep = "[" * 10_000 + "]" * 10_000
    reading = log_of([trace("1", deep), trace("2", "a question"), trace("3", "x@" * 500_000)])
    assert asked(reading) == {"a question": 1}
    assert reading.rejected == {"longer than 4,000 characters": 2}
    assert [q.retrieval for q in log_of([{"query": "a b", "scores": deep}]).questions] == [None]


def test_a_log_has_no_accepted_answers() -> None:
    config = QueriesConfig(source="log", rows=[{"query": "a thing"}])
    with pytest.raises(SourceError, match='recipe = "nuggets"'):
        read_queries(config)


def test_answers_are_kept_apart_and_masked() -> None:
    row = {"id": "t", "input": "Who can help me?", "output": "Ask jane@example.com."}
    config = QueriesConfig(source="log", rows=[{**row, "timestamp": ""}])
    (query,) = read_queries(config, answered=False).queries
    assert query.answer == ""
    written = json.loads(answers_of(read_log(config, answers=True)))
    assert written == {"query_id": query.query_id, "text": "Ask [email]."}


# One for each question


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("How do I undo a commit?", "how do i undo commits", True),
        ("is it safe to rebase", "is it not safe to rebase", False),
        ("convert csv to json", "convert json to csv", False),
        ("sort a list in C", "sort a list in C++", False),
        ("upgrade to 3.9", "upgrade to 3.10", False),
        ("write to a@example.com", "write to b@example.org", True),
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa",
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda",
            True,
        ),
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa 3",
            "alpha beta gamma delta epsilon zeta eta theta iota kappa 4",
            False,
        ),
        (
            "beta alpha gamma delta epsilon zeta eta theta iota kappa",
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda",
            False,
        ),
    ],
)
def test_what_is_one_question(first: str, second: str, merged: bool) -> None:
    reading = log_of([{"query": first}, {"query": second}, {"query": second}])
    assert len(reading.questions) == 2 - merged
    assert sum(asked(reading).values()) == 3
    if merged and first != second and "@" not in first:
        texts = {reading.questions[0].text, *reading.questions[0].others}
        assert texts == {first, second}  # what was merged is listed


def test_what_is_no_question() -> None:
    texts = ["You are a helpful assistant. Be brief.", "word " * 1000, " \n", "?", "…"]
    reading = log_of([{"query": text} for text in (*texts, "a real question")])
    assert reading.rejected == {
        "a system prompt": 1,
        "longer than 4,000 characters": 1,
        "no question": 1,
        "no word to search for": 2,
    }


def test_times_and_retired_ids() -> None:
    rows: list[dict[str, Any]] = [
        {"query": "old question", "time": 1_700_000_000},
        {"query": "new question", "time": "2026-11-01T10:00:00Z"},
        {"query": "undated question", "time": None},
        {"query": "retired question", "time": 1_793_000_000_000},
    ]
    retired = log_of(rows[3:]).questions[0].query_id
    reading = log_of(rows, since="2026-01-01", retired=(retired,))
    assert [*asked(reading)] == ["new question"]
    assert reading.rejected == {
        "before since": 1,
        "no date to compare with since and until": 1,
        "retired": 1,
    }


# Masking


MASKED = {
    "email": ("mail jane.doe@example.com please", "mail [email] please"),
    "phone": (
        "+49 30 1234567 or (212) 555-0134, tel. 030 123456",
        "[phone] or [phone], tel. [phone]",
    ),
    "ipv4": ("from 93.184.216.34", "from [ipv4]"),
    "ipv6": ("ssh 2a00:1450:4001:81b::200e fails", "ssh [ipv6] fails"),
    "iban": ("DE89 3704 0044 0532 0130 00", "[iban]"),
    "card": ("4111 1111 1111 1111 declined", "[card] declined"),
    "api_key": ("sk-proj-abc123def456ghi789jkl", "[api_key]"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "[jwt]"),
    "private_key": ("-----BEGIN RSA PRIVATE KEY-----\nabc", "[private_key]"),
    "secret": (
        "password=hunter2!x ok, Bearer abc123def456ghi7",
        "password=[secret] ok, Bearer [secret]",
    ),
    "url_login": ("postgres://bob:s3cret@db/x", "postgres://[url_login]@db/x"),
    "url_token": ("https://x.io/a?token=abcdef123&b=1", "https://x.io/a?token=[url_token]&b=1"),
    "user_folder": (
        r"/home/jane/x C:\Users\Jo\a",
        r"/home/[user_folder]/x C:\Users\[user_folder]\a",
    ),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "[uuid]"),
}


@pytest.mark.parametrize("rule", MASKED)
def test_each_rule(rule: str) -> None:
    text, expected = MASKED[rule]
    masked, counts = Masking({})(text)
    assert (masked, [*dict(counts)]) == (expected, [rule])
    assert Masking({rule: False})(text)[0] != expected
    assert Masking(False)(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AKIAIOSFODNN7EXAMPLE is not valid", "[api_key] is not valid"),
        ("Bearer abcdefghijklmnopqrstuvwxyz1", "Bearer [secret]"),
        ("gsk_abcdefghij0123456789", "[api_key]"),
        ("redis://:s3cret@cache:6379", "redis://[url_login]@cache:6379"),
        ("BOT_TOKEN=110201543:AAHdqTcvCH1vGWJxfSeof", "BOT_TOKEN=[secret]"),
        ("api key: abcdef1234567890", "api key: [secret]"),
        ("jürgen@müller.de", "[email]"),
        (r"C:\Users\Jane Doe\x.py", r"C:\Users\[user_folder]\x.py"),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK----- ok",
            "[private_key] ok",
        ),
    ],
)
def test_forms_of_a_secret(text: str, expected: str) -> None:
    assert Masking({})(text)[0] == expected


@pytest.mark.parametrize(
    "piece", ["sk-", "password=", "a.", "1.", "a1@", "aaa+", "bearer ", "token="]
)
def test_masking_takes_time_in_proportion_to_a_text(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    begun = time.process_time()
    Masking({})(text)
    assert time.process_time() - begun < 5  # with backtracking: minutes


@pytest.mark.parametrize(
    "text",
    [
        "numpy 1.2.3.4 and Chrome 120.0.6099.129",
        "git checkout 3f786850e387550fdab836ed7e6dc881de23001b",
        "md5 d41d8cd98f00b204e9800998ecf8427e",
        "2023-01-31 12:00:05",
        "connect to 127.0.0.1:8000, 192.168.1.1 or ::1",
        "std::vector<int>::iterator",
        "1234567890123456 as bigint, 9007199254740993",
        "pip install x==10.20.30.40",
        "@decorator def f(self)",
        "token = get_token()",
        "aa:bb:cc:dd:ee:ff",
        "np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])",
        "clone git@github.com:me/x.git",
        "password: the field is empty",
        "bearer token authentication",
        "https://docs.x.io/page?version=1.2.3",
        "5 24 19 41 22 22 19 17  8 13 33 10 17 29 12  9 11 24",  # numbers that pass Luhn's formula
        "1935 6 22 106\n172 285 1935    1935    6\n334 415 1204    1204",
        "a basic taxonomy of organs/sub-organs, a basic 2-dimensional plot",
    ],
)
def test_code_is_not_masked(text: str) -> None:
    assert Masking({})(text) == (text, ())


def test_rules_of_ones_own_and_the_count() -> None:
    rows = [{"query": "ticket TCK-12 of a@example.com"}] * 2 + [{"query": "plain words"}]
    reading = log_of(rows, mask={"ticket": r"TCK-\d+"})
    assert asked(reading) == {"ticket [ticket] of [email]": 2, "plain words": 1}
    assert {rule: each.places for rule, each in reading.masked.items()} == {"email": 2, "ticket": 2}
    assert reading.masked["email"].examples == ("ticket [ticket] of [email]",)


# Sampling


def population(size: int) -> list[AskedQuestion]:
    """Questions with the long tail of logs; retrieval is unsure for a fifth."""
    return [
        AskedQuestion(
            query_id=hashlib.sha256(str(n).encode()).hexdigest()[:16],
            text=str(n),
            times=max(1, round(300 / (n + 1))),
            retrieval="no click" if n % 5 == 0 else "sure",
        )
        for n in range(size)
    ]


def test_a_sample_estimates_the_mean_per_question_asked() -> None:
    """The weighted mean is unbiased, its intervals cover it, and the plain mean is far off."""
    questions = population(1500)
    generator = random.Random(0)
    values = {
        each.query_id: min(
            1.0,
            max(
                0.0,
                generator.gauss(0.4, 0.2)
                + 0.1 * (each.times > 3)
                - 0.25 * (each.retrieval != "sure"),
            ),
        )
        for each in questions
    }
    truth = weighted_mean(values, {each.query_id: each.times for each in questions})
    means, plain, covered, rounds = [], [], 0, 150
    drawn_times = dict.fromkeys(values, 0)
    for seed in range(rounds):
        sample = sample_questions(questions, 120, seed)
        assert len(sample) == 120
        own = {each.query_id: values[each.query_id] for each in sample}
        weights = {each.query_id: each.times / each.probability for each in sample}
        means.append(weighted_mean(own, weights))
        plain.append(fmean(own.values()))
        interval = mean_interval(own, 200, weights)
        covered += (interval.low or 0) <= truth <= (interval.high or 0)
        for each in sample:
            drawn_times[each.query_id] += 1
    error = (sum((mean - truth) ** 2 for mean in means) / rounds) ** 0.5
    assert abs(fmean(means) - truth) < 3 * error / rounds**0.5
    assert abs(fmean(plain) - truth) > error
    assert covered / rounds > 0.9
    # How often each is drawn is its probability.
    by_id = {
        each.query_id: each for seed in range(20) for each in sample_questions(questions, 120, seed)
    }
    often = [id_ for id_, each in by_id.items() if each.probability > 0.3]
    assert all(abs(drawn_times[id_] / rounds - by_id[id_].probability) < 0.12 for id_ in often)


def test_a_sample_holds_more_where_retrieval_was_unsure_and_stays_as_the_log_grows() -> None:
    questions = population(1500)
    sample = sample_questions(questions, 100)
    unsure = [each for each in sample if each.retrieval == "no click"]
    asked_unsure = sum(each.times for each in questions if each.retrieval == "no click")
    share = asked_unsure / sum(each.times for each in questions)
    assert len(unsure) == round(100 * 2 * share / (1 + share))
    assert sample_questions(questions, 100) == sample
    grown = sample_questions(population(1800), 100)
    stay = {each.query_id for each in sample} & {each.query_id for each in grown}
    assert len(stay) > 80
    assert len({each.query_id for each in sample_questions(questions, 100, 1)} - stay) > 30


@pytest.mark.parametrize("number", [1, 2, 7, 8, 9, None])
def test_samples_of_few_questions(number: int | None) -> None:
    questions = population(8)
    sample = sample_questions(questions, number)
    assert len(sample) == min(number or 8, 8)
    if number is None or number >= 8:
        assert {each.probability for each in sample} == {1.0}
    if number == 2:
        assert len({each.retrieval for each in sample}) == 2
