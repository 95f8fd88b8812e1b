"""A golden set over the corpus of examples/quickstart, with faults planted in it."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, audit, import_collection
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.recipes.audit import Audit

CORPUS = Path(__file__).parents[2] / "examples/quickstart/corpus/xylochron-bench"
ENCODERS, DEPLOYMENT, RECOVERY = (
    f"docs/{name}.md" for name in ("encoders", "deployment", "recovery")
)


def row(question: str, reference: str, text: str | None, file: str | None, **more: Any) -> Any:
    texts = None if text is None else [text]
    about = {"question": question, "reference": reference, "texts": texts, "file": file, "grade": 1}
    return about | more


SOUND = [
    row("What must proxy_read_timeout be behind nginx?",
        "Longer than ping_interval_s, or the live stream is closed between two pings.",
        "must be longer than `ping_interval_s` (30 s), or the live stream is closed between two pings",
        DEPLOYMENT),
    row("Which direction does an encoder need whose positions fall?", "It is -1 if positions fall.",
        "`1` if positions rise while you measure, `-1` if they fall.", ENCODERS),
    row("How are double rings from a bouncing foot switch avoided?",
        "Raise debounce_ms to 200 or 250 for a worn switch.",
        "presses closer together than this count as one. Raise it to 200 or 250 for a worn switch.",
        ENCODERS),
    row("What does error E02 of the counter mean?",
        "The reading head lost the scale, as the stage was moved faster than 80 mm/s.",
        "reading head lost the scale, the stage was moved faster than 80 mm/s", ENCODERS),
    row("Where does the systemd service keep its state?",
        "In /var/lib/xylochron-bench: journals of sessions and calibration.json.",
        "State is in `/var/lib/xylochron-bench`: the journals of sessions and `calibration.json`.",
        DEPLOYMENT),
    row("Why are the rings of GET /rings the wrong way round?",
        "They have the order of measuring, by default from bark to pith.",
        "`GET /rings` and the journal have the order of *measuring*, by default from bark to pith.",
        RECOVERY),
    row("At which temperature are lengths reported?", "Reduced to 20 °C, with 11.5 µm per metre.",
        "When it is given, lengths are reduced to 20 °C with 11.5 µm per metre and kelvin", ENCODERS),
    row("Which role do screens in the corridor need?", "The role read only.",
        "Screens in the corridor need the role `read` only.", DEPLOYMENT),
    row("How do several benches run on one computer?",
        "One server, one configuration and one state_dir each, on ports 8474 and 8475.",
        "One server, one configuration and one `state_dir` for each bench, on ports 8474, 8475",
        DEPLOYMENT),
    row("What does the start event of a journal hold?", "The order and the last_year.",
        '{"event": "start", "order": "bark_to_pith", "last_year": 2023}', RECOVERY),
]  # fmt: skip
PLANTED = {
    "text gone": row("Are old journals compressed?", "Every night.",
                     "Journals are compressed every night by a cron job.", RECOVERY),
    "text changed": row("What does a worn foot switch need?", "A larger debounce_ms.",
                        "Raise it to 250 or 200 for a worn switch!", ENCODERS),
    "text moved": row("What is the play of a scale on the stage?", "There is none, leave it at 0.",
                      "With a scale on the stage leave it at 0: a value there *makes* errors.",
                      DEPLOYMENT),
    "chunk duplicated": row("Which client of Docker's needs a volume?", "The volume state.",
                            "The device must exist when the container starts", None),
    "near-duplicate question": row("What does the E02 error of the counter mean?", "It lost the scale.",
                                   "reading head lost the scale, the stage was moved faster than 80 mm/s",
                                   ENCODERS),
    "other words": row("My gizmo went kaput during luncheon, whom to ring up?", "Open the session.",
                       "Creating the session again under its name is refused", RECOVERY),
    "missing positive": row("How does the Heyer VRO-2 transmit?",
                            "1000 counts per mm at 9600 baud, parity E, and the encoder on the spindle.",
                            "Back it up.", DEPLOYMENT),
    "wrong id": row("What is recover not?", "A migration.", None, None, chunk_id="bench/a.md_1_2"),
    "wrong path": row("How is a scale mended?", "It is not.", None, "docs/mending.md"),
    "empty expected": row("Is there a mailing list?", "No, there is none.", None, None),
    "grade out of range": row("Who may steal leases?", "The admin.",
                              "`admin` is for the one who may steal leases.", DEPLOYMENT, grade=9),
    "reference answer missing": row("What follows a crash of the server?", "",
                                    "A restarted server knows no sessions", RECOVERY),
    "no question": row("", "Yes.", "Back it up.", DEPLOYMENT),
}  # fmt: skip
ROWS = [*SOUND, *PLANTED.values(), SOUND[0]]  # and a row that is there twice
FOUND = {
    "text gone": "not_in_corpus",
    "text changed": "not_in_corpus",
    "text moved": "moved",
    "chunk duplicated": "several_places",
    "near-duplicate question": "near_duplicate",
    "other words": "other_words",
    "missing positive": "missing_positive",
    "wrong id": "not_in_corpus",
    "wrong path": "not_in_corpus",
    "empty expected": "nothing_expected",
    "grade out of range": "no_label",
    "reference answer missing": "no_answer",
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    shutil.copytree(CORPUS, folder / "bench")
    (folder / "bench/docs/old").mkdir()
    (folder / "bench/docs/old/deploy.md").write_text(
        "# Docker\n\nThe device must exist when the container starts, but only there.\n"
    )
    (folder / "golden.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in ROWS))
    import_collection("golden", folder / "golden.jsonl", folder / "c", corpus=folder / "bench")
    return folder


@pytest.fixture(scope="module")
def audited(golden: Path) -> Audit:
    return audit(golden / "c", index_path=golden / "index")


def kinds(audited: Audit, folder: Path) -> dict[str, set[str]]:
    """Kinds of faults by question."""
    questions = {query.query_id: query.title for query in Collection.load(folder).queries}
    by_question: defaultdict[str, set[str]] = defaultdict(set)
    for fault in audited.faults:
        by_question[questions[fault.query_id]].add(fault.kind)
    return by_question


def test_every_planted_fault_is_found_and_nothing_else(golden: Path, audited: Audit) -> None:
    found = kinds(audited, golden / "c")
    planted = {PLANTED[name]["question"]: {kind} for name, kind in FOUND.items()}
    # These were not planted: the code that measures the lengths says what the page says, so does
    # the code that writes the journal, and nothing is compressed at night.
    also = {SOUND[6]["question"]: {"missing_positive"}, SOUND[9]["question"]: {"missing_positive"}}

    planted[PLANTED["text gone"]["question"]] |= {"other_words"}

    assert audited.rejected == {"no question": 1, "repeated row": 1}
    assert found == planted | also


def test_a_changed_text_is_shown_where_most_of_its_words_are(audited: Audit) -> None:
    gone, changed = (f for f in audited.faults if "text" in f.message[:4])

    assert gone.share is None
    assert "its text is in no file; bench/docs/encoders.md_" in changed.message
    assert "Raise it to 200 or 250" in " ".join(changed.passage.split())


def test_passages_to_look_at_have_the_words_of_the_reference(audited: Audit) -> None:
    passages = {f.chunk_ids[0]: f.passage for f in audited.faults if f.kind == "missing_positive"}

    assert "Heyer VRO-2 | 1000 | 9600 | E |" in next(
        text for id_, text in passages.items() if "encoders.md" in id_
    )


def test_an_audit_says_what_the_questions_can_tell_and_changes_nothing(
    golden: Path, audited: Audit
) -> None:
    before = {path: path.read_bytes() for path in (golden / "c").iterdir()}
    again = audit(golden / "c", index_path=golden / "index")

    assert again == audited
    assert {path: path.read_bytes() for path in (golden / "c").iterdir()} == before
    assert audited.measured == 16
    assert 0.05 < (audited.detectable or 0) < 0.5
    assert (audited.questions_needed or 0) > 16


def test_the_price_of_judging_is_that_of_a_plan(golden: Path, audited: Audit) -> None:
    (golden / "judge.toml").write_text(
        '[model]\nname = "openai/gpt-5-mini"\n[judge]\nscale = "binary"\n'
    )
    priced = audit(golden / "c", golden / "judge.toml", index_path=golden / "index")
    page = page_text(priced.page())

    assert priced.plan is not None
    assert priced.plan.total.cost
    assert priced.pairs == audited.pairs > 100
    assert f"judging the {priced.pairs} pairs" in " ".join(page.split())
    assert "16 questions can tell a difference of" in " ".join(page.split())
