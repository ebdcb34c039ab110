"""The address of a run, printed when it begins and when it ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tbhub
from support.hub import HubProcess
from tbhub.tracking.announce import inform

TBHUB = [sys.executable, "-c", "from tbhub.cli.main import main; main()"]
RUN = "import tbhub\nwith tbhub.Run(name='b') as run: run.log_metrics({'x': 1})"


def printed(*command: str, **environment: str) -> list[str]:
    """What a command writes to standard error."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=90, env={**os.environ, **environment}
    )
    return done.stderr.splitlines()


def test_a_command_that_fails_is_told_with_its_code(hub: HubProcess) -> None:
    said = printed(*TBHUB, "run", "--name", "a", "--", "sh", "-c", "echo own >&2; exit 3")
    address = f"{hub.url}/runs/1"
    assert said == [
        f"tbhub: View run a at {address}",
        "own",
        f"tbhub: Run a failed with exit code 3: {address}",
    ]


def test_a_command_that_is_killed_is_told_with_the_signal(hub: HubProcess) -> None:
    said = printed(*TBHUB, "run", "--name", "a", "--", "sh", "-c", "kill -TERM $$")
    assert said[-1] == f"tbhub: Run a was killed by SIGTERM: {hub.url}/runs/1"


def test_a_command_that_is_not_there_has_an_address_too(hub: HubProcess) -> None:
    said = printed(*TBHUB, "run", "--name", "a", "--", "no-such-command")
    assert said[1:] == [
        "tbhub: no-such-command: No such file or directory",
        f"tbhub: Run a failed with exit code 127: {hub.url}/runs/1",
    ]


def test_a_run_inside_a_command_is_told_once(hub: HubProcess) -> None:
    said = printed(*TBHUB, "run", "--name", "a", "--", sys.executable, "-c", RUN)
    assert [line for line in said if "/runs/" in line] == [
        f"tbhub: View run a at {hub.url}/runs/1",
        f"tbhub: Run a finished: {hub.url}/runs/1",
    ]


def test_a_run_of_a_program_is_told_once_and_never_with_the_token(hub: HubProcess) -> None:
    said = printed(sys.executable, "-c", RUN)
    assert said == [
        f"tbhub: View run b at {hub.url}/runs/1",
        f"tbhub: Run b finished: {hub.url}/runs/1",
    ]
    assert hub.token not in "".join(said)


def test_a_quiet_run_prints_nothing_but_warnings(hub: HubProcess) -> None:
    assert printed(sys.executable, "-c", RUN, TBHUB_QUIET="1") == []
    assert printed(*TBHUB, "run", "--", "true", TBHUB_QUIET="1") == []
    (said,) = printed(*TBHUB, "run", "--", "true", TBHUB_QUIET="1", TBHUB_URL="http://127.0.0.1:9")[
        :1
    ]
    assert "goes on without a hub" in said


def test_other_ranks_print_nothing(hub: HubProcess) -> None:
    shared = {"RANK": "1", "TBHUB_RUN_KEY": "job"}
    assert printed(sys.executable, "-c", RUN, **shared) == []
    assert printed(*TBHUB, "run", "--", "true", **shared) == []


def test_a_run_that_no_hub_knows_has_no_address(
    nobody: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tbhub.Run(offline=True)
    with pytest.warns(tbhub.TbhubWarning, match="tbhub sync"):
        run.finish()
    assert "View run" not in capsys.readouterr().err


def test_a_name_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    inform("View run a\x1b[2Jb\nc")
    assert (
        capsys.readouterr().err
        == "tbhub: View run a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c\n"
    )
