"""The page in a real browser, opened from a file: sort, filter, open a submission and a pair, by mouse and keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leaderboard.board import Board
from leaderboard.site.page import write_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"desk": (1280, 900), "phone": (360, 740)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        pytest.fail("the site is tested in Chromium, which is not installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        # The sandbox of Chromium does not work for the superuser of a container; the page is our own.
        browser = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(board: Board, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(dataset.parent))
        return write_site(board, tmp_path_factory.mktemp("site")).as_uri()


@pytest.fixture(params=sorted(SIZES))
def page(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """The page at one size; afterwards it must have logged nothing and asked for nothing."""
    width, height = SIZES[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(10_000)
    logged: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert logged == []
    assert {url.partition("#")[0] for url in asked if not url.startswith("data:")} == {address}


def _names(page: Page) -> list[str]:
    return page.locator(".board.open tr[data-name]:visible .name a").all_inner_texts()


def _fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_the_table_sorts_within_its_groups_and_says_so(page: Page) -> None:
    assert _names(page) == ["good", "twin", "poor", "tenth", "uniform", "oracle"]
    head = page.locator(".board.open thead th")
    assert head.nth(0).get_attribute("aria-sort") == "ascending"
    name = head.nth(1)
    name.get_by_role("button").click()
    assert name.get_attribute("aria-sort") == "ascending" and head.nth(0).get_attribute("aria-sort") is None
    assert _names(page) == ["good", "poor", "tenth", "twin", "oracle", "uniform"]
    name.get_by_role("button").click()
    assert name.get_attribute("aria-sort") == "descending"
    assert _names(page) == ["twin", "tenth", "poor", "good", "uniform", "oracle"]
    rps = page.locator(".board.open thead th", has=page.get_by_role("button", name="rps", exact=True))
    rps.get_by_role("button").focus()
    page.keyboard.press("Enter")
    column = [float(t.split()[0]) for t in page.locator(".board.open tbody[data-group=competitors] tr").evaluate_all(
        "(rows, i) => rows.map((row) => row.children[i].innerText)", page.locator(".board.open thead th").evaluate_all(
            "(heads) => heads.findIndex((head) => head.hasAttribute('aria-sort'))"))]  # fmt: skip
    assert rps.get_attribute("aria-sort") == "ascending" and column == sorted(column) and len(column) == 4
    rank = page.locator(".board.open thead th").nth(0)
    rank.get_by_role("button").click()
    assert _names(page)[-3] == "tenth"  # a row without a rank stays last, whichever way
    rank.get_by_role("button").click()
    assert _names(page)[-3] == "tenth"
    assert _fits(page)


def test_filters_by_track_split_information_and_name(page: Page) -> None:
    status = page.get_by_role("status").first
    assert page.locator(".board.open").get_attribute("data-track") == "pairs"
    page.get_by_role("radio", name="pool").check(force=True)
    page.get_by_role("radio", name="test unseen task").check(force=True)
    board = page.locator(".board.open")
    assert (board.get_attribute("data-track"), board.get_attribute("data-split")) == ("pool", "test_unseen_task")
    page.get_by_label("Information").select_option("compiled")
    assert _names(page) == ["poor"] and status.inner_text() == "1 of 6 submissions shown"
    page.get_by_label("Information").select_option("")
    page.get_by_label("rows for scale").uncheck()
    assert _names(page) == ["good", "twin", "poor", "tenth"]
    page.get_by_label("Name", exact=True).fill("TW")
    assert _names(page) == ["twin"]
    page.get_by_label("Name", exact=True).fill("nobody")
    assert _names(page) == [] and status.inner_text() == "0 of 6 submissions shown"
    page.get_by_label("95% intervals").uncheck()
    page.get_by_label("Name", exact=True).fill("")
    assert page.locator(".board.open td small:visible").count() == 0


def test_a_submission_opens_with_its_figures_and_leads_back(page: Page) -> None:
    page.locator(".board.open a", has_text="good").click()
    heading = page.get_by_role("heading", level=1, name="good")
    assert heading.is_visible() and heading.evaluate("(h) => h === document.activeElement")
    assert page.title() == "good · KernelCast leaderboard"
    view = page.locator(".view.open")
    assert view.locator("figure svg:visible").count() == 12  # three figures for two tracks and two splits
    for figure in view.locator("figure").all():
        assert str(figure.get_by_role("img").get_attribute("aria-label")).count(":") >= 2
    for closed in view.locator("summary").all():
        closed.click()
    assert view.locator("caption:visible").count() >= 4 * 4
    assert _fits(page)
    page.get_by_role("navigation").get_by_role("link", name="Leaderboard").click()
    assert page.locator("#table").is_visible() and not heading.is_visible()
    page.go_back()
    assert heading.is_visible()


def test_a_pair_opens_with_its_sources_difference_and_forecasts(page: Page) -> None:
    page.get_by_role("navigation").get_by_role("link", name="Kernels").click()
    rows = page.locator("#pair-list tbody tr")

    def select(name: str) -> Locator:
        return page.locator("#kernels").get_by_role("combobox", name=name)

    rows.first.wait_for()
    assert rows.count() == 50
    page.get_by_role("button", name="Show more").click()
    assert rows.count() > 50
    select("Outcome").select_option("failed")
    assert all("failed: " in text for text in rows.all_inner_texts())
    select("Outcome").select_option("discovery")
    select("Order").select_option("fast")
    speeds = [float(text) for text in page.locator("#pair-list tbody td:nth-child(4)").all_inner_texts()]
    assert speeds == sorted(speeds, reverse=True) and min(speeds) > 2**0.5
    select("Forecast of").select_option("oracle")
    assert all(float(t.rstrip("%")) > 90 for t in page.locator("#pair-list td:nth-child(6)").all_inner_texts())
    assert _fits(page)
    first = rows.first.locator("a")
    pair = first.inner_text()
    first.click()
    page.locator("#pair-view .stats").wait_for()
    assert page.get_by_role("heading", level=1).filter(visible=True).inner_text() == f"Pair {pair}"
    assert page.locator("#pair-view .num-big").first.inner_text() == f"{speeds[0]:.3f}"
    assert page.locator("#pair-view ins").count() + page.locator("#pair-view del").count() > 0
    assert page.locator("#pair-view .bins .truth").count() == 8
    table = page.get_by_role("table").filter(has_text="All forecasts of this pair")
    assert table.locator("tbody tr").count() == 6
    page.get_by_text("Child, whole").click()
    assert "def custom_kernel(data):" in page.get_by_label("Child", exact=True).inner_text()
    assert _fits(page)


def test_the_difference_rebuilds_both_sources(page: Page) -> None:
    rebuilt = page.evaluate(
        """(minus) => {
          const texts = ["a\\nb\\nc\\nd", "b\\nc\\nx\\nd", "", "a", "a\\nb\\nc\\nd\\ne\\nf\\ng\\nh\\ni\\nj\\nk\\nz"];
          const fold = folding;
          folding = (lines) => lines;
          const wrong = [];
          for (const before of texts) for (const after of texts) {
            const lines = difference(before, after);
            const side = (mark) => lines.filter((l) => l[0] === " " || l[0] === mark).map((l) => l[1]).join("\\n");
            if (side(minus) !== before || side("+") !== after) wrong.push([before, after]);
          }
          folding = fold;
          return wrong;
        }""",
        "\N{MINUS SIGN}",
    )
    assert rebuilt == []


def test_an_unknown_pair_and_an_unknown_view_are_no_dead_end(page: Page, address: str) -> None:
    page.goto(f"{address}#pair-none")
    assert page.get_by_text("There is no such pair").is_visible()
    page.goto(f"{address}#nowhere")
    assert page.locator("#table").is_visible()


def test_colours_follow_the_system_and_the_button(page: Page) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    page.emulate_media(color_scheme="dark")
    dark = background()
    assert dark != light
    button = page.get_by_role("button", name="Theme:")
    button.click()
    assert background() == light and button.inner_text() == "Theme: light"
    button.click()
    page.emulate_media(color_scheme="light")
    assert background() == dark
    page.reload()
    assert background() == dark


def test_everything_that_can_be_used_has_a_name_and_can_be_reached_by_keyboard(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, a[href], input, select, [role=region], table")]
          .filter((e) => e.checkVisibility())
          .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.caption))
          .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    assert page.evaluate("[...document.querySelectorAll('.scroll')].every((e) => e.tabIndex === 0)")
    assert page.evaluate("[...document.querySelectorAll('table')].every((t) => t.caption && t.caption.textContent)")


def test_without_scripts_every_table_and_submission_can_be_read(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator(".board:visible").count() == 4
    assert page.get_by_role("heading", level=1, name="good").is_visible()
    context.close()
