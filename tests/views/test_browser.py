"""The report in a real browser, without a network: it fits, opens, and has no fault of access."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import report
from freshstack_dspy.collection.collection import write_collection
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE
from tests.labelling.test_browser import CHROMIUM

from .test_report import BAD, GOOD

AXE = os.environ.get("AXE", "")
"""Where axe.min.js of the npm package axe-core is."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium"),
]


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The report, opened on a telephone that is offline."""
    sync_api = pytest.importorskip("playwright.sync_api")
    made = write_collection(tmp_path / "small", CONTENTS, CHUNKS, PROVENANCE)
    report(made, {"good": GOOD, "bad": BAD}).save(tmp_path / "report.html")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": 390, "height": 844},
            color_scheme=request.param,
            offline=True,
            bypass_csp=bool(AXE),
        )
        page = context.new_page()
        page.goto((tmp_path / "report.html").as_uri())
        yield page
        browser.close()


def test_it_fits_a_telephone_and_a_link_opens_the_evidence(page: Any) -> None:
    link = page.locator("a[href='#12']").first
    evidence = page.locator("[id='12']")
    hidden = evidence.is_visible()
    link.focus()
    page.keyboard.press("Enter")

    assert not hidden
    assert evidence.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.skipif(not AXE, reason="the variable AXE does not say where axe.min.js is")
def test_axe_finds_no_fault(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate(Path(AXE).read_text())

    found = page.evaluate("axe.run()")

    assert [one["id"] for one in found["violations"]] == []
    assert len(found["passes"]) > 20
