# SPDX-License-Identifier: Apache-2.0
"""NeuSight: eager PyTorch in float32 on one GPU of five kinds, and on four H100."""
from rows import Row, gpt, nodes, table, training, whole

# layers, hidden, heads, positions, vocabulary
SHAPES = {"gpt2_large": (36, 1280, 20, 1024, 50257), "gpt3_xl": (24, 3072, 24, 2048, 50257),
          "gpt3_27": (32, 2560, 32, 2048, 50257), "opt_13": (24, 2048, 32, 2048, 50272),
          # An encoder without a head: its vocabulary is as good as none.
          "bert_large": (24, 1024, 16, 512, 128)}
# A preset, and what the card that was measured (PCIe) has otherwise.
DEVICES = {"A100": ("dgx-a100:1x1", "device.memory_bandwidth=1555GB/s"),
           "H100": ("dgx-h100:1x1",),
           "P100": ("p100-cluster:1x1", "device.matrix_flops=9.3TFLOP/s"),
           "T4": ("g4dn.12xlarge:1x1",),
           "V100": ("dgx-1-v100:1x1", "device.matrix_flops=14TFLOP/s", "device.memory=32GiB")}
COMMON = ["--precision", "fp32", "--attention", "products"]


def model_of(name):
    """Arguments of transformer_onnx.py."""
    layers, hidden, heads, positions, words = SHAPES[name]
    return gpt(layers, hidden, heads, words, positions, "products")


def four_gpus(data):
    """dp, tp or pp of 4, one micro-batch."""
    return [four_gpus_row(line)
            for line in table(data / "profiles" / "neusight" / "e2e_4gpu.csv")]


def four_gpus_row(line):
    """A row of the file."""
    sequence, batch, dp, tp, pp = whole(line, "seq_len", "global_batch", "dp", "tp", "pp")
    options = [*training(nodes("dgx-h100", 4), sequence), *COMMON, "--strategy",
               f"dp={dp},tp={tp},pp={pp},zero=0,sp=0"]
    return Row(id=f"{line['model']}-b{batch}-dp{dp}-tp{tp}-pp{pp}", options=options,
               model=model_of(line["model"]), samples=batch, micro_batches=1,
               measured_s=float(line["iter_time_ms"]) / 1e3, group=f"b{batch}",
               facts={"tp": tp, "dp": dp, "pp": pp}, layers=SHAPES[line["model"]][0],
               sharers=dp * tp, stages=pp)


def one_gpu(data):
    """Forward, or forward and backward without an optimizer. Switch transformers have no writer."""
    return [one_gpu_row(line)
            for line in table(data / "profiles" / "neusight" / "e2e_single_gpu.csv")
            if line["model"] in SHAPES]


def one_gpu_row(line):
    """A row of the file; plain SGD stands for no optimizer."""
    batch = int(line["batch"])
    how = {"inf": ["--mode", "inference"],
           "train": ["--mode", "training", "--optimizer", "sgd", "--loss", "cross-entropy"]}
    device = next(name for name in DEVICES if f"_{name}" in line["device"])
    machine, *figures = DEVICES[device]
    options = ["--machine", machine, *(word for figure in figures for word in ("--set", figure)),
               "--bind", f"sequence={line['seq_len']}", *COMMON, "--fuse", "linear",
               *how[line["mode"]], "--searcher", "single-device"]
    return Row(id=f"{device}-{line['model']}-{line['mode']}-b{batch}", options=options,
               model=model_of(line["model"]), samples=batch, micro_batches=1,
               measured_s=float(line["e2e_ms"]) / 1e3,
               group=f"{device}-{line['model']}-{line['mode']}",
               facts={"device": device, "mode": line["mode"], "model": line["model"]},
               layers=SHAPES[line["model"]][0])
