"""The studio as people use it, in a real Chromium."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from atlas.runs.problem_files import load, save
from atlas.studio.messages import Studio
from fake_runs import fake_run
from studios import serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PLAYWRIGHT = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: `apt-get install chromium`")
expect = PLAYWRIGHT.expect
ROOM = """\
##############
##..kr..or..##
##^.......sb##
##############"""
SLOW = 90_000
"""Milliseconds for what may have to be compiled first."""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("studio")


@pytest.fixture(scope="module")
def run(root):
    """The run whose policy the studio was started with; made for those who need it."""
    return fake_run(root / "runs" / "one")


@pytest.fixture(scope="module")
def served(root, request):
    """One server for all; what its workers compile is kept for the next time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(request.config.cache.mkdir("studio")))
        with serving(Studio(str(root), policy=str(root / "runs" / "one"))) as one:
            yield one


@pytest.fixture(scope="module")
def browser():
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with PLAYWRIGHT.sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield one
        one.close()


@pytest.fixture(scope="module")
def context(browser):
    made = browser.new_context(viewport={"width": 1400, "height": 900})
    made.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    yield made
    made.close()


@pytest.fixture
def page(context, served):
    one = context.new_page()
    errors = []
    one.on("pageerror", lambda error: errors.append(str(error)))
    one.goto(served.url)
    one.wait_for_selector("html[data-ready]")
    yield one
    one.close()
    assert not errors


def text_of(page):
    return page.locator("#level-text textarea").input_value()


def level_text(page, text):
    page.locator("#level-text summary").click()
    page.locator("#level-text textarea").fill(text)
    page.evaluate("studio.settled()")


def verdict(page, kind):
    """Wait for the verdict on what was drawn and typed last."""
    page.evaluate("studio.settled()")
    expect(page.locator("#verdict")).to_have_attribute("aria-busy", "false", timeout=SLOW)
    expect(page.locator("#verdict")).to_have_attribute("data-verdict", kind)


def say(page, words, understood):
    """Type a task, and wait until it is said back."""
    page.locator("#task-text").fill(words)
    expect(page.locator(".understood")).to_have_text(understood, timeout=SLOW)


def cell(page, row, column, board="#draw .board"):
    box = page.locator(board).bounding_box()
    rows, columns = (int(n) for n in page.locator(board).get_attribute("viewBox").split()[:1:-1])
    return box["x"] + box["width"] * (column + 0.5) / columns, box["y"] + box["height"] * (row + 0.5) / rows


def test_a_level_is_painted_dragged_and_undone(page):
    before = text_of(page)
    page.get_by_role("button", name="ball: red ball").click()
    page.get_by_role("button", name="blue ball", exact=True).click()
    page.mouse.click(*cell(page, 1, 1))
    expect(page.locator("#level-text textarea")).to_have_value(re.compile("^#+\n##ob"))
    page.get_by_role("button", name="wall").click()
    agent = page.evaluate("studio.level.tiles.at")
    page.mouse.click(*cell(page, *agent))  # told where it happens, and nothing else changes
    expect(page.locator(".said")).to_have_text("the agent stands here: move it first")
    expect(page.locator("#draw .mark.bad")).to_have_count(1)
    page.get_by_role("button", name="move things").click()
    page.mouse.move(*cell(page, 1, 1))
    page.mouse.down()
    page.mouse.move(*cell(page, 1, 3))
    page.mouse.up()
    expect(page.locator("#level-text textarea")).to_have_value(re.compile("^#+\n##....ob"))
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(page.locator("#level-text textarea")).to_have_value(before)
    page.get_by_role("button", name="Redo").click()
    expect(page.locator("#level-text textarea")).to_have_value(re.compile("^#+\n##ob"))


@pytest.mark.slow
def test_a_level_is_painted_with_the_keyboard_alone(page):
    page.get_by_role("button", name="key: red key").focus()
    page.keyboard.press("Enter")
    page.locator("#draw .board").focus()
    for key in ("ArrowLeft", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    row, column = page.evaluate("studio.level.tiles.at")
    line = re.compile("^" + "#+\n" + ".*\n" * row + "." * (2 * (column - 1)) + "kr")
    expect(page.locator("#level-text textarea")).to_have_value(line)
    expect(page.locator(".said")).to_have_text("")


@pytest.mark.slow
def test_text_and_picture_of_a_level_follow_each_other(page):
    level_text(page, ROOM)
    expect(page.locator(".sizes")).to_contain_text("4x7")
    assert page.evaluate("studio.level.tiles.cols") == 7
    page.locator("#level-text textarea").fill(ROOM.replace("kr", "kz"))
    expect(page.locator("#level-text .trouble")).to_contain_text("line 2, column 5: 'kz' has no known colour")
    page.locator("#level-text textarea").fill(ROOM)
    expect(page.locator("#level-text .trouble")).to_have_text("")
    page.get_by_role("spinbutton", name="Columns").fill("9")
    page.get_by_role("spinbutton", name="Columns").press("Enter")
    expect(page.locator("#level-text textarea")).to_have_value(re.compile("^#{18}\n"))
    page.get_by_label("Start from a template").select_option("two rooms")
    expect(page.locator(".sizes")).to_contain_text("rooms 2")


def test_the_verdict_follows_the_task(page):
    verdict(page, "solvable")
    page.locator("#task-text").fill("pick up a gray square")
    verdict(page, "unsolvable")
    expect(page.locator("#verdict .reason")).to_contain_text("gray")
    page.locator("#task-text").fill("go to the purple ball")
    verdict(page, "solvable")
    expect(page.locator(".machine [data-key]")).to_have_count(3)


@pytest.mark.slow
def test_propositions_are_completed(page):
    page.locator("#task-text").fill("")
    page.locator("#task-text").press_sequentially("go to the pur")
    expect(page.locator("#completions li").first).to_have_text("go to a purple ball")
    page.keyboard.press("Tab")
    expect(page.locator("#task-text")).to_have_value("go to a purple ball")
    page.locator("#task-text").press_sequentially(", then pick up the red k")
    page.keyboard.press("Tab")
    expect(page.locator("#task-text")).to_have_value("go to a purple ball, then pick up a red key")
    page.get_by_role("radio", name="LTLf").click()
    page.locator("#task-text").press_sequentially("F front_ball_pu")
    page.keyboard.press("Tab")
    expect(page.locator("#task-text")).to_have_value("F front_ball_purple")
    verdict(page, "solvable")


@pytest.mark.slow
def test_a_wrong_formula_is_told_with_its_place_and_forgotten_when_it_is_right(page):
    page.get_by_role("radio", name="LTLf").click()
    page.locator("#task-text").fill("F(front_ball & X F front_cat)")
    expect(page.locator("#task-trouble")).to_contain_text("front_cat")
    expect(page.locator("#task-trouble")).to_contain_text("^^^")
    expect(page.locator(".under mark")).to_have_text("front_cat")
    expect(page.locator("#verdict")).to_contain_text("The task cannot be read yet")
    page.locator("#task-text").fill("F(front_ball & X F front_key)")
    expect(page.locator("#task-trouble")).to_have_text("")
    verdict(page, "solvable")


@pytest.mark.slow
def test_the_machine_is_edited_as_a_graph(page):
    page.locator("#task-text").fill("go to the red key")
    expect(page.locator(".machine [data-key]")).to_have_count(3)
    page.locator('[data-key="e0"]').click()
    page.get_by_label("remove front_key_red").click()
    page.locator('[data-key="e0"]').click(force=True)
    page.locator('[data-key="u0"]').click()
    page.get_by_label("Where the new transition leads").select_option("u1")
    page.get_by_placeholder("when …").fill("front purple ball")
    page.keyboard.press("Enter")
    expect(page.locator('.machine [data-key="u1"]')).to_have_count(1)
    page.locator('.machine [data-key="u1"]').focus()
    page.keyboard.press("Enter")
    page.get_by_label("Where the new transition leads").select_option("uA")
    page.get_by_placeholder("when …").fill("carrying key red")
    page.keyboard.press("Enter")
    expect(page.locator('.machine [data-key^="e"]')).to_have_count(3)
    formulas = page.evaluate("studio.task.told.machines.m0.edges.map((edge) => edge.formula.join())")
    assert sorted(formulas) == ["", "carrying_key_red", "front_ball_purple"]


@pytest.mark.slow
def test_another_world_is_drawn_and_played(page):
    page.locator("#world").select_option("letterworld")
    expect(page.locator("#task-text")).to_have_value(re.compile("^visit h"))
    verdict(page, "solvable")
    page.get_by_role("button", name="letter: letter a").click()
    page.mouse.click(*cell(page, 0, 0))
    expect(page.locator("#level-text textarea")).to_have_value(re.compile("^a a"))
    page.locator("#task-text").fill("visit h")
    verdict(page, "solvable")
    page.get_by_role("tab", name="Play").click()
    expect(page.locator("#play .act")).to_have_count(4)
    expect(page.locator("#play .facts")).to_contain_text("u0", timeout=SLOW)
    for key in ("ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator("#play .end")).to_have_text("Solved: the task is complete.", timeout=SLOW)


def test_a_problem_is_played_to_acceptance(page):
    level_text(page, ROOM)
    say(page, "pick up the red key", "Pick up a red key.")
    verdict(page, "solvable")
    page.get_by_role("tab", name="Play").click()
    expect(page.locator("#play .facts")).to_contain_text("u0", timeout=SLOW)
    for number, (key, name) in enumerate((("ArrowUp", "forward"), ("ArrowRight", "right"), ("p", "pick up")), 1):
        page.keyboard.press(key)
        expect(page.locator("#play .told")).to_contain_text(f"{number}/{number} · {name}", timeout=SLOW)
    expect(page.locator("#play .end")).to_have_text("Solved: the task is complete.", timeout=SLOW)
    expect(page.locator('.machine .here[data-key="uA"]')).to_have_count(1)
    expect(page.locator("#play .facts")).to_contain_text("red key")
    page.get_by_role("button", name="A step back").first.click()
    expect(page.locator('.machine .here[data-key="u0"]')).to_have_count(1)
    page.locator("#restart").click()
    expect(page.locator("#play .told")).to_have_text("0/0 · start")
    page.locator("#play .act").first.click()  # as on a phone
    expect(page.locator("#play .told")).to_have_text("1/1 · forward")
    page.locator("#task-text").fill("nonsense")
    expect(page.locator("#play")).to_contain_text("There is no task to play yet.")
    page.locator("#task-text").fill("go to the red ball")
    expect(page.locator("#play .told")).to_have_text("0/0 · start")


@pytest.mark.slow
def test_the_plan_is_played_step_by_step(page, run):
    verdict(page, "solvable")
    page.locator("#show-plan").click()
    expect(page.locator("#plan .end")).to_have_text("Solved: the task is complete.", timeout=SLOW)
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#compare section", has_text="Plan")).to_contain_text("solved")


@pytest.mark.slow
def test_a_policy_is_watched_and_rated(page, run):
    level_text(page, ROOM)
    say(page, "pick up the red key", "Pick up a red key.")
    verdict(page, "solvable")
    page.get_by_role("tab", name="Watch").click()
    expect(page.locator("#watch .thoughts .taken")).to_have_count(1, timeout=SLOW)
    expect(page.locator("#watch")).to_contain_text("one, after")
    page.locator("#watch").get_by_role("button", name="To the start").click()
    expect(page.locator("#watch .told")).to_contain_text("0/")
    page.locator("#rate").click()
    expect(page.locator(".rated")).to_contain_text(re.compile(r"solved \d+ of 20"), timeout=SLOW)


@pytest.mark.slow
def test_an_edit_is_seen_before_and_after_and_kept(page):
    say(page, "go to the green ball", "Go to a green ball.")
    verdict(page, "solvable")
    page.get_by_role("tab", name="Edits").click()
    page.get_by_label("Which edit").select_option("switch_proposition")
    page.locator("#apply-edit").click()
    expect(page.locator(".edit-words")).to_contain_text("switch_proposition(", timeout=SLOW)
    words = page.locator("#edits section").last.locator("p.small").inner_text()
    page.locator("#keep-edit").click()
    expect(page.locator("#task-text")).to_have_value(words)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#task-text")).not_to_have_value(words)


@pytest.mark.slow
def test_a_problem_is_saved_and_opened_again(page, root):
    level_text(page, ROOM)
    say(page, "pick up the red key, then go to the blue square", "Pick up a red key, then go to a blue square.")
    verdict(page, "solvable")
    page.locator("#name").fill("of my own")
    page.locator("#name").press("Tab")
    page.keyboard.press("Control+s")
    page.locator("#save-now").click()
    expect(page.locator("#saved")).to_have_text("saved as of-my-own.yaml")
    (problem,) = load(root / "of-my-own.yaml")
    assert problem.name == "of my own"
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("tab", name=re.compile("^Files")).click()
    page.get_by_role("button", name="of-my-own.yaml").click()
    expect(page.locator("#level-text textarea")).to_have_value(ROOM)
    expect(page.locator("#task-text")).to_have_value("Pick up a red key, then go to a blue square.")
    page.keyboard.press("Control+s")
    page.locator("#save-path").fill("../outside.yaml")
    page.locator("#save-now").click()
    expect(page.locator("dialog .trouble")).to_contain_text("not below the folder")
    assert not (root.parent / "outside.yaml").exists()


@pytest.mark.slow
def test_a_link_holds_the_problem(page, context, served):
    page.locator("#task-text").fill("go to the green ball")
    page.get_by_role("button", name="Share").click()  # at once: what was typed is shared
    link = page.locator("#link").input_value()
    assert link.startswith(f"{served.origin}/#p=")
    other = context.new_page()
    other.goto(link)  # the token of this browser's last visit opens it
    other.wait_for_selector("html[data-ready]")
    expect(other.locator("#task-text")).to_have_value(re.compile("^go to (the|a) green ball", re.I))
    assert "#" not in other.url


@pytest.mark.slow
def test_a_set_is_explored(page, root):
    save(load(Path(__file__).parents[2] / "problems" / "hand" / "01-one-room.yaml"), root / "rooms.yaml")
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("tab", name=re.compile("^Files")).click()
    page.get_by_role("button", name="rooms.yaml").click()
    cards = page.locator(".gallery .item:visible")
    expect(cards).not_to_have_count(0)
    expect(page.locator(".gallery img").first).to_have_js_property("complete", True)
    page.get_by_label("Search", exact=True).fill("behind-you")
    expect(cards).to_have_count(1)
    page.get_by_role("button", name="Prove all").click()
    expect(page.locator(".badge.solvable")).to_have_count(1, timeout=SLOW)
    page.get_by_role("combobox", name="Verdict").select_option("unsolvable")
    expect(cards).to_have_count(0)
    page.get_by_role("combobox", name="Verdict").select_option("solvable")
    cards.first.click()
    expect(page.locator("#name")).to_have_value("behind-you")
    verdict(page, "solvable")


@pytest.mark.slow
def test_a_run_that_trains_is_shown_as_it_goes(page, run):
    page.get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("tab", name=re.compile("^Files")).click()
    page.get_by_role("button", name="runs").click()
    page.get_by_role("button", name="one (run)").click()
    head = page.locator("dialog p").first
    expect(head).to_contain_text("6k of")
    expect(page.locator(".chart")).to_have_count(6)
    metrics = run / "metrics.jsonl"
    last = json.loads(metrics.read_text().splitlines()[-1])
    with metrics.open("a") as file:
        file.write(json.dumps(last | {"iteration": 999, "steps": 9000}) + "\n")
    os.utime(metrics)
    expect(head).to_contain_text("9k of")
    page.locator("article button.small").nth(2).click()
    expect(page.locator(".chain li > div")).to_have_count(3)


@pytest.mark.slow
def test_a_lost_worker_is_not_noticed(page, served):
    verdict(page, "solvable")
    before = {lane: worker.starts for lane, worker in served.app.state.lanes.workers.items()}
    for worker in served.app.state.lanes.workers.values():
        worker.process.kill()
    say(page, "go to the green ball", "Go to a green ball.")
    verdict(page, "solvable")
    expect(page.locator(".machine [data-key]")).to_have_count(3)
    workers = served.app.state.lanes.workers
    assert {lane: worker.starts for lane, worker in workers.items()} == {lane: n + 1 for lane, n in before.items()}


def test_a_foreign_page_can_do_nothing(context, served, root):
    """It knows even the token, and still can neither read nor write."""
    foreign = context.new_page()
    foreign.route("http://evil.example/**", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    foreign.goto("http://evil.example/")
    problem = {"domain": "minigrid", "level": {"level": ROOM}, "task": "go to a ball", "path": "evil.yaml"}
    tried = """async ([url, body]) => {
        const read = await fetch(url).then((answer) => answer.text()).catch(() => "blocked");
        const send = (mode, type) =>
            fetch(url + "do/save", {method: "POST", mode, body, headers: {"content-type": type}})
            .then((answer) => answer.status).catch(() => "blocked");
        return [read, await send("cors", "application/json"), await send("no-cors", "text/plain")];
    }"""
    read, write, blind = foreign.evaluate(tried, [served.url, json.dumps(problem)])
    assert (read, write) == ("blocked", "blocked")
    assert blind in ("blocked", 0)  # the answer to the last cannot be seen, whatever it is
    assert not (root / "evil.yaml").exists()
    assert served.ask("save", problem, {"origin": "http://evil.example"}).status_code == 403


UNNAMED = """() => [...document.querySelectorAll("button, input, select, textarea, [role=application], [role=button]")]
    .filter((one) => one.checkVisibility())
    .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
def test_everything_has_a_name_and_nothing_is_wider_than_the_screen(page, run, width):
    page.set_viewport_size({"width": width, "height": 844})
    verdict(page, "solvable")
    for name in ("Draw", "Play", "Plan", "Watch", "Compare", "Edits"):
        page.get_by_role("tab", name=name).click()
        page.wait_for_timeout(150)
        assert page.evaluate(UNNAMED) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.slow
def test_read_only_offers_no_saving(browser, root, request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(request.config.cache.mkdir("studio")))
        with serving(Studio(str(root), read_only=True)) as one:
            page = browser.new_page()
            page.goto(one.url)
            page.wait_for_selector("html[data-ready]")
            expect(page.locator("#save")).to_be_hidden()
            page.close()
