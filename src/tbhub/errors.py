"""Everything tbhub raises or warns of on its own account.

Wrong arguments are plain ``TypeError`` and ``ValueError``, raised at the call and naming the tag.
"""

from __future__ import annotations


class TbhubError(Exception):
    """The root of tbhub's own errors."""


class WriteError(TbhubError, OSError):
    """Events could not be written; they are kept and tried again unless the text says otherwise."""


class NoEventsError(TbhubError, FileNotFoundError):
    """A path was to be read that holds no event files."""


class TbhubWarning(UserWarning):
    """Something a user should know, that does not stop the program."""
