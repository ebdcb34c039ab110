"""The hub that commands would ask, for a ``hub://`` place that nobody has given one for.

As `tbhub.client.connection` has it, which this room must not know: what ``tbhub login`` has stored,
then the hub of this machine. Both are small files of JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs


def known_hub(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of the hub that is known on this machine; empty if none is."""
    logins = _read(Path(platformdirs.user_config_dir("tbhub"), "logins.json"))
    home = environ.get("TBHUB_HOME") or platformdirs.user_data_dir("tbhub")
    running = _read(Path(os.path.expanduser(home), "connection.json"))
    latest = logins[-1] if isinstance(logins, list) and logins else running
    if not isinstance(latest, dict):
        return {}
    found = {name: latest[name] for name in ("url", "token") if isinstance(latest.get(name), str)}
    for name, variable in (("token", "TBHUB_TOKEN"), ("attempt", "TBHUB_ATTEMPT")):
        if environ.get(variable):
            found[name] = environ[variable]
    return found if "url" in found else {}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
