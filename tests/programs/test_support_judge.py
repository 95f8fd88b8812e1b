"""The judge: labels by its verdicts, chunks that it left out asked about again and never guessed."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy import Chunk, Judgment, ModelConfig, Nugget, ReplyStore, SupportJudge, connect
from freshstack_dspy.config import Mode
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.shown_chunks import ChunkPart, evidence, whole
from freshstack_dspy.errors import DeferredError, ReplyError
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.programs.support_judge import moved
from freshstack_dspy.records import SourceFile, Vote
from tests.recipes.scripted import Inputs, Said, ScriptedProvider, judge, judge_level

from .conftest import QUERY

NUGGETS = [
    Nugget(nugget_id=f"n{number}", query_id="q7", text=text, call_id="c")
    for number, text in enumerate(("red", "green"))
]
CHUNKS = [
    Chunk(
        chunk_id=f"c{number}", source="s", path="p", start_byte=0, end_byte=1, text=text, tokens=1
    )
    for number, text in enumerate(("red", "green", "red green", "blue", "green too"), 1)
]
LABELS = {"c1": (2, 0), "c2": (0, 2), "c3": (2, 2), "c4": (0, 0), "c5": (0, 2)}
"""2 if each chunk holds the text of each nugget."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    store = ReplyStore(tmp_path / "cache")
    yield store
    store.close()


def lm_to(
    store: ReplyStore, provider: ScriptedProvider | None, mode: Mode = "live", reasks: int = 2
) -> RecordedLM:
    model = ModelConfig(name="openai/scripted", reasks=reasks, retries=0)
    return connect(model, mode=mode, store=store, provider=provider, failed=mode == "rerecord")


def ask(lm: RecordedLM, program: SupportJudge | None = None) -> Any:
    with dspy.context(lm=lm):
        return (program or SupportJudge())(QUERY, NUGGETS, CHUNKS)


def numbers(inputs: Inputs) -> list[int]:
    return [chunk["number"] for chunk in inputs["chunks"]]


def inputs_of(reply: Any) -> Inputs:
    inputs: Inputs = json.loads(reply.request.messages[1].content)
    return inputs


def only(*rounds: set[int]) -> ScriptedProvider:
    """Says the truth of these chunks in its first reply, of these in the second, and so on."""
    left = list(rounds)

    def answer(inputs: Inputs) -> Any:
        kept = left.pop(0)
        return {"verdicts": [one for one in judge(inputs)["verdicts"] if one["chunk"] in kept]}

    return ScriptedProvider(JudgeSupportLevel=answer)


def labels(judgments: tuple[Judgment, ...]) -> dict[str, tuple[int | None, ...]]:
    found: dict[str, tuple[int | None, ...]] = {}
    for one in judgments:
        found[one.chunk_id] = (*found.get(one.chunk_id, ()), one.label)
    return found


def account(lm: RecordedLM) -> tuple[int, int, int]:
    entered = lm.ledger.steps()["other"]
    return entered.calls, entered.cached, entered.reasked


def test_only_the_chunks_that_were_left_out_are_asked_about_again(store: ReplyStore) -> None:
    provider = only({1, 2, 4}, {5}, {3})
    lm = lm_to(store, provider)

    judged = ask(lm)

    assert [numbers(inputs) for inputs in provider.asked] == [[1, 2, 3, 4, 5], [3, 5], [3]]
    first, *others = provider.asked
    for inputs in others:
        assert inputs["question"] == first["question"]
        assert inputs["nuggets"] == first["nuggets"]
        assert [chunk["text"] for chunk in inputs["chunks"]] == [
            CHUNKS[number - 1].text for number in numbers(inputs)
        ]
    assert labels(judged.judgments) == LABELS
    assert judged.failure is None
    assert [one.chunk_id for one in judged.judgments[::2]] == ["c1", "c2", "c3", "c4", "c5"]
    assert account(lm) == (3, 0, 2)
    for one in judged.judgments:
        reply = store.get(one.call_id)
        assert reply is not None
        assert reply.status == "ok"
        assert int(one.chunk_id[1:]) in {
            verdict["chunk"] for verdict in json.loads(reply.text)["verdicts"]
        }
    replay = lm_to(store, None, "replay")
    assert ask(replay).judgments == judged.judgments
    assert account(replay) == (0, 3, 2)


def test_a_targeted_re_ask_is_the_question_about_these_chunks_and_nothing_else(
    store: ReplyStore, tmp_path: Path
) -> None:
    """Its key then depends neither on the reply before it nor on the wording of faults.

    It can be deferred, and gone on with.
    """
    ask(lm_to(store, only({1, 2, 4}, {3, 5})))
    whole, targeted = sorted(store.replies(), key=lambda reply: -len(numbers(inputs_of(reply))))

    assert [numbers(inputs_of(reply)) for reply in (whole, targeted)] == [[1, 2, 3, 4, 5], [3, 5]]
    assert [message.role for message in targeted.request.messages] == ["system", "user"]
    assert targeted.request.messages[0] == whole.request.messages[0]
    sampling = [{**reply.request.parameters, "response_format": 0} for reply in (whole, targeted)]
    assert sampling[0] == sampling[1]
    assert whole.reasked_as is None, "it was not sent back"

    with closing(ReplyStore(tmp_path / "later")) as later:
        later.put(whole)
        for _ in range(2):
            with pytest.raises(DeferredError):
                ask(lm_to(later, None, "defer"))
        assert [waiting.key for waiting in later.deferred()] == [targeted.key]
        later.put(targeted)
        assert labels(ask(lm_to(later, None, "defer")).judgments) == LABELS


@pytest.mark.parametrize("reasks", [0, 2])
def test_chunks_that_every_reply_leaves_out_have_no_label_and_the_others_keep_theirs(
    store: ReplyStore, reasks: int
) -> None:
    provider = only({1, 2}, {4}, {5}, {3})
    lm = lm_to(store, provider, reasks=reasks)
    judged = ask(lm)
    left_out = [["c3", "c4", "c5"], ["c3", "c5"], ["c3"]][reasks]

    assert provider.calls["JudgeSupportLevel"] == reasks + 1
    assert labels(judged.judgments) == LABELS | dict.fromkeys(left_out, (None, None))
    failed = [one for one in judged.judgments if one.status != "ok"]
    assert {one.chunk_id for one in failed} == set(left_out)
    assert {one.status for one in failed} == {"unparsed"}
    assert list(judged.failure.chunk_ids) == left_out
    assert (judged.failure.step, judged.failure.status) == ("support", "unparsed")
    shown = ", ".join(chunk_id[1:] for chunk_id in left_out)
    assert judged.failure.message == (
        f"nothing is said of chunks {shown}: left out of {reasks + 1} replies; "
        "raise [model] reasks to ask again for them alone"
    )
    assert {one.call_id for one in failed} == {judged.failure.call_id}
    assert ask(lm_to(store, None, "replay", reasks=reasks)).judgments == judged.judgments
    healed = ask(lm_to(store, ScriptedProvider(), "rerecord", reasks=reasks))
    assert labels(healed.judgments) == LABELS


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Said("no", "content_filter"), "refused"),
        (Said('{"verdicts": [', "length"), "truncated"),
        (Said("Well, it depends."), "unparsed"),
        (ReplyError("refused the request", status="failed", call_id=None), "failed"),
    ],
)
def test_where_the_targeted_re_ask_fails_its_chunks_fail_with_it(
    store: ReplyStore, said: Any, status: str
) -> None:
    def answer(inputs: Inputs) -> Any:
        if len(inputs["chunks"]) < len(CHUNKS):
            return said
        return {"verdicts": judge(inputs)["verdicts"][:2]}

    provider = ScriptedProvider(JudgeSupportLevel=answer)
    judged = ask(lm_to(store, provider))
    healed = ScriptedProvider()

    assert labels(judged.judgments) == LABELS | dict.fromkeys(["c3", "c4", "c5"], (None, None))
    assert {one.status for one in judged.judgments} == {"ok", status}
    assert (judged.failure.status, judged.failure.chunk_ids) == (status, ("c3", "c4", "c5"))
    calls = {"unparsed": 4, "truncated": 3}
    assert provider.calls["JudgeSupportLevel"] == calls.get(status, 2)
    dead_end = store.get(judged.failure.call_id)
    assert dead_end is not None
    assert dead_end.status == status
    assert ask(lm_to(store, None, "replay")).judgments == judged.judgments
    assert labels(ask(lm_to(store, healed, "rerecord")).judgments) == LABELS
    halves = [[3], [4, 5]] if status == "truncated" else [[3, 4, 5]]
    assert [numbers(inputs) for inputs in healed.asked] == halves


def test_an_invalid_reply_is_sent_back_whole_and_what_its_correction_leaves_out_is_targeted(
    store: ReplyStore,
) -> None:
    replies: list[Any] = [
        {"verdicts": []},
        {"verdicts": [{"chunk": 9, "reason": "r", "supported": []}]},
    ]

    def answer(inputs: Inputs) -> Any:
        if replies:
            return replies.pop(0)
        return {"verdicts": judge(inputs)["verdicts"][:3]}

    provider = ScriptedProvider(JudgeSupportLevel=answer)
    lm = lm_to(store, provider)
    judged = ask(lm)

    assert [numbers(inputs) for inputs in provider.asked] == [[1, 2, 3, 4, 5]] * 3 + [[4, 5]]
    assert labels(judged.judgments) == LABELS
    assert account(lm) == (4, 0, 3)
    statuses = sorted(reply.status for reply in store.replies())
    assert statuses == ["ok", "ok", "unparsed", "unparsed"]


def test_an_invalid_verdict_is_sent_back_alone_and_the_others_are_kept(store: ReplyStore) -> None:
    """A contradiction, words that are not there, and a chunk that was left out."""

    def answer(inputs: Inputs) -> Any:
        said: Any = judge_level(inputs)["verdicts"]
        if len(inputs["chunks"]) == len(CHUNKS):
            said[2]["supported"][0]["quotes"] = ["crimson"]
            said += [{**said[0], "supported": []}]
            del said[4]
        return {"verdicts": said}

    provider = ScriptedProvider(JudgeSupportLevel=answer)
    lm = lm_to(store, provider)
    judged = ask(lm)
    first, second = sorted(store.replies(), key=lambda reply: len(reply.request.messages))
    *_, sent_back, told = second.request.messages

    assert [numbers(inputs) for inputs in provider.asked] == [[1, 2, 3, 4, 5], [1, 3, 5]]
    assert labels(judged.judgments) == LABELS
    assert judged.failure is None
    assert [one["chunk"] for one in json.loads(sent_back.content)["verdicts"]] == [1, 1, 3]
    assert "more than one verdict for chunk [1]" in told.content
    assert 'chunk 3 does not have the words "crimson"' in told.content
    assert (first.status, second.status) == ("ok", "ok")
    assert account(lm) == (2, 0, 1)
    assert ask(lm_to(store, None, "replay")).judgments == judged.judgments


def test_after_a_truncated_reply_half_as_many_chunks_are_asked_about(store: ReplyStore) -> None:
    def answer(inputs: Inputs) -> Any:
        return judge(inputs) if len(inputs["chunks"]) < 3 else Said('{"verdicts": [', "length")

    provider = ScriptedProvider(JudgeSupportLevel=answer)
    judged = ask(lm_to(store, provider))

    halved = [[1, 2, 3, 4, 5], [1, 2], [3, 4, 5], [3], [4, 5]]
    assert [numbers(inputs) for inputs in provider.asked] == halved
    assert labels(judged.judgments) == LABELS
    for mode in ("replay", "live"):
        lm = lm_to(store, None, mode)
        assert ask(lm).judgments == judged.judgments
        assert account(lm)[:2] == (0, 5), "nothing is paid twice"


@pytest.mark.parametrize(("reasks", "calls"), [(0, 1), (5, 3)])
def test_a_judge_whose_every_reply_is_truncated_is_not_asked_for_ever(
    store: ReplyStore, reasks: int, calls: int
) -> None:
    provider = ScriptedProvider(JudgeSupportLevel=lambda _: Said('{"verdicts": [', "length"))
    with pytest.raises(ReplyError, match="truncated"):
        ask(lm_to(store, provider, reasks=reasks))

    assert provider.calls["JudgeSupportLevel"] == calls


def test_a_targeted_reply_about_other_chunks_is_invalid(store: ReplyStore) -> None:
    """It would overwrite verdicts that came with the first reply."""

    def answer(inputs: Inputs) -> Any:
        said = judge(inputs)["verdicts"]
        if len(inputs["chunks"]) == len(CHUNKS):
            return {"verdicts": said[:4]}
        return {"verdicts": [*said, {"chunk": 1, "reason": "changed my mind", "supported": []}]}

    judged = ask(lm_to(store, ScriptedProvider(JudgeSupportLevel=answer), reasks=1))

    assert labels(judged.judgments) == LABELS | {"c5": (None, None)}
    assert judged.failure.message.endswith("last: verdicts: there is no chunk [1]")


def test_demonstrations_sample_number_and_new_instructions_go_with_the_targeted_re_ask(
    store: ReplyStore,
) -> None:
    program = SupportJudge()
    demo = {"question": {"title": "?"}, "nuggets": [{"number": 1, "text": "a"}]}
    demo |= {"chunks": [{"number": 1, "path": "p", "text": "a"}]}
    demo |= {"verdicts": [{"chunk": 1, "reason": "r", "supported": [1]}]}
    program.predict.demos = [demo]
    program.predict.signature = program.predict.signature.with_instructions("Judge mildly.")
    program.predict.signature.__name__ = "JudgeSupportLevel"
    lm = lm_to(store, only({1, 2, 3}, {4, 5})).copy(rollout_id=3)

    assert labels(ask(lm, program).judgments) == LABELS
    for reply in store.replies():
        assert reply.request.sample == 3
        assert [message.role for message in reply.request.messages] == [
            "system",
            "user",
            "assistant",
            "user",
        ]
        assert reply.request.messages[0].content.startswith("Judge mildly.\n")


def words(data: bytes, encoding: str, spans: Any) -> list[str]:
    return [data[start:end].decode(encoding) for start, end in spans]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "cp1252"])
def test_evidence_is_a_place_in_the_bytes_of_the_file(encoding: str, mark: str) -> None:
    mark = mark if encoding.startswith("utf") else ""
    lines = [f"Zähler {number} läuft.\r\n\r\n" for number in range(60)]
    data = (mark + "\n\n" + "".join(lines)).encode(encoding)
    file = SourceFile("lib", "a.txt", data, encoding=encoding)
    chunks = chunk_file(file, 64)
    assert len(chunks) > 2

    for chunk in chunks:
        quotes = [line.strip() for line in lines if line in chunk.text]
        assert quotes
        for quote in quotes:
            found = evidence([quote, "läuft nicht"], whole(chunk))
            assert words(data, encoding, found) == [quote]


def test_evidence_from_a_part_or_below_a_title_is_where_it_is_in_the_file() -> None:
    text = "\n \nOne. Two. One. Two.\n"
    chunk = CHUNKS[0].model_copy(
        update={"text": text, "start_byte": 7, "end_byte": 7 + len(text), "title": "One title"}
    )
    data = b"before." + text.encode()
    start = text.index("One. Two.\n")
    part = ChunkPart(chunk, start, start + 10, 2, 2)

    assert words(data, "utf-8", evidence(["Two."], part)) == ["Two."]
    assert evidence(["Two."], part) == ((7 + text.rindex("Two."), 7 + text.rindex("Two.") + 4),)
    assert evidence(["One. Two."], whole(chunk)) == ((10, 19),)
    assert evidence(["One title"], whole(chunk)) == (), "a title is not in the file"


def test_the_evidence_of_a_text_that_is_elsewhere_now_goes_with_it() -> None:
    old = CHUNKS[2].model_copy(update={"end_byte": 9})
    new = old.model_copy(
        update={"chunk_id": "n", "text": "\nred  green", "start_byte": 100, "end_byte": 111}
    )
    judgment = Judgment(
        query_id="q7", nugget_id="n0", chunk_id="c3", label=2, status="ok", reason="", call_id=None,
        evidence=((0, 3), (4, 9)),
        votes=(Vote(vote=1, label=2, status="ok", reason="", call_id=None, evidence=((4, 9),)),),
    )  # fmt: skip

    assert moved(judgment, old, old) == judgment
    found = moved(judgment, old, new)
    assert (found.chunk_id, found.evidence) == ("n", ((101, 104), (106, 111)))
    assert found.votes[0].evidence == ((106, 111),)


def test_a_label_whose_words_are_wrong_to_the_last_is_kept_without_evidence(
    store: ReplyStore,
) -> None:
    wrong = {1: ["crimson"], 3: ["crimson", "red"]}

    def answer(inputs: Inputs) -> Any:
        said: Any = judge_level(inputs)
        for verdict in said["verdicts"]:
            if verdict["chunk"] in wrong:
                verdict["supported"][0]["quotes"] = wrong[verdict["chunk"]]
        return said

    chunks = [one.model_copy(update={"end_byte": len(one.text)}) for one in CHUNKS]
    provider = ScriptedProvider(JudgeSupportLevel=answer)
    with dspy.context(lm=lm_to(store, provider)):
        judged: Any = SupportJudge()(QUERY, NUGGETS, chunks)

    assert provider.calls["JudgeSupportLevel"] == 3
    assert labels(judged.judgments) == LABELS
    found = {one.chunk_id: one.evidence for one in judged.judgments if one.nugget_id == "n0"}
    assert found == {"c1": (), "c2": (), "c3": ((0, 3),), "c4": (), "c5": ()}
