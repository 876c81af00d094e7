"""A run as people see it."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from omnilearn_cli.local import table
from omnilearn_cli.local.display import LiveDisplay, PlainDisplay, display_for
from omnilearn_cli.local.events import Event
from omnilearn_cli.local.places import Staff
from omnilearn_cli.local.view import Member, View

STAFF = [
    Staff("job-big-0", "cpu", 2.0, "starting"),
    Staff("job-small-0", "cpu", None, "starts in 2 s"),
    Staff("job-small-1", "cpu", 0.5, "frozen"),
]
TIMED = Member(
    "", compute_seconds=0.5, load_seconds=0.1, reduce_seconds=0.1, wait_seconds=0.3, step_seconds=1.0, state="member"
)
VIEW = View(
    phase="Running",
    generation=3,
    members=(
        replace(TIMED, worker="job-big-0", share=400, samples_per_second=1234.5),
        replace(TIMED, worker="job-small-1", share=112),
    ),
    step=120,
    epoch=2,
    samples=5000,
    total_samples=10000,
    loss=0.3456789,
    logged={"accuracy": 0.912345},
    decisions=((1.0, "big-0 is faster than before"),),
)


def printed() -> tuple[Console, StringIO]:
    text = StringIO()
    return Console(file=text, width=140), text


def test_the_table_shows_members_and_those_who_are_none() -> None:
    console, text = printed()
    console.print(table.table_of(VIEW, STAFF))
    big, small, frozen = text.getvalue().splitlines()[1:]
    assert big.split()[:5] == ["job-big-0", "cpu", "2", "400", "1,234"]
    assert big.rstrip().endswith("member")
    assert "starts in 2 s" in small
    assert frozen.rstrip().endswith("frozen"), "what the launcher did to it says more than that it was a member"


def test_a_bar_is_as_long_as_the_parts_that_it_shows() -> None:
    assert table.bar(VIEW.members[0]).plain == "█" * 10 + "▓" * 2 + "▒" * 2 + "░" * 6
    assert table.bar(Member("w")).plain == ""


def test_the_whole_scene_has_progress_decision_and_events() -> None:
    console, text = printed()
    console.print(table.render(table.Scene(VIEW, STAFF, [Event(0.0, 12.3, "Fault", "kill job-big-0")], 100.0)))
    shown = text.getvalue()
    assert "Running · step 120 · epoch 2 · 50.0% · 100 samples/s · 50 s left · loss 0.3457 · accuracy 0.9123" in shown
    assert "big-0 is faster than before" in shown
    assert "12.3 s  kill job-big-0" in shown


def test_progress_says_no_more_than_is_known() -> None:
    assert table.progress_line(View(), None) == "Starting"
    assert table.progress_line(View(phase="Running", generation=1, step=1), None) == "Running · step 1 · epoch 0"


@pytest.mark.parametrize(("seconds", "words"), [(59.6, "60 s"), (600.0, "10 min"), (9000.0, "2.5 h")])
def test_a_duration_is_said_as_people_do(seconds: float, words: str) -> None:
    assert table.duration(seconds) == words


def test_the_pace_is_that_of_the_last_seconds_and_survives_a_step_back() -> None:
    pace = table.Pace()
    assert pace.measure(0.0, 0) is None
    assert pace.measure(1.0, 100) == pytest.approx(100.0)
    for second in range(2, 40):
        last = pace.measure(float(second), 100 + 10 * (second - 1))
    assert last == pytest.approx(10.0)
    assert pace.measure(41.0, 5) is None


def test_plain_lines_are_for_files_and_for_those_who_want_no_colours() -> None:
    terminal = Console(file=StringIO(), force_terminal=True)
    assert isinstance(display_for(printed()[0], {}), PlainDisplay)
    for environ in ({"NO_COLOR": "1"}, {"CI": "true"}):
        assert isinstance(display_for(terminal, environ), PlainDisplay)
    live = display_for(terminal, {})
    assert isinstance(live, LiveDisplay)
    live.close()


def test_plain_progress_comes_every_few_seconds() -> None:
    console, text = printed()
    display = PlainDisplay(console)
    for tenth in range(100):
        display.look(VIEW, STAFF, tenth / 10)
    assert text.getvalue().count("step 120") == 2


def test_what_a_worker_writes_is_printed_as_it_is() -> None:
    console, text = printed()
    PlainDisplay(console).output("job-big-0", "[bold]loss[/bold] 1 :smile:")
    assert text.getvalue() == "job-big-0 | [bold]loss[/bold] 1 :smile:\n"


def test_a_terminal_gets_a_table_below_the_output() -> None:
    text = StringIO()
    display = LiveDisplay(Console(file=text, force_terminal=True, width=140, color_system=None))
    display.event(Event(0.0, 1.0, "Fault", "kill job-big-0"))
    display.look(VIEW, STAFF, 10.0)
    display.output("job-big-0", "[bold]hello")
    display.close()
    shown = text.getvalue()
    assert "job-big-0 | [bold]hello" in shown
    assert "kill job-big-0" in shown
