"""A PyTorch training that logs with `TorchWriter`.

``python examples/torch_writer.py`` makes a run of its own, ``tbhub run -- python …`` has it log to
that of the command.
"""

from __future__ import annotations

import torch

from tbhub.integrations.torch import TorchWriter

STEPS = 20


def main() -> None:
    """Fits a line."""
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.linspace(-1, 1, 32).unsqueeze(1)
    writer = TorchWriter()
    writer.run.log_hparams({"lr": 0.1, "optimizer": "sgd"})
    for step in range(STEPS):
        descent.zero_grad()
        loss = (model(x) - 2 * x - 1).square().mean()
        loss.backward()
        descent.step()
        writer.add_scalar("loss", loss, step)
    writer.add_histogram("weight", model.weight, STEPS)
    writer.close()
    print(f"logged to {writer.run.logdir}")


if __name__ == "__main__":
    main()
