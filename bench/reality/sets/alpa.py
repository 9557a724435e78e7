# SPDX-License-Identifier: Apache-2.0
"""Alpa's artifact on V100 16 GB: 8-layer GPT in one node, and GPT of 1.3B to 15B in pipelines.

Rows whose plan a solver found (auto_sharding, alpa_intra_only), or whose micro-batches are not
said, have no configuration to price, and Wide-ResNet has no writer here.
"""
import statistics

from rows import Row, gpt, nodes, table, training, whole

LEVELS = {"data_parallel": 0, "zero_2": 2, "zero_3": 3}
# dp, tp, pp where the artifact's suite names equal stages.
PLANS = {("1.3B", "megatron"): (2, 1, 2), ("6.7B", "megatron"): (1, 2, 8),
         ("760M", "alpa_auto"): (1, 1, 2), ("15B", "alpa_auto"): (2, 4, 4)}
# A node has one port of 25 Gb/s. The preset has four; what crosses from stage to stage of these
# rows uses one.
NETWORK = ["--set", "network.bandwidth=3.125GB/s"]


def common(gpus, sequence, strategy):
    """XLA fuses pointwise ops; scale and mask, bias and GELU are said here."""
    return [*training(nodes("dgx-1-v100", gpus), sequence), "--precision", "fp16", "--recompute",
            "full", "--attention", "products", "--fuse", "bias-gelu", "--fuse",
            "Add(Mul(x, c), m)", "--strategy", strategy]


def model_of(line):
    """Arguments of transformer_onnx.py."""
    return gpt(line["layers"], line["hidden"], line["heads"], line["vocab"], line["seq_len"],
               "products")


def intra_op(data):
    """Data parallelism and ZeRO on 1, 2, 4 GPUs."""
    return [intra_op_row(line) for line in table(data / "published" / "alpa_v100_intra_op.csv")
            if line["model"] == "gpt" and line["method"] in LEVELS]


def intra_op_row(line):
    """A row of the file; the measured time is the mean of three."""
    gpus, batch, layers = whole(line, "gpus", "global_batch", "layers")
    times = [float(line[f"latency_s_{i}"]) for i in (1, 2, 3) if line[f"latency_s_{i}"]]
    strategy = f"dp={gpus},tp=1,pp=1,zero={LEVELS[line['method']]}"
    return Row(id=f"gpt-{gpus}-{line['method']}", model=model_of(line),
               options=common(gpus, line["seq_len"], strategy), samples=batch, micro_batches=1,
               measured_s=statistics.mean(times) if times else None,
               out_of_memory=not times, group=f"gpt-{gpus}",
               measured_gib=float(line["peak_mem_gib"]) if line["peak_mem_gib"] else None,
               facts={"gpus": gpus, "method": line["method"]}, layers=layers, sharers=gpus)


def flops_of(line):
    """Of a step with full recomputation, as the artifact counts them."""
    batch, sequence, hidden, layers, words = whole(line, "global_batch", "seq_len", "hidden",
                                                   "layers", "vocab")
    tokens = batch * sequence
    return 96 * tokens * layers * hidden**2 * (1 + sequence / (6 * hidden)) \
        + 6 * tokens * hidden * words


def end_to_end(data):
    """Rows whose plan is a grid."""
    found = []
    for line in table(data / "published" / "alpa_v100_gpt_e2e.csv"):
        plan = PLANS.get((line["model"], line["method"]))
        if plan and line["num_micro_batches"]:
            found.append(end_to_end_row(line, *plan))
    return found


def end_to_end_row(line, dp, tp, pp):
    """A row of the file; what it measured are FLOP/s."""
    gpus, batch, micro_batches, layers = whole(line, "gpus", "global_batch", "num_micro_batches",
                                               "layers")
    measured = flops_of(line) / (float(line["tflops_per_gpu"]) * 1e12 * gpus)
    strategy = f"dp={dp},tp={tp},pp={pp},zero=0,sp=0,layers=even"
    options = [*common(gpus, line["seq_len"], strategy), "--schedule", "1f1b",
               *(NETWORK if gpus > 8 else [])]
    return Row(id=f"{line['model']}-{line['method']}", model=model_of(line), options=options,
               samples=batch // micro_batches, micro_batches=micro_batches, measured_s=measured,
               group=line["model"], facts={"gpus": gpus, "pp": pp}, layers=layers,
               sharers=dp * tp, stages=pp)
