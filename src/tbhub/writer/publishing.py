"""Waiting at the end of a writer whose log directory is a URI, until all is published."""

from __future__ import annotations

from tbhub.writer.event_file import warn

PUBLISHING_SECS = 60.0  # that closing waits for a store, unless told


def publish(logdir: str, seconds: float | None = None) -> bool:
    """Waits so long at most; whether all is published. Warns of what is left for later."""
    if "://" not in logdir:
        return True
    from tbhub.publisher.remote_logdir import publish

    left = publish(logdir, PUBLISHING_SECS if seconds is None else seconds)
    if left.files:
        why = f" ({left.problem})" if left.problem else ""
        warn(
            f"{left} not published to {logdir} yet{why}; what is left is kept and tried again, and "
            "`tbhub sync` shows and sends it"
        )
    for each in left.refused:
        warn(f"cannot be published to {logdir}: {each}")
    return not left.files and not left.refused
