"""Who makes a run, and who ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tbhub
from tbhub.integrations.ownership import Ownership
from tbhub.integrations.torch import TorchWriter


@pytest.fixture
def joined_here(joined: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TBHUB_RUN_ID", "TBHUB_LOGDIR", "TBHUB_SPOOL_DIR", "TBHUB_HOME"):
        monkeypatch.setenv(name, joined[name])
    return Path(joined["TBHUB_LOGDIR"])


def test_no_framework_is_imported_unasked(environment: dict[str, str]) -> None:
    script = """
import sys
import tbhub, tbhub.integrations
from tbhub.integrations.torch import TorchWriter
frameworks = ["torch", "keras", "lightning", "pytorch_lightning", "transformers", "tensorflow"]
print([name for name in frameworks if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_run_of_the_environment_is_joined(joined_here: Path) -> None:
    writer = TorchWriter()
    assert writer.run.logdir == joined_here
    writer.add_scalar("loss", 0.5, 1)
    writer.add_text("note", "passed through", 1)
    writer.close()
    run = tbhub.load(joined_here)["train"]
    assert run.scalars["loss"].steps.tolist() == [1]
    assert list(run.text) == ["note/text_summary"]


def test_after_reset_another_file_is_written(joined_here: Path) -> None:
    writer = TorchWriter()
    assert isinstance(writer.writer, tbhub.SummaryWriter)
    for step in range(3):
        writer.add_scalar("loss", step, step)
        writer.reset()
    assert len(list((joined_here / "train").iterdir())) == 3
    assert tbhub.load(joined_here)["train"].scalars["loss"].steps.tolist() == [0, 1, 2]


def test_what_a_writer_has_not_is_an_error(joined_here: Path) -> None:
    with pytest.raises(AttributeError, match="add_smell"):
        TorchWriter().add_smell("rose", 1)


def test_a_given_run_is_left_to_its_giver(
    joined_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    with tbhub.Run() as run:
        monkeypatch.setattr(run, "finish", lambda status="finished": ended.append(status))
        writer = TorchWriter(run)
        writer.add_scalar("loss", 1, 1)
        writer.close()
        assert writer.run is run
        assert ended == []
    assert ended == ["finished"]


def test_a_run_is_made_when_needed_and_anew_after_its_end(joined_here: Path) -> None:
    ownership = Ownership(None)
    ownership.finish()
    assert not joined_here.exists()
    first = ownership.run
    ownership.renew()
    assert ownership.run is first
    ownership.finish()
    assert ownership.run is first
    ownership.renew()
    assert ownership.run is not first
