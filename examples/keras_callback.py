"""A Keras training that logs with `TFKerasTensorBoard`; here with torch: ``KERAS_BACKEND=torch``.

``python examples/keras_callback.py`` makes a run of its own, ``tbhub run -- python …`` has it log
to that of the command.
"""

from __future__ import annotations

import keras
import numpy as np

from tbhub.integrations.keras import TFKerasTensorBoard


def main() -> None:
    """Fits a line."""
    keras.utils.set_random_seed(0)
    x = np.linspace(-1, 1, 40).reshape(-1, 1)
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(learning_rate=0.1), "mse", metrics=["mae"])
    board = TFKerasTensorBoard(update_freq=2, histogram_freq=1)
    model.fit(
        x,
        2 * x + 1,
        batch_size=8,
        epochs=3,
        validation_split=0.2,
        callbacks=[board],
        verbose=0,
    )
    print(f"logged to {board.run.logdir}")


if __name__ == "__main__":
    main()
