# SPDX-License-Identifier: Apache-2.0
"""SimuMax: Llama 3 and DeepSeek under Megatron-LM on 8 B200, with measured memory."""
import pathlib

from rows import Row, nodes, table, training, whole

MODELS = pathlib.Path(__file__).resolve().parents[3] / "examples" / "models"
FILES = {"llama3-70b": "llama-3-70b-12-layers.onnx", "deepseekv2": "deepseek-v2-4-layers.onnx",
         "deepseekv3": "deepseek-v3-4-layers.onnx"}


def rows(data):
    """All rows."""
    return [row_of(line) for line in table(data / "profiles" / "simumax" / "runs_b200.csv")]


def strategy_of(line):
    """Sequence parallelism with tensor parallelism, context parallelism by all-to-all, ZeRO-1."""
    text = ",".join(f"{name}={line[name]}" for name in ("tp", "pp", "dp", "cp", "ep")) + ",zero=1"
    return text + (",sp" if line["tp"] != "1" else "") + (
        ",cp-by=heads" if line["cp"] != "1" else "")


def row_of(line):
    """A row of the file; micro_batches are those of each data-parallel rank."""
    sequence, layers, micro_batches = whole(line, "seq_len", "layers", "micro_batches")
    tp, pp, dp, cp, micro_batch = whole(line, "tp", "pp", "dp", "cp", "micro_batch")
    options = [*training(nodes("dgx-b200", 8), sequence), "--framework", "megatron", "--precision",
               "bf16,grads=fp32", "--schedule", "1f1b", "--strategy", strategy_of(line)]
    return Row(id=line["case"], model=(str(MODELS / FILES[line["model"]]),), options=options,
               samples=dp * micro_batch, micro_batches=micro_batches,
               measured_s=float(line["measured_ms"]) / 1e3,
               measured_gib=float(line["measured_peak_allocated_gib"]),
               group=f"{line['model']}-{sequence}-{dp * micro_batch * micro_batches}",
               facts={"model": line["model"], "tp": tp, "pp": pp, "cp": cp,
                      "micro_batches": micro_batches},
               layers=layers, sharers=dp * tp * cp, stages=pp)
