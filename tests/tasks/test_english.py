"""English tasks: what each form means, and what is said about mistakes."""

import re

import pytest

import atlas
from atlas.domains.minigrid.alphabet import VOCABULARY as MINIGRID
from atlas.errors import AtlasError, TaskWarning, TextError
from atlas.tasks.english import english
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING
from twins.machines import follow_flat
from twins.vocabularies import FRUIT, fruit

A, B, C, D = ({i} for i in range(4))
NONE: set[int] = set()
WORDS = {"A": "eat an apple", "B": "eat a pear", "C": "eat a plum", "D": "eat a fig",
         "Aing": "eating an apple", "Bing": "eating a pear", "Cing": "eating a plum"}  # fmt: skip
OUTCOMES = {".": RUNNING, "+": ACCEPTED, "x": REJECTED}


def spell(text: str) -> str:
    """`A, then B` -> `eat an apple, then eat a pear`."""
    return re.sub(r"\b[ABCD](ing)?\b", lambda match: WORDS[match[0]], text)


MEANINGS = [
    ("A", [NONE, A], ".+"),
    ("A, then B", [B, A, NONE, B], "...+"),
    ("A then B", [A, B], ".+"),
    ("A and then B", [A, B], ".+"),
    ("A. B", [A, B], ".+"),
    ("A; then B.", [A, B], ".+"),
    ("A, then B", [A | B, NONE, B], "..+"),
    ("A, B, then C", [A, B, C], "..+"),
    ("A before B", [B, A, B], "..+"),
    ("A before Bing", [A, B], ".+"),
    ("A after you B", [A, B, A], "..+"),
    ("A after Bing", [B, A], ".+"),
    ("After you A, B", [A, B], ".+"),
    ("Before you A, B", [B, A], ".+"),
    ("A after you B, then C", [B, A, C], "..+"),
    ("A and B", [A, B], ".+"),
    ("A and B", [B, A], ".+"),
    ("A and B", [A | B], "+"),
    ("A, B and C", [C, A, B], "..+"),
    ("A, B, and C", [B, C, A], "..+"),
    ("A and B, then C and D", [B, C, A, D, C], "....+"),
    ("A or B", [B], "+"),
    ("A, B or C", [C], "+"),
    ("A or B, then C", [C, B, C], "..+"),
    ("A or B and C", [B, NONE, C], "..+"),
    ("A or B and C", [B, A], ".+"),
    ("(A or B) and C", [B, C], ".+"),
    ("(A, then B) or (C, then D)", [A, C, B], "..+"),
    ("(A, then B) or (C, then D)", [A, C, D], "..+"),
    ("either A, then B, or C, then D", [A, C, D, B], "...+"),
    ("either A, then B, or C, then D", [A | C, C, B, D], "...+"),
    ("Either A, then B, or C. Then D.", [C, D], ".+"),
    ("Either A, then B, or C. Then D.", [A, D, B, D], "...+"),
    ("A without Bing", [NONE, A], ".+"),
    ("A without Bing", [NONE, B, A], ".xx"),
    ("A without Bing", [A | B], "x"),
    ("A without Bing or Cing", [C], "x"),
    ("A without Bing, then B", [A, B], ".+"),
    ("C, then A without Bing", [B, C, B], "..x"),
    ("C, then A, without Bing", [B], "x"),
    ("A without Bing and C", [A, B, C], "..+"),
    ("A without Bing and C", [B], "x"),
    ("A twice", [A, A, NONE, A], "...+"),
    ("A two times", [A, NONE, A], "..+"),
    ("A 3 times", [A, NONE, A, B, A], "....+"),
    ("A once", [A], "+"),
    ("(A, then B) twice", [A, B, A, B], "...+"),
    ("(A or B) twice", [A, B, NONE, B], "...+"),
    ("A while Bing", [A, B, A | B], "..+"),
    ("A while not Bing", [A | B, A], ".+"),
    ("A while Bing and not Cing", [A | B | C, A | B], ".+"),
    ("A while Bing and C", [A | B, C], ".+"),
    ("A while Bing, then C", [A | B, C], ".+"),
    ("wait, then A", [A, A], ".+"),
    ("please first A, then finally B", [A, B], ".+"),
]


@pytest.mark.parametrize(("text", "trace", "outcomes"), MEANINGS, ids=lambda x: x if isinstance(x, str) else "")
def test_meaning(text, trace, outcomes):
    task = english(spell(text), fruit())
    assert follow_flat(task, trace) == [OUTCOMES[o] for o in outcomes]


STEPS = [
    ("1. A. 2. B.", [A, B], ".+"),
    ("1. A, then continue with step 2.\n2. B, then finish.", [A, B], ".+"),
    ("1. A, then go to step 3. 2. B. 3. C, then go back to step 2.", [A, C, B, C], "...."),
    ("1. Either A, then finish, or B, then fail.", [A | B, B], ".x"),
    ("1. A, then finish, or B, then fail.", [A | B], "+"),
    ("1. A while not Bing, then finish; or B and fail.", [A | B], "x"),
    ("1. Either A while Bing, then fail, or C, then finish.", [A | B | C, A | C], ".+"),
    ("1. Wait while not Aing, then finish.", [A, NONE], ".+"),
    ("1) Stay here.", [A, B], ".."),
    ("1. Finish.", [NONE], "+"),
    ("1. Fail.", [NONE], "x"),
]


@pytest.mark.filterwarnings("ignore::atlas.errors.TaskWarning")
@pytest.mark.parametrize(("text", "trace", "outcomes"), STEPS, ids=lambda x: x if isinstance(x, str) else "")
def test_meaning_of_steps(text, trace, outcomes):
    task = english(spell(text), fruit())
    assert follow_flat(task, trace) == [OUTCOMES[o] for o in outcomes]


def test_steps_have_the_usual_rewards_or_their_own():
    task = english(
        spell("1. A, then continue with step 2 (reward 0.25), or B, then finish.\n2. C (reward -1)."), fruit()
    )
    assert [edge.reward for edge in task.machines[0].edges] == [0.25, 1.0, -1.0]


def test_routines_are_machines_that_are_called():
    text = """Main task:
    1. A and do routine 2, then continue with step 2.
    2. Do routine 1, then finish.
    Routine 1:
    1. B, then return.
    Routine 2:
    1. C while not Bing and do routine 1, then return (reward 0.5)."""
    seen = english(spell(text), fruit())
    main, first, second = seen.machines
    assert seen.root == 0
    assert [(e.source, e.literals, e.call, e.reward) for e in main.edges] == [(0, (1,), 2, 0.0), (1, (), 1, 1.0)]
    assert [(e.literals, e.call, e.reward) for e in first.edges] == [((2,), -1, 0.0)]
    assert [(e.literals, e.call, e.reward) for e in second.edges] == [((3, -2), 1, 0.5)]


@pytest.mark.parametrize("number", range(0, len(MINIGRID.names), 7))
def test_every_phrase_is_understood(number):
    task = english(MINIGRID.phrases[number], MINIGRID)
    assert [edge.literals for edge in task.machines[0].edges] == [(number + 1,)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("go to the grey box", ["front_square_gray"]),
        ("Open the red door", ["front_door_red_open"]),
        ("put the ball next to a locked blue door", ["next_ball_door_blue_locked"]),
        ("put the yellow key next to the ball", ["next_ball_key_yellow"]),
        ("get the key", ["carrying_key"]),
        ("face a locked door", ["front_door_locked"]),
        ("pick up a red object", ["carrying_ball_red", "carrying_square_red", "carrying_key_red"]),
        ("go to a ball or the blue key", ["front_ball", "front_key_blue"]),
        ("put a ball next to a key or a red box", ["next_ball_key", "next_ball_square_red"]),
    ],
)
def test_words_of_minigrid(text, names):
    edges = english(text, MINIGRID).machines[0].edges
    assert sorted(edge.literals for edge in edges) == sorted((MINIGRID.ids[name] + 1,) for name in names)


def test_guards_do_not_mention_what_cannot_happen():
    """There is one cell ahead, so `go to a ball and go to a key` needs no guard for both at once."""
    edges = english("go to a ball and go to a key", MINIGRID).machines[0].edges
    assert all(len(edge.literals) == 1 for edge in edges)
    assert len(edges) == 4
    red = english("go to a ball and go to a red ball", MINIGRID).machines[0].edges
    assert [edge.literals for edge in red] == [(MINIGRID.ids["front_ball_red"] + 1,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("go to a purpel ball", "'purpel' is not understood after 'go to a'; did you mean purple? (column 9)"),
        (
            "fly to a ball",
            "or put … next to … (column 1)\n    fly to a ball\n    ^^^",
        ),
        ("go to a ball, then", "something is missing after 'then'; expected go to"),
        ("go to", "something is missing after 'go to'"),
        (
            "go to a ball on your left",
            "'left' is not understood: a task cannot speak of places and directions (column 22)",
        ),
        (
            "go to a purpel bal",
            "2 words are not understood: 'purpel' (did you mean purple?), 'bal' (did you mean ball?)",
        ),
        ("go to a purpel bal", "    go to a purpel bal\n            ^^^^^^ ^^^"),
        ("go to all", "'all' is not understood after 'go to'"),
        ("(go to a ball", "this bracket is never closed (column 1)"),
        ("either go to a ball", "'either' needs an 'or'"),
        ("go to a ball 0 times", "0 times is not possible: from 1 to 50 is allowed"),
        ("go to a ball but never open a locked door", "with 'locked door': write 'never open a door' (column 24)"),
        ("open a locked red door", "'open' does not go with 'locked red door': write 'open a red door' (column 1)"),
        ("go to a ball # now", "'#' means nothing in a task (column 14)"),
        ("", "the task is empty"),
        ("after you go to a ball a key", "a comma is needed"),
        ("1. Go to a ball, then continue with step 3.", "there is no step 3; the steps are 1 (column 42)"),
        ("1. Go to a ball.\n1. Go to a key.", "there is already a step 1 (line 2, column 1)"),
        ("1. Do routine 4.", "there is no routine 4; no routine is described (column 15)"),
        ("1. Go to a ball, then finish (reward much).", "a number is needed as the reward"),
        ("1. Go to a ball.\nRoutine one:", "the number of a routine is needed (line 2, column 9)"),
        ("Main task: 1. Do routine 1. Routine 1: 1. Finish.", "can only stand alone"),
    ],
)
def test_mistakes_are_shown_where_they_are(text, message):
    with pytest.raises(TextError) as error:
        english(text, MINIGRID)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "go to a ball without going to a ball",
        "go to a ball while going to a key, without opening a door",
        "go to a red ball without going to a ball",
    ],
)
def test_what_can_never_be_done_is_refused(text):
    with pytest.raises(AtlasError, match="can never be done"):
        english(text, MINIGRID)


def test_a_warning_tells_that_no_step_leads_to_the_end():
    with pytest.warns(TaskWarning, match="no step leads to the end"):
        english("1. Go to a ball, then continue with step 1.", MINIGRID)


def test_cyclic_calls_are_refused():
    with pytest.raises(AtlasError, match="cyclic"):
        english("Main task: 1. Do routine 1. Routine 1: 1. Do routine 1.", MINIGRID)


def test_too_many_states_are_refused():
    with pytest.raises(AtlasError, match="at most 127 are possible"):
        english(f"({spell('A, then B')}) 50 times, then {spell('C 20 times')}", fruit())


def test_words_are_those_of_the_vocabulary():
    assert [e.literals for e in english("eat an actinidia", fruit()).machines[0].edges] == [(FRUIT.index("kiwi") + 1,)]


class TestTranslate:
    """A translator of the user's is asked only about what is not understood; its answer is checked and said back."""

    ASKED = "kindly acquire the crimson opener"

    def test_its_answer_is_read_and_said_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        monkeypatch.setattr("atlas.tasks.translate", lambda text: asked.append(text) or "pick up the red key")
        with pytest.warns(TaskWarning, match="translated to 'pick up the red key'"):
            task = atlas.english(self.ASKED)
        assert asked == [self.ASKED]
        assert task == atlas.english("pick up the red key")
        assert asked == [self.ASKED], "what is understood is not sent away"

    @pytest.mark.parametrize(
        ("answer", "words"), [("open the sesame", "translated to 'open the sesame', but"), (7, "is no text: 7")]
    )
    def test_a_bad_answer_is_refused_beside_the_first_error(
        self, monkeypatch: pytest.MonkeyPatch, answer: object, words: str
    ) -> None:
        monkeypatch.setattr("atlas.tasks.translate", lambda _: answer)
        with pytest.raises(AtlasError, match="(?s)'crimson'.*" + re.escape(words)):
            atlas.english(self.ASKED)


def test_another_reading_is_said_in_python_too() -> None:
    with pytest.warns(TaskWarning, match="the same one may count"):
        atlas.english("fetch two keys")
