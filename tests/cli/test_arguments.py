"""What commands make of their arguments, and what they print; no hub is asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from tbhub.api.models import (
    Board,
    Experiment,
    NewBoard,
    NewLogdir,
    NewWorkspace,
    Reason,
    State,
)
from tbhub.api.problems import Ambiguous, BadRequest, NotFound, TensorboardLimitExceeded
from tbhub.cli.asking import selector, unknown_words
from tbhub.cli.boards import _insist_on_life
from tbhub.cli.completion import complete_boards
from tbhub.cli.failures import exit_code, lines_of
from tbhub.cli.groups import repeat
from tbhub.cli.main import _COMMANDS
from tbhub.cli.named_paths import is_path
from tbhub.cli.tables import Column, Output, show
from tbhub.cli.text import count, duration, moment, plain, size, span
from tbhub.cli.view_runs import add_groups
from tbhub.client.calls import build
from tbhub.client.errors import HubUnreachable, UnexpectedStatusException, WaitTimeout

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TBHUB_URL", "TBHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TBHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from tbhub.cli.main import main; main()", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            env={**os.environ, **environment},
        )

    return run


# --- words


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("7 -t 12 15", "7 -t 12 -t 15"),
        ("--trial-ids 12 15 --name x 7", "--trial-ids 12 --trial-ids 15 --name x 7"),
        ("--trial-ids", "--trial-ids"),
        ("-t 1 --", "-t 1 --"),
        ("7 -- -t 12 15", "7 -- -t 12 15"),
        ("-d 7 9", "-d 7 9"),
        ("-t 1 -d -t 2", "-t 1 -d -t 2"),
        ("-t -d", "-d"),
        ("-t 1 2,3 exp:x 4", "-t 1 -t 2,3 exp:x 4"),
        ("-t x y", "-t x y"),
        ("--runs x y -t 1", "--runs x --runs y -t 1"),
    ],
)
def test_options_that_take_all_words_that_follow(given: str, meant: str) -> None:
    numeric = ("-t", "--trial-ids")
    assert repeat(given.split(), (*numeric, "--runs"), numeric) == meant.split()


def test_words_are_one_selector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my runs").mkdir()
    (tmp_path / "7").mkdir()
    assert selector(["run1-run5", "where lr<.01"]) == "run1-run5 where lr<.01"
    assert selector(["7", "9"]) == "7 9"
    assert selector(["./my runs", "where lr<.01"]).startswith(f'"{tmp_path}/my runs"')
    assert selector(["./later", "s3://b/p/"]) == f"{tmp_path}/later, s3://b/p/"
    assert selector(["run1", "./x ??? where"]) == "run1 ./x ??? where"
    assert selector(["where", "path", "=", "a/b/c"]) == "where path = a/b/c"
    assert selector(None) == ""


def test_a_word_with_a_slash_that_names_a_directory_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/exp8", "runs/7", "runs/job7", "runs/my exp", "a/b/c", "exp:x/y", "run7"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs" / "events.out.tfevents.1").touch()
    (tmp_path / "runs" / "notes.txt").touch()
    for word in ("runs/exp8", "runs/7", "runs/job7", "a/b", "a/b/c", "runs/events.out.tfevents.1"):
        assert selector([word]) == f"{tmp_path}/{word}"
    assert selector(["run343,", "runs/exp8,", "7"]) == f"run343, {tmp_path}/runs/exp8, exp:7"
    assert selector(["runs/exp8", "where lr<1"]) == f"{tmp_path}/runs/exp8 where hparams.lr < 1"
    assert selector(["runs/my exp"]) == f'"{tmp_path}/runs/my exp"'


@pytest.mark.parametrize(
    "word",
    [
        "run7",
        "runs",
        "7",
        "runs/*",
        "runs/exp?",
        '"runs/exp8"',
        "exp:x/y",
        "runs/exp:x",
        "trial:runs/exp8",
        "runs/none",
        "runs/notes.txt",
        "s3://runs/exp8",
        "where path = runs/exp8",
    ],
)
def test_other_words_stay_names_although_there_is_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/exp8", "exp:x/y", "run7", "7", "runs/exp:x", "trial:runs/exp8", "runs/*"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs" / "notes.txt").touch()
    assert selector([word]) == word
    assert selector(word.split()) == word


@pytest.mark.parametrize(
    ("words", "terms", "unknown"),
    [
        ("run1 runs", ["runs"], ["runs"]),
        ("7 9", ["exp:9"], ["9"]),
        ("run1-run5 job7", ["job7", "run1-run5"], ["run1-run5", "job7"]),
        ("run1", [], []),
        ("", ["run1"], []),
    ],
)
def test_unknown_words_are_those_that_the_hub_reports(
    words: str, terms: list[str], unknown: list[str]
) -> None:
    assert unknown_words(words, NotFound("x", terms=terms)) == unknown
    assert unknown_words(words, NotFound("x")) == []


def test_times() -> None:
    assert [duration(text) for text in ("90", "90s", "15m", "2h", "3d", "1h30m", "0", ".5h")] == [
        90,
        90,
        900,
        7200,
        259200,
        5400,
        0,
        1800,
    ]
    for bad in ("", "-5", "soon", "5x", "1e9", "h"):
        with pytest.raises(ValueError, match="is no time"):
            duration(bad)
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert moment("2h", now) == now - timedelta(hours=2)
    assert moment("2026-11-16T10:00+00:00") == now - timedelta(hours=2)
    assert moment("2026-11-16").tzinfo is not None
    assert moment("9:30", now).astimezone().strftime("%H:%M") == "09:30"
    with pytest.raises(ValueError, match="is no time"):
        moment("yesterday")


def test_words_for_people() -> None:
    assert [span(seconds) for seconds in (-1, 59, 61, 7300, 90000, 200000)] == [
        "0s",
        "59s",
        "1m",
        "2h",
        "25h",
        "2d",
    ]
    assert [size(number) for number in (0, 999, 1500, 25_000_000, 10**13)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "25 MB",
        "10.0 TB",
    ]
    assert [count(1, "run"), count(1200, "run")] == ["1 run", "1,200 runs"]
    assert plain("a\x1b]0;title\x07\n\u202eb é 漢") == "a\\x1b]0;title\\x07\\n\\u202eb é 漢"


# --- lists


def experiment(number: int, name: str) -> Experiment:
    return Experiment(id=number, workspace="default", name=name, created=datetime.now(UTC))


COLUMNS: list[Column[Experiment]] = [
    Column("ID", lambda each: each.id, right=True),
    Column("THE NAME", lambda each: each.name),
]
ROWS = [experiment(1, "[red]a[/]"), experiment(10, 'b "quoted", é'), experiment(3, "\x1b[31mc")]


def shown(output: Output, capsys: pytest.CaptureFixture[str]) -> str:
    show(ROWS, COLUMNS, output, key=lambda each: each.id, nothing="none")
    return capsys.readouterr().out


def test_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(Output(), capsys).splitlines() == [
        "ID  THE NAME",
        " 1  [red]a[/]",
        '10  b "quoted", é',
        " 3  \\x1b[31mc",
    ]


def test_titles_are_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "26")
    monkeypatch.setenv("TERM", "dumb")
    titles = ("ID", "DESCRIPTION", "NOTE")
    columns: list[Column[Experiment]] = [
        Column(title, lambda row: row.name * 3) for title in titles
    ]
    show(ROWS[:2], columns, Output(), key=lambda each: each.id, nothing="")
    assert capsys.readouterr().out.splitlines()[0].split() == list(titles)


def test_lists_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(Output(quiet=True), capsys) == "1\n10\n3\n"
    assert [each["name"] for each in json.loads(shown(Output(as_json=True), capsys))] == [
        row.name for row in ROWS
    ]
    assert shown(Output(as_csv=True), capsys).splitlines()[:3] == [
        "id,the_name",
        "1,[red]a[/]",
        '10,"b ""quoted"", é"',
    ]
    with pytest.raises(ValueError, match="exclude one another"):
        Output(as_json=True, quiet=True)


def test_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    show([], COLUMNS, Output(), key=lambda each: each.id, nothing="no experiments")
    assert capsys.readouterr() == ("", "no experiments\n")
    show([], COLUMNS, Output(as_json=True), key=lambda each: each.id, nothing="no experiments")
    assert capsys.readouterr() == ("[]\n", "")


# --- errors


@pytest.mark.parametrize(
    ("model", "fields", "said"),
    [
        (NewBoard, {"name": "a\nb"}, "name: one line, without control characters"),
        (NewBoard, {"runs": "a\0b"}, "runs: text without zero bytes"),
        (NewWorkspace, {"name": "x/y"}, "name: letters, digits and _ . - alone, the first a"),
        (NewBoard, {"name": ""}, "name: string should have at least 1 character"),
        (NewLogdir, {"path": ""}, "path: string should have at least 1 character"),
    ],
)
def test_fields_that_cannot_be_are_told_in_words(
    model: type[BaseModel], fields: dict[str, str], said: str
) -> None:
    with pytest.raises(BadRequest, match=re.escape(said)):
        build(model, **fields)


def test_exit_codes() -> None:
    errors = [
        BadRequest("x"),
        NotFound("x"),
        Ambiguous("x"),
        HubUnreachable("x"),
        TensorboardLimitExceeded("x"),
        WaitTimeout("x"),
        OSError("x"),
    ]
    assert [exit_code(error) for error in errors] == [2, 3, 3, 5, 6, 7, 2]


def test_a_caret_shows_what_is_wrong_with_a_selector() -> None:
    error = BadRequest("a term is missing", selector="漢 run1,,run2", position=8)
    assert lines_of(error) == [
        "tbhub: a term is missing",
        "  漢 run1,,run2",
        "           ^",
    ]


def test_what_fits_is_listed() -> None:
    matches = [{"id": "aab49ba5", "name": "rarely-cute-otter", "owner": "me"}, "plain"]
    error = Ambiguous("aa fits two boards", matches=matches)
    assert lines_of(error)[1:] == ["  aab49ba5  rarely-cute-otter  me", "  plain"]


# --- as processes


@pytest.mark.parametrize("command", [name for name in _COMMANDS if name not in ("up", "view")])
def test_every_command_teaches(run: Run, command: str) -> None:
    done = run(command, "--help", COLUMNS="120")
    assert done.returncode == 0
    assert "Usage: " in done.stdout
    assert f"tbhub {'list' if command == 'ls' else command}" in done.stdout


def test_help_lists_every_command_and_the_exit_codes(run: Run) -> None:
    done = run("--help", COLUMNS="120")
    for name, command in _COMMANDS.items():
        assert (f"│ {name} " in done.stdout) != command.hidden
    assert "no hub answers" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("ls", "--json"),
        ("start", "7", "--no-browser"),
        ("open", "x"),
        ("logs", "x", "-f"),
        ("kill", "a", "b", "-f"),
        ("delete", "x", "--yes"),
        ("runs", "where lr<.1"),
        ("experiments", "delete", "7", "--yes"),
        ("users", "disable", "maria"),
        ("tokens",),
        ("status",),
        ("doctor",),
        ("share", "x"),
    ],
    ids=" ".join,
)
def test_without_a_hub(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr.startswith("tbhub: no hub is known: start one with `tbhub up`")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("start",), "say what to show"),
        (("start", "7", "--idle-timeout", "soon"), "--idle-timeout: 'soon' is no time"),
        (("start", "7", "--max-runtime=-5"), "--max-runtime: '-5' is no time"),
        (("start", "7", "--name", "two\nlines"), "name: "),
        (("logs", "x", "--head", "1", "-f"), "--head goes neither"),
        (("logs", "x", "--since", "never"), "'never' is no time"),
        (("list", "--json", "--csv"), "exclude one another"),
        (("runs", "edit", "7"), "say what to change"),
        (("login", "nowhere"), "write the hub's address like"),
        (("login", "http://127.0.0.1:1/?token=x"), "--token-stdin"),
        (("login", "http://127.0.0.1:1", "-u", "me"), "give --password-stdin"),
        (("login", "http://127.0.0.1:1", "--password-stdin"), "say who you are"),
        (("users", "add", "maria"), "give --password-stdin"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_cannot_be_carried_out(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_unknown_options_and_commands(run: Run) -> None:
    for arguments in (("lsit",), ("list", "--no"), ("users", "ad", "x"), ("start", "-t", "x")):
        done = run(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_nobody_there(run: Run) -> None:
    done = run("list", TBHUB_URL="http://127.0.0.1:1")
    assert done.returncode == 5
    assert "no hub answers at http://127.0.0.1:1 (from TBHUB_URL)" in done.stderr


def test_logout_without_a_login(run: Run) -> None:
    done = run("logout")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nobody is logged in\n")


def test_output_that_is_closed(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from tbhub.cli.main import main; main()' status >&- 2>&-"
    done = subprocess.run(command, shell=True, cwd=tmp_path)
    assert done.returncode == 5


def test_a_terminal_that_knows_ascii_only(run: Run) -> None:
    done = run("start", "--name", "é", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_completion_is_silent_where_there_is_no_hub(run: Run) -> None:
    assert complete_boards("a") == []
    done = run(_TBHUB_COMPLETE="complete_bash", COMP_WORDS="tbhub kill a", COMP_CWORD="2")
    assert done.stderr == ""


@pytest.mark.parametrize("token", ["tbh_secret\nx", "tbh_secret é", "tbh_secret x", "secreté"])
def test_a_token_that_cannot_be_is_not_shown(run: Run, token: str) -> None:
    said = run("list", TBHUB_URL="http://127.0.0.1:1", TBHUB_TOKEN=token)
    assert said.returncode == 2
    assert said.stderr.startswith("tbhub: the token in the environment variable TBHUB_TOKEN has ")
    assert "hint: set TBHUB_TOKEN to a valid token" in said.stderr
    assert "secret" not in said.stderr


def test_bytes_that_are_no_text(run: Run) -> None:
    for words, code in ((("kill", "\udcff"), 3), (("runs", "\udcff"), 2)):
        said = run(*words, TBHUB_URL="http://127.0.0.1:1", TBHUB_TOKEN="x")
        assert said.returncode == code
        assert "codec" not in said.stderr
        assert said.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("FAILED", "is FAILED (CRASHED): gone; `tbhub restart 01234567` starts it again"),
        ("TERMINATED", "is TERMINATED (CRASHED): gone; `tbhub start` makes another"),
        ("STOPPED", None),
        ("QUEUED", None),
    ],
)
def test_boards_that_can_be_opened(state: str, advice: str | None) -> None:
    now = datetime.now(UTC)
    about = {"name": "x", "owner": "me", "selector": "all", "url": "http://x", "message": "gone."}
    board = Board(
        id="0123456789", state=State(state), reason=Reason.CRASHED, created=now, active=now, **about
    )
    if advice is None:
        _insist_on_life(board)
        return
    with pytest.raises(UnexpectedStatusException) as caught:
        _insist_on_life(board)
    assert str(caught.value) == f"TensorBoard (x) {advice}"


def test_text_in_quotes_is_a_name_and_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_path('"../../etc"')
    assert selector(['"../../etc"']) == '"../../etc"'
    assert is_path("../../etc")


@pytest.mark.parametrize("job", ["2300", "job2300"])
def test_the_option_job_names_jobs_only(job: str) -> None:
    assert add_groups(["run1"], job, None, None) == ["run1", "job:2300"]
