"""What can go wrong on this side of the wire; what the hub answers is in `tbhub.api.problems`."""

from __future__ import annotations

from tbhub.errors import TbhubError


class HubUnreachable(TbhubError, ConnectionError):  # noqa: N818 - goes by what went wrong
    """No hub is known, none answers, or what answers is not a hub."""


class WaitTimeout(TbhubError, TimeoutError):  # noqa: N818
    """What was waited for did not happen in time; it may still."""


class UnexpectedStatusException(TbhubError):  # noqa: N818 - the name users of PAI know
    """A board came to a state from which it will not get where it was wanted.

    Args:
        message: What happened, with the reason.
        status: The state it is in.
    """

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class SourceUnreadable(UnexpectedStatusException):
    """What a board was asked to show cannot be read. The board stays and tries again.

    Args:
        message: What cannot be read, why, and the command that would help.
        status: The state the board is in.
        board_id: The board.
    """

    def __init__(self, message: str, status: str, board_id: str) -> None:
        super().__init__(message, status)
        self.board_id = board_id
