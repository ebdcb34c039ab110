"""A board's state as `TensorBoard.status` returns it: equal to our word and to PAI's."""

from __future__ import annotations

from tbhub.api.models import State

# A board that was killed, or whose time is over, does not start again: PAI has that when deleted.
PAI_WORDS = {
    State.QUEUED: "Pending",
    State.STARTING: "Creating",
    State.WAITING: "Running",
    State.RUNNING: "Running",
    State.STOPPING: "Stopping",
    State.STOPPED: "Stopped",
    State.TERMINATED: "Deleted",
    State.FAILED: "Creating_Failed",
}


class BoardStatus(str):
    """One of `State`, as text: ``"RUNNING"``. It compares equal to PAI's word, too: ``"Running"``.

    In sets and dicts it is found by our word alone, because a value has one hash; lists and tuples
    compare, so that ``status in ["Stopped", "Deleted"]`` does what PAI's scripts expect.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        return str.__eq__(self, other) or str.__eq__(other, PAI_WORDS[State(str(self))]) is True

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        return not self == other

    __hash__ = str.__hash__
