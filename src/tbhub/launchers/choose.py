"""The launcher that a hub is told to use: ours by name, others' by entry point.

A package adds a launcher by an entry point of the group ``tbhub.launchers`` that names a class as
`base.LauncherClass` says:

    [project.entry-points."tbhub.launchers"]
    nomad = "tbhub_nomad:NomadLauncher"
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from pydantic import ValidationError

from tbhub.errors import TbhubError
from tbhub.launchers.base import Launcher, LauncherClass, Options, Site

GROUP = "tbhub.launchers"
_OURS = {
    "docker": "tbhub.launchers.docker:DockerLauncher",
    "kubernetes": "tbhub.launchers.kubernetes:KubernetesLauncher",
    "local": "tbhub.launchers.local:LocalLauncher",
    "ray": "tbhub.launchers.ray:RayLauncher",
    "slurm": "tbhub.launchers.slurm:SlurmLauncher",
}


class UnknownLauncherError(TbhubError, ValueError):
    """There is no such launcher, or it cannot be loaded."""


class OptionsError(TbhubError, ValueError):
    """An option of a launcher that cannot be."""


def launchers() -> list[str]:
    """The names of all launchers there are."""
    return sorted({*_OURS, *(each.name for each in entry_points(group=GROUP))})


def check(name: str, options: Mapping[str, Any]) -> Options:
    """The options of a launcher, checked.

    Raises:
        UnknownLauncherError: There is no launcher of this name.
        OptionsError: One of them cannot be; in one sentence.
    """
    model = _load(name).Options
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        raise OptionsError(_sentence(name, model, error)) from None


def make_launcher(name: str, options: Mapping[str, Any], site: Site) -> Launcher:
    """The launcher of a hub.

    Raises:
        UnknownLauncherError, OptionsError: See `check`.
    """
    return _load(name).make(site, check(name, options))


def _load(name: str) -> LauncherClass:
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        return cast(LauncherClass, getattr(import_module(module), attribute))
    for each in entry_points(group=GROUP, name=name):
        try:
            return cast(LauncherClass, each.load())
        except (ImportError, AttributeError) as error:
            text = f"launcher {name} cannot be loaded from {each.value}: {error}"
            raise UnknownLauncherError(text) from error
    raise UnknownLauncherError(
        f"there is no launcher {name!r}{_meant(name, launchers())}; there are: "
        f"{', '.join(launchers())}"
    )


def _sentence(name: str, model: type[Options], error: ValidationError) -> str:
    found = []
    for each in error.errors(include_url=False):
        option = ".".join(map(str, each["loc"]))
        if each["type"] == "extra_forbidden":
            there = sorted(model.model_fields)
            meant = _meant(option, there)
            rest = f"; it has: {', '.join(there)}" if there else "; it has none"
            found.append(f"launcher {name} has no option {option!r}{meant}{rest}")
            continue
        text = each["msg"].removeprefix("Value error, ")
        what = f"option {option!r}" if option else "the options"
        found.append(f"{what} of launcher {name}: {text}")
    return "; ".join(found)


def _meant(text: str, there: list[str]) -> str:
    close = difflib.get_close_matches(text, there, 1)
    return f" (did you mean {close[0]}?)" if close else ""
