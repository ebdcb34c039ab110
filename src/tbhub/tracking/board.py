"""The board of a run or an experiment, as PAI's ``estimator.tensorboard()``."""

from __future__ import annotations

from tbhub.catalog.selection import quote
from tbhub.client.hub import Hub
from tbhub.client.tensorboard import TensorBoard
from tbhub.tracking.run import Run


def tensorboard(
    run_or_experiment: Run | str | int, *, wait: bool = True, hub: Hub | None = None
) -> TensorBoard:
    """Opens the board of a run or an experiment, or the one that there is.

    Args:
        run_or_experiment: A `Run`; or an experiment, by its name or its number. Runs that come to
            an experiment later are shown, too.
        wait: Return when the board is up.
        hub: Which hub; see `Hub`.

    Raises:
        NotFound: There is no such experiment.
        HubUnreachable: No hub answers.
    """
    what = run_or_experiment
    if isinstance(what, Run):
        if what.id is None:
            return TensorBoard.create(uri=what.logdir, wait=wait, reuse=True, hub=hub)
        return TensorBoard.create(trials=what.id, wait=wait, reuse=True, hub=hub)
    if isinstance(what, int):
        return TensorBoard.create(experiments=what, wait=wait, reuse=True, follow=True, hub=hub)
    selector = f"exp:{quote(what)}"
    return TensorBoard.create(runs=selector, wait=wait, reuse=True, follow=True, hub=hub)
