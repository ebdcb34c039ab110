"""The launcher a hub is told to use: ours, or another package's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbhub.launchers.base import Site
from tbhub.launchers.choose import (
    OptionsError,
    UnknownLauncherError,
    check,
    launchers,
    make_launcher,
)
from tbhub.launchers.local import Local, LocalLauncher

SITE = Site("0123456789ab", Path("/nowhere"))


def test_ours_are_known_by_name() -> None:
    assert isinstance(make_launcher("local", {}, SITE), LocalLauncher)
    assert check("local", {}) == Local()


def test_what_is_unknown_is_named_with_what_there_is() -> None:
    with pytest.raises(UnknownLauncherError) as caught:
        make_launcher("lokal", {}, SITE)
    assert "no launcher 'lokal' (did you mean local?); there are: " in str(caught.value)
    with pytest.raises(OptionsError) as wrong:
        check("local", {"partition": "x"})
    assert str(wrong.value) == "launcher local has no option 'partition'; it has none"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's, installed, that adds launchers."""
    (tmp_path / "tbhub_nomad.py").write_text(
        "from pydantic import Field\n"
        "from tbhub.launchers.base import Options\n"
        "from tbhub.launchers.local import LocalLauncher\n"
        "class Nomad(Options):\n"
        "    region: str = 'here'\n"
        "    slots: int = Field(default=1, ge=1)\n"
        "class NomadLauncher(LocalLauncher):\n"
        "    name = 'nomad'\n"
        "    Options = Nomad\n"
        "    @classmethod\n"
        "    def make(cls, site, options):\n"
        "        made = cls(site.directory)\n"
        "        made.options = options\n"
        "        return made\n"
    )
    about = tmp_path / "tbhub_nomad-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tbhub-nomad\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[tbhub.launchers]\nnomad = tbhub_nomad:NomadLauncher\nbroken = tbhub_nomad:Nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("package")
def test_others_come_by_entry_point() -> None:
    assert {"local", "nomad"} <= set(launchers())
    made = make_launcher("nomad", {"slots": 2}, SITE)
    assert (made.name, made.options.slots) == ("nomad", 2)  # type: ignore[attr-defined]
    with pytest.raises(UnknownLauncherError, match="cannot be loaded from tbhub_nomad:Nothing"):
        check("broken", {})


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"regoin": "x"}, "has no option 'regoin' (did you mean region?); it has: region, slots"),
        ({"slots": 0}, "option 'slots' of launcher nomad: Input should be greater than or equal"),
        ({"slots": "many"}, "option 'slots' of launcher nomad"),
    ],
)
def test_options_are_checked(options: dict[str, object], said: str) -> None:
    with pytest.raises(OptionsError) as caught:
        check("nomad", options)
    assert said in str(caught.value)
