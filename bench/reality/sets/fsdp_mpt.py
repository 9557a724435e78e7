# SPDX-License-Identifier: Apache-2.0
"""MPT models under FSDP on 8 to 512 A100 and H100 (llm-foundry)."""
from rows import Row, gpt, nodes, table, training, whole

MACHINES = {"h100_80gb": ("dgx-h100", []), "a100_80gb": ("dgx-a100", []),
            "a100_40gb": ("dgx-a100", ["--set", "device.memory=40GiB"])}
PRECISIONS = {"bf16": "bf16", "amp_bf16": "bf16", "amp_fp8": "bf16,products=fp8"}
LEVELS = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}


def rows(data):
    """All rows."""
    return [row_of(line) for line in table(data / "published" / "fsdp_mpt_throughput.csv")]


def row_of(line):
    """A row of the file. Steps follow from tokens a second; samples a second are rounded there."""
    gpus, micro_batch, micro_batches = whole(line, "gpus", "micro_batch", "grad_accum")
    sequence, layers, hidden, words = whole(line, "seq_len", "layers", "hidden", "vocab")
    preset, more = MACHINES[line["gpu"]]
    recompute = "full" if line["activation_checkpointing"] == "True" else "none"
    options = [*training(nodes(preset, gpus), sequence), *more, "--framework", "fsdp",
               "--precision", PRECISIONS[line["precision"]], "--recompute", recompute,
               "--strategy", f"dp={gpus},zero={LEVELS[line['sharding']]}"]
    return Row(id=f"{line['model']}-{gpus}x{line['gpu']}-s{sequence}-mb{micro_batch}x"
               f"{micro_batches}-{line['precision']}", options=options,
               model=gpt(layers, hidden, line["heads"], words, sequence, "op"),
               samples=gpus * micro_batch, micro_batches=micro_batches,
               measured_s=int(line["global_batch_seqs"]) * sequence / float(line["tokens_per_s"]),
               group=f"{line['model']}-{gpus}-{line['gpu']}-{sequence}-{line['precision']}",
               facts={"gpu": line["gpu"], "gpus": gpus, "model": line["model"], "seq": sequence,
                      "recompute": recompute, "precision": line["precision"]},
               layers=layers, sharers=gpus)
