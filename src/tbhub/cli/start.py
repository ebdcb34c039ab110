"""``tbhub start``: a board over any mix of runs."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbhub.cli.asking import connect, selector, unknown_words
from tbhub.cli.browser import open_board_page
from tbhub.cli.completion import complete_selectors
from tbhub.cli.text import duration, plain

if TYPE_CHECKING:
    from tbhub.api.models import Board, NewBoard
    from tbhub.client.hub import Hub

_JUST_BEFORE = timedelta(seconds=1)
_WHAT = ("runs", "trials", "experiments", "uris", "added")  # the fields that say what to show
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25


def start(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SELECTOR",
            help="What to show: experiments by number, runs, paths, URIs, filters.",
            autocompletion=complete_selectors,
        ),
    ] = None,
    trial_ids: Annotated[
        list[str] | None,
        typer.Option("-t", "--trial-ids", metavar="ID…", help="Runs by number, besides the rest."),
    ] = None,
    runs: Annotated[
        list[str] | None, typer.Option("--runs", metavar="SELECTOR…", help="The same as SELECTOR.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called; a pet name unless given.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The board of this key: made once, then found and started."),
    ] = None,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Take a board of yours that shows the same.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Runs that come to match later are shown, too.")
    ] = False,
    workspace: Annotated[
        str | None, typer.Option("-w", "--workspace", help="The workspace it counts for.")
    ] = None,
    name_template: Annotated[
        str | None,
        typer.Option(
            "--name-template",
            metavar="TEMPLATE",
            help="How runs are named: `{run}_lr={hparams.lr}`; your default unless given.",
            envvar="TBHUB_NAME_TEMPLATE",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="FIELDS",
            help="Show mean and spread of runs alike in these: `lr`, `all except seed`.",
        ),
    ] = None,
    hide_grouped: Annotated[
        bool, typer.Option("--hide-grouped", help="Show groups only, not the runs in them.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option("--samples", min=2, metavar="N", help="Points drawn of a series.")
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            "--requests-per-minute",
            min=1,
            metavar="N",
            help="List stores more seldom where they would be asked more often than that.",
        ),
    ] = None,
    idle_timeout: Annotated[
        str | None,
        typer.Option(
            "--idle-timeout",
            metavar="TIME",
            help="Stop when nobody has looked for so long; 0: never.",
        ),
    ] = None,
    no_data_timeout: Annotated[
        str | None,
        typer.Option(
            "--no-data-timeout", metavar="TIME", help="End when nothing was logged; 0: never."
        ),
    ] = None,
    max_runtime: Annotated[
        str | None,
        typer.Option("--max-runtime", metavar="TIME", help="End after so long; 0: never."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="An option as a key: `idle_timeout=30m`, `description=mnist`; repeatable.",
        ),
    ] = None,
    config_file: Annotated[
        str | None,
        typer.Option(
            "--config-file",
            metavar="FILE",
            help="Such keys in a file: YAML, JSON or TOML, or what `tbhub config` prints.",
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, where there is one.")
    ] = True,
    detach: Annotated[
        bool, typer.Option("-d", "--detach", help="Print the id and nothing else.")
    ] = False,
    wait: Annotated[
        bool | None,
        typer.Option("--wait/--no-wait", help="Wait until it is up; with -d only if asked to."),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")
    ] = "60",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict/--no-strict", help="Fail where something to show cannot be read, or warn."
        ),
    ] = True,
) -> None:
    """Start a TensorBoard over any mix of experiments and runs.

    - `tbhub start 7 9 --trial-ids 31 35` experiments 7 and 9, and two more runs
    - `tbhub start run1-run5 "where lr<.01"` those of five runs
    - `tbhub start "where status=running" --follow` whatever runs, now and later
    - `tbhub start ./runs s3://bucket/logs/` paths and URIs
    - `tbhub start exp:mnist --group-by "all except seed" --name mnist -d`
    - `tbhub start 7 --config idle_timeout=30m --config-file board.yaml`

    Prints what happens until the board is up, then its address, and opens a browser, logged in.
    Where there is none, e.g. over ssh, it prints a link to paste into one: it logs you in, once and
    within ten minutes. The board stays when the command has ended: `tbhub list` shows it,
    `tbhub stop` stops it. Selectors are described by `tbhub runs --help`; TIME is like `90`, `15m`,
    `2h`, `3d`.

    Keys of `--config` are `description` (or `name`) and the options above with `_` for `-`; other
    keys are ignored with a warning. `--config` counts more than `--config-file`, and an option
    more than both.

    Exits with 3 when a run is not found, 6 when you may not have more boards, 7 when it was not up
    in time (it may still come up), 2 when a bucket or path cannot be read. The board stays then,
    and shows its runs as soon as they can be read.
    """
    from tbhub.api.models import BoardOptions, NewBoard
    from tbhub.client.calls import build
    from tbhub.client.tensorboard import difference_from_request

    words = [*(what or []), *(runs or [])]
    trials = _numbers(trial_ids or [])
    configured = _read_config(config or [], config_file)
    if words or trials:
        for kind in (*_WHAT, "removed"):
            configured.pop(kind, None)
    elif not any(configured.get(kind) for kind in _WHAT):
        raise ValueError("say what to show: tbhub start 7, tbhub start ./runs, tbhub start all")
    if str(context.get_parameter_source("name_template")).endswith("ENVIRONMENT"):
        name_template = configured.get("template", name_template)
    given = {
        "runs": selector(words) or None,
        "trials": trials or None,
        "name": name,
        "key": key,
        "reuse": reuse or None,
        "follow": follow or None,
        "workspace": workspace,
        "template": name_template,
        "group_by": group_by,
        "hide_grouped": hide_grouped or None,
        "samples": samples,
        "requests_per_minute": requests_per_minute,
        "idle_timeout": _seconds("--idle-timeout", idle_timeout),
        "no_data_timeout": _seconds("--no-data-timeout", no_data_timeout),
        "max_runtime": _seconds("--max-runtime", max_runtime),
    }
    fields = configured | {field: value for field, value in given.items() if value is not None}
    options = {field: fields.pop(field, None) for field in BoardOptions.model_fields}
    new = build(NewBoard, **fields, options=build(BoardOptions, **options))
    patience = duration(timeout)
    with connect() as hub:
        board = create_board(hub, new)
        if new.key is not None and (difference := difference_from_request(board, new)):
            print(f"tbhub: {plain(difference)}", file=sys.stderr)
        if not detach:
            open_when_up(hub, board, new, patience, browser, wait=wait is not False, strict=strict)
            return
        print(board.id, flush=True)
        if wait:
            _check(_wait(hub, board, patience, silent=True), strict=strict)


def open_when_up(
    hub: Hub,
    board: Board,
    new: NewBoard,
    patience: float,
    browser: bool,
    *,
    wait: bool = True,
    strict: bool = True,
) -> None:
    """Print what happens until a board is up, then its address, and open it.

    A board that has the key of `new`, or is reused, may be up: its log is of an earlier start.
    """
    from tbhub.client.tensorboard import UP

    is_found = board.state in UP and (new.key is not None or new.reuse)
    named = f"TensorBoard ({plain(board.name)}) (id: {board.id})"
    print(f"Found {named}" if is_found else f"Scheduling {named}…", flush=True)
    if wait:
        board = _wait(hub, board, patience, silent=is_found)
        _check(board, strict=strict)
    print(f"TensorBoard is running at: {board.url}", flush=True)
    open_board_page(hub, board, browser)


def create_board(hub: Hub, new: NewBoard) -> Board:
    """Create a board.

    Raises:
        NotFound: The hub does not know one of the runs. If there is a directory of that name, the
            message says how to write that.
    """
    from tbhub.api.problems import NotFound

    try:
        return hub.create_board(new)
    except NotFound as error:
        words = unknown_words(new.runs or "", error)
        path = next((word for word in words if "/" not in word and os.path.isdir(word)), None)
        if path is None:
            raise
        # Whatever else may be called so: there is a directory.
        unknown = error.message.partition(". ")[0].removesuffix(".")
        raise NotFound(f"{unknown}; for the directory write ./{path}", **error.details) from None


def _wait(hub: Hub, board: Board, patience: float, *, silent: bool) -> Board:
    """The board when it is up; what happens until then is told as it happens."""
    from tbhub.client.errors import UnexpectedStatusException, WaitTimeout
    from tbhub.client.tensorboard import ENDED, UP, ending, has_looked

    telling = None if silent else _Telling(hub, board)
    end = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        if telling:
            telling.tell()
        if board.state in UP and has_looked(board):
            return board
        if board.state in ENDED:
            raise UnexpectedStatusException(ending(board), board.state)
        left = end - time.monotonic()
        if left <= 0 and board.state in UP:
            return board
        if left <= 0:
            raise WaitTimeout(
                f"TensorBoard ({board.name}) is {board.state} after {patience:g} s; it may still "
                f"come up: `tbhub logs -f {board.id[:8]}`"
            )
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        board = hub.board(board.id)


def _check(board: Board, *, strict: bool) -> None:
    """Tell what a board waits for; fail where that cannot be read."""
    from tbhub.client.errors import SourceUnreadable
    from tbhub.client.tensorboard import check_readable

    try:
        check_readable(board, strict=True)
    except SourceUnreadable as error:
        if strict:
            raise
        print(f"tbhub: warning: {plain(error.message)}", file=sys.stderr)
    else:
        if board.message:
            print(f"TensorBoard ({plain(board.name)}): {plain(board.message)}", file=sys.stderr)


class _Telling:
    """Prints the lines of a board's log, each once; of a board started anew not the old ones."""

    def __init__(self, hub: Hub, board: Board) -> None:
        self._hub = hub
        self._board = board
        self._since = board.started - _JUST_BEFORE if board.started else None
        self._after: int | None = None

    def tell(self) -> None:
        since = self._since if self._after is None else None
        for line in self._hub.logs(self._board.id, since=since, after=self._after).lines:
            self._after = line.id
            between = " " if line.text[:1].islower() else ": "
            text = f"TensorBoard ({self._board.name}){between}{line.text}"
            print(plain(text), flush=True, file=sys.stderr if line.level == "error" else None)


def _read_config(pairs: list[str], file: str | None) -> dict[str, Any]:
    """Return the fields of a board that a configuration gives; warn of keys without a meaning."""
    if not pairs and file is None:
        return {}
    from tbhub.catalog.selection import is_uri
    from tbhub.cli.board_config import read_board_config
    from tbhub.client.paths import absolute, absolute_paths

    found = read_board_config(pairs, file)
    for key in found.ignored:
        print(f"tbhub: warning: {plain(key)} has no meaning here and is ignored", file=sys.stderr)
    values = dict(found.values)
    if "runs" in values:
        values["runs"] = absolute_paths(values["runs"])
    for kind in ("added", "removed"):
        if kind in values:
            values[kind] = [absolute_paths(each) for each in values[kind]]
    if "uris" in values:
        values["uris"] = [uri if is_uri(uri) else absolute(uri) for uri in values["uris"]]
    return values


def _numbers(words: list[str]) -> list[int]:
    """The runs of ``-t 3 4`` and ``-t 3,4``."""
    found = [part for word in words for part in word.replace(",", " ").split()]
    for part in found:
        if not (part.isascii() and part.isdigit() and int(part)):
            raise ValueError(
                f"-t takes the numbers of runs, not {part}: write other things before it, like "
                "tbhub start exp:vgg -t 3 4"
            )
    return [int(part) for part in found]


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return duration(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}; 0 is no limit") from None
