"""tensorboardX's TorchVis: one call, several writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tbhub.compat.tensorboardX.writer import SummaryWriter


def _visdom(**_: Any) -> Any:
    raise NotImplementedError(
        "TorchVis: visdom is not supported; use the format 'tensorboard', or tensorboardX itself"
    )


vis_formats: dict[str, Callable[..., Any]] = {"tensorboard": SummaryWriter, "visdom": _visdom}


class TorchVis:
    """Passes every call on to the writers of the registered formats."""

    def __init__(self, *args: str, **init_kwargs: Any) -> None:
        """Registers formats; ``tensorboard`` when none is named."""
        self.subscribers: dict[str, Any] = {}
        self.register(*args, **init_kwargs)

    def register(self, *args: str, **init_kwargs: Any) -> None:
        """Opens a writer for each format, with the dict of arguments that bears its name."""
        for name in args or ("tensorboard",):
            if name in vis_formats and name not in self.subscribers:
                self.subscribers[name] = vis_formats[name](**init_kwargs.get(name, {}))

    def unregister(self, *args: str) -> None:
        """Closes the writers of some formats."""
        for name in args:
            self.subscribers.pop(name).close()

    def __getattr__(self, attr: str) -> Callable[..., None]:
        subscribers = self.__dict__.get("subscribers", {})
        if not any(hasattr(each, attr) for each in subscribers.values()):
            raise AttributeError(f"no writer of TorchVis has {attr!r}")

        def call_all(*args: Any, **kwargs: Any) -> None:
            for each in subscribers.values():
                getattr(each, attr)(*args, **kwargs)

        return call_all

    def __del__(self) -> None:
        for each in self.__dict__.get("subscribers", {}).values():
            each.close()
