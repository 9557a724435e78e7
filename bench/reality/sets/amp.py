# SPDX-License-Identifier: Apache-2.0
"""AMP: GPT-2 of 24 layers on 16 T4, and on 12 V100 and 4 T4, by plan.

The source names neither precision nor recomputation. Its times of single layers (there, in
gpt2_layers_t4_g4dn.csv) say float16: a T4 that computes logits at 36 TFLOP/s is beyond its peak in
float32. That nothing is recomputed is a guess.
"""
from rows import OLD_MEGATRON, Row, gpt, padded_vocabulary, table, training, whole

LAYERS, SEQUENCE, BATCH = 24, 1024, 32
# Of the authors' list of 30: what comes before layer 0.
BEFORE = 2
VOCABULARY = 50257


def on_t4(data):
    """4 nodes of 4."""
    return rows_of(data, "gpt2_16xT4_trials.csv", "g4dn.12xlarge:4")


def mixed(data):
    """3 nodes of 4 V100 and one of 4 T4."""
    return rows_of(data, "gpt2_12xV100_4xT4_trials.csv", "p3-g4dn")


def rows_of(data, name, machine):
    """All rows of a file."""
    return [row_of(line, machine) for line in table(data / "profiles" / "amp" / name)]


def layers_of(partition):
    """Of each stage, from the numbers of their first entries and the end."""
    begins = [min(max(int(entry) - BEFORE, 0), LAYERS) for entry in partition.split()]
    return [end - begin for begin, end in zip(begins, begins[1:])]


def row_of(line, machine):
    """A row of the file; micro_batch is in sequences."""
    tp, dp, pp, micro_batch = whole(line, "tp", "dp", "pp", "micro_batch")
    layers = "-".join(map(str, layers_of(line["partition"])))
    failed = line["iter_time_s"] == "oom"
    strategy = f"dp={dp},tp={tp},pp={pp},zero=0,sp=0,order=tp-dp-pp"
    if pp > 1:
        strategy += f",layers={layers}"
    options = [*training(machine, SEQUENCE), *OLD_MEGATRON, "--precision", "fp16,grads=weights",
               "--schedule", "1f1b", "--strategy", strategy]
    return Row(id=f"tp{tp}-dp{dp}-pp{pp}-mb{micro_batch}", options=options,
               model=gpt(LAYERS, 1024, 16, padded_vocabulary(VOCABULARY, tp), SEQUENCE, "products"),
               samples=dp * micro_batch, micro_batches=BATCH // (dp * micro_batch),
               measured_s=None if failed else float(line["iter_time_s"]), out_of_memory=failed,
               group=machine, facts={"tp": tp, "dp": dp, "pp": pp, "micro_batch": micro_batch},
               layers=LAYERS, sharers=dp * tp, stages=pp)
