"""What ``import tbhub`` costs and promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tbhub

HEAVY = ["numpy", "google.protobuf", "torch", "tensorboard", "tensorflow", "PIL", "rich", "typer"]


@pytest.mark.parametrize("package", ["tbhub", "tbhub.compat.tensorboardX", "tbhub.compat.torch"])
def test_logging_floats_loads_nothing_heavy(tmp_path: Path, package: str) -> None:
    script = f"""
import sys
from {package} import SummaryWriter
with SummaryWriter({str(tmp_path)!r}) as writer:
    writer.add_scalar("loss", 0.5, 1)
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_public_names() -> None:
    assert sorted(tbhub.__all__) == sorted(tbhub._HOMES)
    for name in tbhub.__all__:
        assert getattr(tbhub, name).__module__.startswith("tbhub")
        assert name in dir(tbhub)
    with pytest.raises(AttributeError, match="nothing"):
        _ = tbhub.nothing


def test_everything_public_is_documented() -> None:
    for name in tbhub.__all__:
        thing = getattr(tbhub, name)
        assert thing.__doc__, name
        for attribute, member in vars(thing).items() if isinstance(thing, type) else ():
            if not attribute.startswith("_") and callable(member):
                assert member.__doc__, f"{name}.{attribute}"
