"""Who asks, and what they may.

A role says what a person may do, a scope what one of their tokens may, a workspace's role what
they may there. All three must allow it. Admins see everything; others see the workspaces they are
members of and the boards they own. What may not be seen is `NotFound`; what may be seen but not be
done is `Forbidden`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tbhub.api.models import Role, Scope
from tbhub.api.problems import Forbidden, NotFound
from tbhub.texts import Message, text

_ROLES: Mapping[Role, int] = {"viewer": 0, "member": 1, "admin": 2}
_SCOPES: Mapping[Scope, int] = {"read": 0, "write": 1, "admin": 2}
_NOWHERE: Mapping[int, Role] = MappingProxyType({})


@dataclass(frozen=True)
class Caller:
    """Who asks. Made anew for each request, from what is known of the token for some seconds.

    Args:
        workspaces: The caller's role in each workspace they are a member of.
        share: The id of the one board that a share link opens; such a caller may do nothing else.
        token_id: The row of the token they came with; None without authentication.
    """

    user_id: int
    name: str
    role: Role
    scope: Scope
    workspaces: Mapping[int, Role] = field(default_factory=lambda: _NOWHERE)
    share: str | None = None
    token_id: int | None = None

    @property
    def is_admin(self) -> bool:
        """True for an admin with a token that may do what admins do."""
        return self.role == "admin" and self.scope == "admin" and self.share is None

    @property
    def visible(self) -> frozenset[int] | None:
        """The workspaces whose runs may be seen; None: all of them."""
        if self.share is not None:
            return frozenset()
        return None if self.role == "admin" else frozenset(self.workspaces)

    def may_see(self, workspace_id: int) -> bool:
        """Whether the runs of a workspace may be seen."""
        visible = self.visible
        return visible is None or workspace_id in visible

    def may(self, scope: Scope, role: Role = "viewer") -> bool:
        """Whether both the token's scope and the person's role suffice."""
        if self.share is not None:
            return False
        return _SCOPES[self.scope] >= _SCOPES[scope] and _ROLES[self.role] >= _ROLES[role]

    def may_write(self, workspace_id: int) -> bool:
        """Whether runs and logdirs of a workspace may be changed."""
        return self.may("write", "member") and self._is(workspace_id, "member")

    def may_manage(self, workspace_id: int) -> bool:
        """Whether a workspace's members may be changed: its admins, and the hub's."""
        return self.may("write", "member") and self._is(workspace_id, "admin")

    def _is(self, workspace_id: int, role: Role) -> bool:
        if self.role == "admin":
            return True
        own = self.workspaces.get(workspace_id)
        return own is not None and _ROLES[own] >= _ROLES[role]

    def require(self, scope: Scope, role: Role = "viewer") -> None:
        """Raises `Forbidden`, with what is missing, unless `may`."""
        if self.may(scope, role):
            return
        if self.share is not None:
            raise Forbidden(text("access.share"))
        if _ROLES[self.role] < _ROLES[role]:
            values = {"role": _text(role), "name": self.name, "own": _text(self.role)}
            raise Forbidden(text("access.role", **values), role=role)
        raise Forbidden(text("access.scope", scope=scope, own=self.scope), scope=scope)

    def require_write(self, workspace_id: int, what: str = "workspace") -> None:
        """Raises `NotFound` where a workspace may not be seen, `Forbidden` where not be changed."""
        self._require(workspace_id, what, "member")

    def require_manage(self, workspace_id: int, what: str = "workspace") -> None:
        """As `require_write`, for what only a workspace's admins do."""
        self._require(workspace_id, what, "admin")

    def _require(self, workspace_id: int, what: str, role: Role) -> None:
        if not self.may_see(workspace_id):
            raise NotFound(f"no such {what}")
        self.require("write", "member")
        if not self._is(workspace_id, role):
            own = self.workspaces.get(workspace_id, "viewer")
            values = {"role": _text(role), "name": self.name, "own": _text(own)}
            raise Forbidden(text("access.workspace_role", **values))

    def may_see_board(self, board_id: str, owner_id: int) -> bool:
        """Return whether a board may be seen: by its owner, by admins, or by its share link.

        Its data needs a right to each of its sources, too: see `board_access`.
        """
        if self.share is not None:
            return self.share == board_id
        return self.role == "admin" or owner_id == self.user_id


def _text(role: Role) -> Message:
    return text(f"role.{role}")
