"""Sessions: widths, refusals, undo, recovery, and the turn at export."""

import pytest

from xylochron_bench.session import SessionError, create, replay


@pytest.fixture
def session(tmp_path):
    return create(tmp_path, "EICHE-07", order="bark_to_pith", last_year=2023)


def test_widths_are_differences_of_positions(session):
    assert [session.mark(um) for um in (1200, 2100, 3350)] == [1200, 900, 1250]


def test_export_turns_a_session_from_bark_to_pith_round(session):
    for um in (1200, 2100, 3350):
        session.mark(um)

    assert session.export_widths() == ([1250, 900, 1200], 2021)
    assert session.widths == [1200, 900, 1250]


def test_a_stage_before_the_last_boundary_is_refused(session):
    session.mark(1200)

    with pytest.raises(SessionError, match="set direction = -1") as caught:
        session.mark(1100)
    assert caught.value.code == "negative_width"


def test_a_very_narrow_ring_needs_force(session):
    session.mark(1200)

    with pytest.raises(SessionError, match="narrower than min_ring_um = 30"):
        session.mark(1212)
    assert session.mark(1212, force=True) == 12


def test_undo_takes_back_any_event(session):
    session.mark(1200)
    session.absent()
    session.undo()
    session.undo()

    assert session.widths == []
    with pytest.raises(SessionError, match="the session is empty"):
        session.undo()


def test_a_journal_cut_off_in_its_last_line_is_recovered(session):
    session.mark(1200)
    session.mark(2100)
    with session.path.open("a") as journal:
        journal.write('{"event": "ri')

    again = replay(session.id, session.path)

    assert again.widths == [1200, 900]
    assert again.position == 2100
