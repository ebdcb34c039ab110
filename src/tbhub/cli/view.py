"""``tbhub view``: runs in TensorBoard, at once."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.browser import open_address
from tbhub.cli.completion import complete_selectors
from tbhub.cli.named_paths import (
    is_path,
    is_uri,
    may_be_run,
    name_and_path,
    tell_apart,
    without_tensorboard,
)

if TYPE_CHECKING:
    from tbhub.boards.board import Board, Source
    from tbhub.boards.host import Host
    from tbhub.series.follower import Follower

_SMALL_BUDGET = 256 << 20
_IGNORED = "Accepted for TensorBoard's sake; not needed here."


def view(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME:]PATH…|SELECTOR…",
            help="Directories of runs, or event files, here or in a store (s3://, gs://, "
            "az://, oss://); NAME goes before the names of its runs. Or runs of a hub.",
            autocompletion=complete_selectors,
        ),
    ] = None,
    logdir: Annotated[
        list[str] | None, typer.Option("--logdir", help="The same as PATH.", metavar="PATH")
    ] = None,
    logdir_spec: Annotated[
        str | None,
        typer.Option(
            "--logdir_spec", "--logdir-spec", help="NAME:PATH,NAME:PATH,…", metavar="SPEC"
        ),
    ] = None,
    name_template: Annotated[
        str | None,
        typer.Option(
            "--name-template",
            "--template",
            metavar="TEMPLATE",
            help="How runs are named: `{run}_{logdir}_lr={hparams.lr}`.",
            envvar="TBHUB_NAME_TEMPLATE",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="FIELDS",
            help="Show mean, ±std, min and max of runs alike in these: `hparams.lr`, "
            "`lr,batch`, or `all except seed`.",
        ),
    ] = None,
    hide_grouped: Annotated[
        bool, typer.Option("--hide-grouped", help="Show groups only, not the runs in them.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            min=2,
            metavar="N",
            help="Points drawn of a series (1,000; fewer of many runs).",
        ),
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
    port: Annotated[
        str | None,
        typer.Option(
            "--port", help="Default: 6006 or the next free one; 0: any.", envvar="TBHUB_VIEW_PORT"
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on [default: localhost].")
    ] = None,
    bind_all: Annotated[
        bool,
        typer.Option("--bind_all", "--bind-all", help="Listen on all addresses: no login!"),
    ] = False,
    path_prefix: Annotated[
        str, typer.Option("--path_prefix", "--path-prefix", help="What the URL's path begins with.")
    ] = "",
    title: Annotated[
        str, typer.Option("--title", "--window_title", help="What the window is called.")
    ] = "",
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser",
            "--browse/--no-browse",
            help="Open a browser, where there is one.",
        ),
    ] = True,
    job: Annotated[
        str | None,
        typer.Option("--job", help="Runs of this job of the hub, besides the rest.", metavar="JOB"),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            "--experiment", metavar="NAME", help="Runs of this experiment of the hub, likewise."
        ),
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option("-w", "--workspace", help="The workspace in which the hub looks for runs."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory for points: `512M`, `4G` (a quarter of the machine's unless given). "
            "All points stay available.",
            envvar="TBHUB_MEMORY",
        ),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option("--cache/--no-cache", help="Keep what was parsed for the next time."),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the URL and what is loaded as lines of JSON.")
    ] = False,
    samples_per_plugin: Annotated[
        str | None, typer.Option("--samples_per_plugin", hidden=True)
    ] = None,
    reload_interval: Annotated[
        str | None, typer.Option("--reload_interval", hidden=True, help=_IGNORED)
    ] = None,
    load_fast: Annotated[
        str | None, typer.Option("--load_fast", hidden=True, help=_IGNORED)
    ] = None,
    reload_multifile: Annotated[
        str | None, typer.Option("--reload_multifile", hidden=True, help=_IGNORED)
    ] = None,
    interval: Annotated[str | None, typer.Option("--interval", hidden=True, help=_IGNORED)] = None,
) -> None:
    """Show runs in TensorBoard: every point of them, at once, live.

    New points appear by themselves about a second after they were logged; a spike of a single
    step is never sampled away. Runs may come and go while the board is open.

    - `tbhub view runs/`
    - `tbhub view base:runs/a new:runs/b --port 7000`
    - `tbhub view runs/ s3://bucket/runs`
    - `tbhub view runs/ --name-template "{run}_lr={hparams.lr}"`
    - `tbhub view runs/ --group-by "all except seed" --hide-grouped`
    - `tbhub view run343`, `tbhub view run310, run341`, `tbhub view job2300` runs of a hub

    A word that is no path here, and does not look like one, names runs of the hub: a board over
    them is opened, as by `tbhub start --reuse`. A path that does not exist yet is waited for.
    """
    paths = without_tensorboard(paths or [])
    if job or experiment or workspace or not all(map(is_path, paths)) or _are_runs(paths):
        from tbhub.cli.view_runs import ViewOptions, add_groups, view_runs

        local = {
            "--port": port and _is_given(context, "port"),
            "--host": host,
            "--bind_all": bind_all,
            "--path_prefix": path_prefix,
            "--logdir_spec": logdir_spec,
            "--memory": memory and _is_given(context, "memory"),
            "--no-cache": not cache,
        }
        if option := next((option for option, value in local.items() if value), ""):
            raise ValueError(
                f"{option} is for paths, and runs of a hub were named: the hub serves their board."
                f" hint: leave {option} out"
            )
        view_runs(
            add_groups([*paths, *(logdir or [])], job, experiment, workspace),
            ViewOptions(title, name_template, group_by, hide_grouped, samples, requests_per_minute),
            browser=browser,
            as_json=as_json,
        )
        return
    given = [*(paths or []), *(logdir or []), *filter(None, (logdir_spec or "").split(","))]
    if not given or not all(each.strip() for each in given):
        raise ValueError("give a directory of runs: tbhub view runs/")
    if bind_all and host:
        raise ValueError("--host and --bind_all exclude one another")
    prefix = "/" + path_prefix.strip("/") if path_prefix.strip("/") else ""
    budget = _size(memory) if memory else None
    number = _port(port)
    _check_names(name_template, group_by)

    # Until it serves, Ctrl-C ends it on the spot: a KeyboardInterrupt in the midst of an import may
    # get lost.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    from tbhub.boards.sockets import ALL, listen

    address = ALL if bind_all else host or "localhost"
    socket = listen(address, number)
    shown = _host_name() if bind_all else address
    shown = f"[{shown}]" if ":" in shown else shown
    url = f"http://{shown}:{socket.getsockname()[1]}{prefix}/"
    if as_json:
        print(json.dumps({"url": url}), flush=True)
    else:
        print(f"TensorBoard is running at: {url}  (Ctrl-C ends it)", flush=True)

    gc.disable()  # nothing goes while everything is being imported and read; see _settle
    sys.setswitchinterval(0.001)  # threads that read wait for each other less
    from tbhub.boards.board import Board, BoardOptions
    from tbhub.series.follower import Follower
    from tbhub.series.memory import be_frugal

    sources = _sources(given)
    options = BoardOptions(
        title=title,
        template=name_template or "",
        group_by=group_by or "",
        hide_grouped=hide_grouped,
        samples=samples or _samples_of(samples_per_plugin),
        requests_per_minute=requests_per_minute,
    )
    # Pins and colours stay with what is shown, whatever the port was this time.
    places = [(s.name, s.path if is_uri(s.path) else os.path.abspath(s.path)) for s in sources]
    identity = hashlib.sha256(repr(places).encode())
    board_id = identity.hexdigest()[:12]
    if budget is not None and budget < _SMALL_BUDGET:
        be_frugal()
    follower = Follower(budget=budget, use_cache=cache)
    board = Board(board_id, follower, options)
    telling = threading.Thread(
        target=_load_and_tell, args=(board, follower, sources, as_json), daemon=True
    )
    telling.start()

    # What serves is imported while the logs are being read.
    from tbhub.boards.host import Host
    from tbhub.boards.server import serve

    serving = Host(follower, prefix=prefix, single=board_id)
    serving.show(board)
    threading.Thread(target=_settle, args=(serving, follower), daemon=True).start()
    if browser and not as_json:
        threading.Thread(target=open_address, args=(url,), daemon=True).start()
    try:
        serve(serving, socket)
    finally:
        follower.close()


def _is_given(context: typer.Context, name: str) -> bool:
    """Return whether an option is on the command line, not in a variable of the environment."""
    return str(context.get_parameter_source(name)).endswith("COMMANDLINE")


def _sources(given: list[str]) -> list[Source]:
    from tbhub.boards.board import Source

    pairs = list(dict.fromkeys(map(name_and_path, given)))
    unnamed = [path for name, path in pairs if name is None]
    names = dict(zip(unnamed, tell_apart(unnamed), strict=True)) if len(pairs) > 1 else {}
    # Paths with names are shown under each name, as TensorBoard does.
    is_place = len(unnamed) == len(pairs)
    return [
        Source(path, name if name is not None else names.get(path, ""), place=is_place)
        for name, path in pairs
    ]


def _load_and_tell(board: Board, follower: Follower, sources: list[Source], as_json: bool) -> None:
    """Adds the sources and tells on stderr how reading them goes."""
    start = time.monotonic()
    for source in sources:
        if not is_uri(source.path) and not os.path.exists(source.path):
            print(f"tbhub: {source.path} does not exist yet; waiting for it", file=sys.stderr)
        board.add(source)
    live = sys.stderr.isatty() and not as_json
    while not follower.wait_until_loaded(0.1):
        if live:
            loading = follower.loading
            print(
                f"\r\x1b[Kreading {loading.runs_done:,} of {loading.runs_total:,} runs, "
                f"{loading.bytes_done / 1e9:.1f} of {loading.bytes_total / 1e9:.1f} GB",
                end="",
                file=sys.stderr,
                flush=True,
            )
    runs = board.runs
    seconds = time.monotonic() - start
    if as_json:
        print(json.dumps({"loaded": len(runs), "seconds": round(seconds, 3)}), flush=True)
        return
    end = "\r\x1b[K" if live else ""
    if runs:
        plural = "s" * (len(runs) != 1)
        asked = f", with {board.traffic.requests:,} requests" if board.traffic.requests else ""
        print(f"{end}{len(runs):,} run{plural} read in {seconds:.1f} s{asked}", file=sys.stderr)
    else:
        print(f"{end}no runs yet; they are shown as soon as there are any", file=sys.stderr)
    for notice in board.notices():
        print(f"tbhub: {notice.text}", file=sys.stderr)


def _settle(serving: Host, follower: Follower) -> None:
    """Lets the garbage collector work again, and spares it what will be there to the end."""
    follower.wait_until_loaded(10)
    serving.wait_until_imported()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def _are_runs(paths: list[str]) -> bool:
    """Return whether what may be a path to come, or the end of a run's path, names runs."""
    if not paths or not all(map(may_be_run, paths)):
        return False
    from tbhub.cli.view_runs import has_runs

    return has_runs(paths)


def _check_names(name_template: str | None, group_by: str | None) -> None:
    """What cannot be understood is told before anything runs."""
    if name_template:
        from tbhub.catalog.templates import parse_template

        parse_template(name_template)
    if group_by:
        from tbhub.series.group import parse_group_by

        parse_group_by(group_by)


def _port(text: str | None) -> int | None:
    if text is None or text == "default":
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise ValueError(f"--port {text}: a port is a number from 0 to 65535")
    return number


def _size(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    upper = text.strip().upper().removesuffix("B").removesuffix("I")
    try:
        unit = units.get(upper[-1:])
        size = int(upper) if unit is None else int(float(upper[:-1]) * (1 << unit))
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ValueError(f"--memory {text}: write for example 512M or 4G")
    return size


def _samples_of(text: str | None) -> int | None:
    """The number of scalars in TensorBoard's ``scalars=500,images=10``."""
    for part in (text or "").split(","):
        name, _, number = part.partition("=")
        if name.strip() == "scalars" and number.strip().isdigit():
            return int(number) or None
    return None


def _host_name() -> str:
    import socket

    return socket.gethostname()
