"""A real OpenID Connect provider: oidc-provider-mock as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from support.hub import eventually
from support.ports import free_port


@contextmanager
def openid_provider(
    users: Mapping[str, Mapping[str, object]], *, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Run a provider and yield its address.

    Args:
        users: The claims of each user, by subject.
        host: The name in its address; `localhost` makes it another site than a hub on 127.0.0.1.
    """
    port = free_port()
    program = Path(sys.executable).with_name("oidc-provider-mock")
    process = subprocess.Popen(
        [program, "--port", str(port), "--require-nonce", "true"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://{host}:{port}"

    def is_up() -> bool:
        with suppress(httpx2.TransportError):
            return bool(httpx2.get(f"{url}/jwks").is_success)
        return False

    try:
        eventually(is_up, "the provider did not start")
        for subject, claims in users.items():
            answer = httpx2.put(f"{url}/users/{subject}", json=dict(claims))
            assert answer.status_code == 204
        yield url
    finally:
        process.terminate()
        process.wait()
