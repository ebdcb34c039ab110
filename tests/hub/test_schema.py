"""Calls made up from the schema, good ones and malformed ones: none may break the hub.

What is answered must be what the schema says: its statuses, its types, its shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.hub import HubProcess
from tbhub import SummaryWriter

# For each operation; malformed ones take their time to be made up.
EXAMPLES = {GenerationMode.POSITIVE: 4, GenerationMode.NEGATIVE: 2}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# These do not end; and the hub would go and look for runs anywhere.
LEFT_OUT = {
    ("GET", "/api/v1/events"),
    ("POST", "/api/v1/series/news"),
    ("POST", "/api/v1/logdirs"),
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where: Path = tmp_path_factory.mktemp("schema")
    for name in ("a", "b"):
        with SummaryWriter(where / "runs" / name) as writer:
            writer.add_scalar("loss", 1.0, 1)
    with HubProcess(where / "home", logdirs=where / "runs", log_level="warning") as hub:
        hub.wait_for_runs(2)
        hub.create_board(runs="all", name="0")
        yield hub


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_call_breaks_the_hub(hub: HubProcess, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{hub.url}/api/v1/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    # The token that is used must not be deleted before the others have been tried.
    operations.sort(key=lambda each: "/tokens" in each.path)
    for operation in operations:
        if (operation.method.upper(), operation.path) not in LEFT_OUT:
            _try(hub, operation, mode)
    assert hub.ask("GET", "/healthz", "").status_code == 200


def _try(hub: HubProcess, operation: Any, mode: GenerationMode) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def call(case: Any) -> None:
        headers = {"authorization": f"Bearer {hub.token}"}
        case.call_and_validate(headers=headers, checks=CHECKS, timeout=30)

    with suppress(Unsatisfiable):  # there is nothing to get wrong
        call()
