"""Where hosts report that they are there. For no one else, and not part of the API's schema."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from tbhub.hub.routes.common import TheHub

router = APIRouter(include_in_schema=False)


class Registration(BaseModel):
    """A host, with the one-time token it was started with."""

    host: Annotated[str, Field(max_length=64)]
    token: Annotated[str, Field(max_length=200)]
    address: Annotated[str, Field(max_length=400)]
    pid: int


@router.post("/internal/hosts/register")
async def register(hub: TheHub, new: Registration) -> dict[str, str]:
    """Takes a host's token, for good, and answers the secret by which it will know the hub."""
    secret = await hub.conductor.register_host(new.host, new.token, new.address, new.pid)
    return {"secret": secret}
