"""Tags as tensorboardX writes them."""

from __future__ import annotations

import re
from functools import lru_cache

_INVALID_CHARACTERS = re.compile(r"[^-/\w.]")


# Scripts log to the same few tags for hours; a bound, so that memory does not grow with the tags.
@lru_cache(maxsize=4096)
def clean_tag(tag: str) -> str:
    """A tag with what TensorFlow's graphs could not name replaced by ``_``, and no leading ``/``.

    What is not a string comes back as it is: the writer refuses it with a proper error.
    """
    return _INVALID_CHARACTERS.sub("_", tag).lstrip("/") if isinstance(tag, str) else tag
