"""A training with Hugging Face's Trainer that logs with `TbhubCallback`. Nothing is downloaded.

``python examples/transformers_callback.py`` makes a run of its own, ``tbhub run -- python …`` has
it log to that of the command.
"""

from __future__ import annotations

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from tbhub.integrations.transformers import TbhubCallback


def main() -> None:
    """Learns to count."""
    tokens = torch.arange(8)
    data = [{"input_ids": tokens, "labels": tokens}] * 8
    size = {"vocab_size": 16, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
    model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=0))
    callback = TbhubCallback()
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            directory,
            max_steps=4,
            per_device_train_batch_size=4,
            learning_rate=0.01,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=2,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(
            model, arguments, train_dataset=data, eval_dataset=data, callbacks=[callback]
        )
        trainer.train()
        trainer.evaluate()
    print(f"logged to {callback.run.logdir}")


if __name__ == "__main__":
    main()
