# SPDX-License-Identifier: Apache-2.0
"""What a data set yields: measured runs, each with the model and the options to plan it with."""
import csv
import dataclasses

# Tasks of one layer, one device and one micro-batch; they only decide which rows are priced with
# fewer micro-batches than they had (runner.py), never what comes out.
TASKS_OF_LAYER = 90


@dataclasses.dataclass
class Row:
    """One measured run."""
    id: str
    model: tuple            # arguments of transformer_onnx.py, or one path of a model
    options: list           # of `partita plan`, but batch, micro-batches and output
    samples: int            # of one micro-batch, over all devices that share the batch
    micro_batches: int
    measured_s: float       # None: not measured, or it did not fit (out_of_memory)
    group: str              # rows of one group differ in their configuration alone
    measured_gib: float = None
    out_of_memory: bool = False
    facts: dict = dataclasses.field(default_factory=dict)   # for tables of errors by value
    layers: int = 1
    sharers: int = 1        # devices that run each layer: dp x tp x cp
    stages: int = 1

    @property
    def tasks_of_micro_batch(self):
        """About how many tasks a micro-batch adds to the simulated step."""
        return TASKS_OF_LAYER * self.layers * self.sharers


def table(path):
    """Rows of a CSV file as dicts."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def whole(row, *names):
    """Integers of a CSV row."""
    return [int(row[name]) for name in names]


def padded_vocabulary(words, tp, multiple=128):
    """As Megatron-LM pads the embedding: to a multiple of 128 x tp, equal parts of ranks."""
    return -(-words // (multiple * tp)) * multiple * tp


def gpt(layers, hidden, heads, vocabulary, positions, attention):
    """Arguments of transformer_onnx.py."""
    return ("gpt", "--layers", str(layers), "--hidden", str(hidden), "--heads", str(heads),
            "--vocab", str(vocabulary), "--positions", str(positions), "--attention", attention)


def llama(layers, hidden, heads, kv_heads, ffn, vocabulary):
    """Arguments of transformer_onnx.py."""
    return ("llama", "--layers", str(layers), "--hidden", str(hidden), "--heads", str(heads),
            "--kv-heads", str(kv_heads), "--ffn", str(ffn), "--vocab", str(vocabulary),
            "--attention", "op")


def nodes(preset, gpus, per_node=8):
    """A machine of whole nodes, or of a part of one."""
    if gpus % per_node == 0:
        return f"{preset}:{gpus // per_node}"
    if gpus > per_node:
        raise ValueError(f"{gpus} GPUs are no whole nodes of {per_node}")
    return f"{preset}:1x{gpus}"


def training(machine, sequence):
    """Options that all runs of language models share."""
    return ["--mode", "training", "--optimizer", "adam", "--loss", "cross-entropy", "--machine",
            machine, "--bind", f"sequence={sequence}"]


# Megatron-LM before flash attention: attention as products, whose scale and mask go in one kernel
# (its softmax does that too; no plan fuses a softmax), gradients in the type of the weights.
OLD_MEGATRON = ["--framework", "megatron", "--attention", "products", "--fuse", "bias-gelu",
                "--fuse", "Add(Mul(x, c), m)"]
