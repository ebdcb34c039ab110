"""``tbhub vertex``: runs in a managed TensorBoard of Vertex AI."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from tbhub.cli.event_files import errors
from tbhub.cli.text import count, plain

vertex = typer.Typer(no_args_is_help=True, help="Runs in a managed TensorBoard of Vertex AI.")


@vertex.callback()
def _group() -> None:
    """Keeps `upload` a sub-command."""


@vertex.command()
def upload(
    path: Annotated[str, typer.Argument(help="A directory of runs, or a URI.", metavar="PLACE")],
    tensorboard: Annotated[
        str,
        typer.Option(
            "--tensorboard",
            metavar="NAME",
            help="projects/P/locations/L/tensorboards/T, or a display name with --base.",
        ),
    ],
    experiment: Annotated[
        str, typer.Option("--experiment", metavar="NAME", help="What is sent together.")
    ],
    base: Annotated[
        str,
        typer.Option(
            "--base", metavar="URI", help="Where it is noted which TensorBoard a name means."
        ),
    ] = "",
    project: Annotated[str, typer.Option("--project", help="Of Google Cloud.")] = "",
    location: Annotated[str, typer.Option("--location", help="Its region.")] = "us-central1",
    once: Annotated[
        bool, typer.Option("--once", help="Send what is there, and wait for nothing more.")
    ] = False,
) -> None:
    """Send runs to Vertex AI, what is there and then what is new, until interrupted.

    - `tbhub vertex upload runs --tensorboard projects/P/locations/L/tensorboards/1 --experiment e`
    - `tbhub vertex upload runs --tensorboard team --base gs://bucket/out --experiment e --once`

    It may be ended and begun again: what Vertex has is not sent twice. Scalars are sent.
    """
    from tbhub.integrations.vertex import TensorboardCapability, connect, location_of
    from tbhub.integrations.vertex_upload import Uploader
    from tbhub.integrations.vertex_upload import upload as send

    whole = location_of(tensorboard)
    if whole is None and not base:
        raise typer.BadParameter("a display name needs --base, a directory in a bucket")
    client = connect(whole or location)
    meant = TensorboardCapability(tensorboard, base, project, location).get_or_create(client)
    uploader = Uploader(client, meant, experiment)
    print(f"sending to {meant}, experiment {plain(experiment)}", flush=True)

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def progress(run: str, points: int) -> None:
        if points:
            print(f"{plain(run)}: {count(points, 'point')}", flush=True)

    send(uploader, path, stop=None if once else stop, progress=progress)
    errors.print("everything there was has been sent")
