"""Small trainings whose last line is what they have logged: ``{run: {tag: [[step, value]]}}``.

Each is written for its framework alone; how it logs is filled in, by the framework's own means or
by ours, and that is where tags and directories differ.
"""

from __future__ import annotations

TORCH = """
import json, os
import torch
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(os.environ["TBHUB_LOGDIR"])
model = torch.nn.Linear(1, 1)
descent = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 32).unsqueeze(1)
losses = []
for step in range(10):
    descent.zero_grad()
    loss = (model(x) - 2 * x).square().mean()
    loss.backward()
    descent.step()
    writer.add_scalar("loss/train", loss, step)
    losses.append([step, loss.item()])
writer.close()
print(json.dumps({".": {"loss/train": losses}}))
"""

LIGHTNING = """
import json, os
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
{imports}
steps, epochs = [], []
class Line(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        self.line = torch.nn.Linear(1, 1)
    def training_step(self, batch, index):
        loss = (self.line(batch[0]) - batch[1]).square().mean()
        self.log("loss", loss)
        steps.append([self.global_step, loss.item()])
        return loss
    def validation_step(self, batch, index):
        self.log("val_loss", (self.line(batch[0]) - batch[1]).square().mean())
    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            value = self.trainer.callback_metrics["val_loss"].item()
            epochs.append([self.global_step - 1, value])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])
x = torch.linspace(-1, 1, 32).unsqueeze(1)
data = DataLoader(TensorDataset(x, 2 * x), batch_size=8)
trainer = pl.Trainer(logger={logger}, accelerator="cpu", max_epochs=3, log_every_n_steps=1,
                     enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Line(lr=0.1), data, data)
print(json.dumps({{"{run}": {{"loss": steps, "val_loss": epochs}}}}))
"""

TRANSFORMERS = """
import json, os
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
{imports}
tokens = torch.arange(8)
data = [{{"input_ids": tokens, "labels": tokens}}] * 8
config = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1)
arguments = TrainingArguments("out", max_steps=4, per_device_train_batch_size=4, logging_steps=1,
                              eval_strategy="steps", eval_steps=2, save_strategy="no",
                              use_cpu=True, disable_tqdm=True, {arguments})
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data,
                  {options})
trainer.train()
def said(name):
    return [[line["step"], line[name]] for line in trainer.state.log_history if name in line]
train, test = said("loss"), said("eval_loss")
print()
print(json.dumps({logged}))
"""

KERAS = """
import json, os
{imports}
import numpy as np
x = np.linspace(-1, 1, 40).reshape(-1, 1)
model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(learning_rate=0.1), "mse")
history = model.fit(x, 2 * x, batch_size=8, epochs=3, validation_split=0.2, verbose=0,
                    callbacks=[{callback}]).history
def series(name):
    return [list(pair) for pair in enumerate(history[name])]
print(json.dumps({{"train": {{"epoch_loss": series("loss")}},
                  "validation": {{"epoch_loss": series("val_loss")}}}}))
"""

# Two processes that train one model; they meet in a file of a directory.
DDP = """
import os
import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter
def train(rank):
    meeting = "file://{directory}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with SummaryWriter(os.environ["TBHUB_LOGDIR"]) as writer:
        for step in range(20):
            x = torch.randn(8, 1)
            loss = (model(x) - 2 * x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            writer.add_scalar(f"loss{{rank}}", loss.item(), step)
            writer.add_scalar(f"weight{{rank}}", model.module.weight.item(), step)
    dist.destroy_process_group()
if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
"""
DDP_SPAWNED = (
    DDP
    + """
import torch.multiprocessing as multiprocessing
context = multiprocessing.get_context("fork")
ranks = [context.Process(target=train, args=(rank,)) for rank in range(2)]
for each in ranks:
    each.start()
for each in ranks:
    each.join()
    assert each.exitcode == 0
print(os.environ["TBHUB_LOGDIR"])
"""
)

# A profile of torch's own: a trace beside the event file.
TORCH_PROFILE = """
import os
import torch
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from torch.utils.tensorboard import SummaryWriter
logdir = os.environ["TBHUB_LOGDIR"]
with SummaryWriter(logdir) as writer:
    writer.add_scalar("loss", 1, 1)
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
    on_trace_ready=tensorboard_trace_handler(logdir, "worker"),
) as profiler:
    for _ in range(4):
        torch.ones(50, 50) @ torch.ones(50, 50)
        profiler.step()
"""

TF_SUMMARY = """
import json, os
import tensorflow as tf
with tf.summary.create_file_writer(os.environ["TBHUB_LOGDIR"]).as_default():
    for step in range(10):
        tf.summary.scalar("loss", 1 / (step + 1), step=step)
print(json.dumps({".": {"loss": [[step, 1 / (step + 1)] for step in range(10)]}}))
"""

LOGDIR = 'os.environ["TBHUB_LOGDIR"]'
UNMODIFIED = {
    "torch": TORCH,
    "lightning": LIGHTNING.format(
        imports="from pytorch_lightning.loggers import TensorBoardLogger",
        logger=f"TensorBoardLogger({LOGDIR})",
        run="lightning_logs/version_0",
    ),
    # Transformers 4 is told by an argument, which 5 does not have any more.
    "transformers": TRANSFORMERS.format(
        imports='has = "logging_dir" in TrainingArguments.__dataclass_fields__\n'
        'where = {"logging_dir": os.environ["PAI_OUTPUT_TENSORBOARD"]} if has else {}',
        arguments='report_to="tensorboard", **where',
        options="",
        logged='{".": {"train/loss": train, "eval/loss": test}}',
    ),
}
WITH_TENSORFLOW = {
    "summary": TF_SUMMARY,
    "keras": KERAS.format(
        imports="import keras",
        callback=f"keras.callbacks.TensorBoard({LOGDIR})",
    ),
    # torch is in another environment than TensorFlow, behind it: Keras computes with the one, and
    # its callback writes with the other.
    "keras-torch": KERAS.format(
        imports="import sys; sys.path.append(os.environ['WITH_TORCH'])\nimport keras\n"
        "assert keras.backend.backend() == 'torch'",
        callback=f"keras.callbacks.TensorBoard({LOGDIR})",
    ),
}
# Scripts that have never heard of a run's directory.
UNCHANGED = {
    "torch": TORCH.replace(LOGDIR, ""),
    "lightning": LIGHTNING.format(imports="", logger="True", run="."),
    "transformers": TRANSFORMERS.format(
        imports="",
        arguments='report_to="tensorboard"',
        options="",
        logged='{".": {"train/loss": train, "eval/loss": test}}',
    ),
}
UNCHANGED_WITH_TENSORFLOW = {
    # As an Estimator without a model_dir.
    "temporary": TF_SUMMARY.replace(LOGDIR, "__import__('tempfile').mkdtemp()"),
    "keras": KERAS.format(imports="import keras", callback="keras.callbacks.TensorBoard()"),
}
INTEGRATED = {
    "lightning": LIGHTNING.format(
        imports="from tbhub.integrations.lightning import TbhubLogger",
        logger="TbhubLogger()",
        run="train",
    ),
    "transformers": TRANSFORMERS.format(
        imports="from tbhub.integrations.transformers import TbhubCallback",
        arguments='report_to="none"',
        options="callbacks=[TbhubCallback()]",
        logged='{"train": {"loss": train}, "test": {"loss": test}}',
    ),
    "keras": KERAS.format(
        imports="import keras\nfrom tbhub.integrations.keras import TFKerasTensorBoard",
        callback="TFKerasTensorBoard(update_freq=2, histogram_freq=1)",
    ),
}
