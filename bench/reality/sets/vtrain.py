# SPDX-License-Identifier: Apache-2.0
"""vTrain: GPT under Megatron-DeepSpeed on 2 to 512 A100, fp16, full recomputation, 1F1B."""
from rows import OLD_MEGATRON, Row, gpt, nodes, padded_vocabulary, table, training, whole

VOCABULARY = 50257
# What the authors' configuration gives between nodes: 800 Gb/s for 8 GPUs.
NETWORK = ["--set", "network.bandwidth=12.5GB/s"]


def single_node(data):
    """2, 4 and 8 GPUs, without the rows that the host's time was fitted to (data/frameworks)."""
    return [row for row in rows_of(data, "gpt_a100_single_node.csv", []) if not is_fitted(row)]


def is_fitted(row):
    """Is it of the eight whose slope in micro-batches of one sequence is the host's?"""
    of = row.facts
    return (of["gpus"], of["hidden"], of["layers"], of["micro_batch"], of["pp"]) == (2, 1024, 24, 1,
                                                                                    1)


def multi_node(data):
    """64 to 512 GPUs."""
    return rows_of(data, "gpt_a100_multi_node.csv", NETWORK)


def rows_of(data, name, more):
    """All rows of a file."""
    return [row_of(line, more) for line in table(data / "profiles" / "vtrain" / name)]


def row_of(line, more):
    """A row of the file; micro_batch is in sequences."""
    gpus, batch, micro_batch = whole(line, "gpus", "global_batch", "micro_batch")
    hidden, heads, layers, sequence = whole(line, "hidden", "heads", "layers", "seq_len")
    tp, dp, pp = whole(line, "tp", "dp", "pp")
    micro_batches = batch // (dp * micro_batch)
    options = [*training(nodes("dgx-a100", gpus), sequence), *OLD_MEGATRON, *more,
               "--precision", "fp16,grads=weights", "--recompute", "full", "--schedule", "1f1b",
               "--strategy", f"dp={dp},tp={tp},pp={pp},zero=0,sp=0"]
    workload = f"{gpus}-b{batch}-h{hidden}-l{layers}"
    return Row(id=f"{workload}-dp{dp}-tp{tp}-pp{pp}-mb{micro_batch}", options=options,
               model=gpt(layers, hidden, heads, padded_vocabulary(VOCABULARY, tp), sequence,
                         "products"),
               samples=dp * micro_batch, micro_batches=micro_batches,
               measured_s=float(line["iter_time_ms"]) / 1e3, group=workload,
               facts={"gpus": gpus, "tp": tp, "dp": dp, "pp": pp, "micro_batch": micro_batch,
                      "hidden": hidden, "micro_batches": micro_batches, "layers": layers},
               layers=layers, sharers=dp * tp, stages=pp)
