# SPDX-License-Identifier: Apache-2.0
"""Whole models in eager PyTorch on one H200 and one H100 (bench/gpu/steps.py)."""
import pathlib

from rows import Row, table, whole

MODELS = pathlib.Path(__file__).resolve().parents[3] / "examples" / "models"
VISION = {"resnet50", "vgg16", "vit_b_16", "inception_v3", "alexnet"}
# Of these sizes examples/models has no file.
LEFT_OUT = {"llama-3-8b-4-layers", "gpt2-medium", "gpt2-large", "bert-large"}
VIEWS = {"gpt2-small", "bert-base", "llama-3-8b", "vit_b_16"}  # have transposes, which PyTorch makes as views
UNALIGNED = {"gpt2-small", "bert-base"}  # vocabularies of 50,257 and 30,522
LINEAR = {"bert-base", "vit_b_16"}  # MatMul and Add in the file; GPT-2's are Gemm
GELU = {"bert-base", "vit_b_16"}  # torch.nn.functional.gelu is one kernel; GPT-2's own is eight
PRECISION = {"float32": "fp32", "tf32": "tf32", "bfloat16": "bf16"}


def h200(data):
    """Whose operators the kernel table was fitted to."""
    return steps(data, "h200")


def h100(data):
    """Nothing was fitted to it."""
    return steps(data, "h100")


def steps(data, gpu):
    """Training and inference of the models that examples/models has, of one type throughout."""
    return [row_of(line, f"dgx-{gpu}:1x1") for line in table(data / "profiles" / gpu / "steps.csv")
            if line["model"] not in LEFT_OUT and line["type"] in PRECISION]


def row_of(line, machine):
    """A row of the file. Of training forward and backward: the optimizer's state is of another type there."""
    name, mode = line["model"], line["mode"]
    batch, length = whole(line, "batch", "length")
    options = ["--machine", machine, "--precision", PRECISION[line["type"]], "--searcher", "single-device"]
    if name in VIEWS:
        options += ["--fuse", "transposes"]
    if name in GELU:
        options += ["--fuse", "gelu"]
    if name in LINEAR:
        options += ["--fuse", "linear"]
    if name in UNALIGNED:
        options += ["--fuse", "unaligned-products"]
    if name not in VISION:
        options += ["--bind", f"sequence={length}"]
    measured = float(line["forward_ms"])
    if mode == "training":
        options += ["--mode", "training", "--optimizer", "sgd", "--loss", "cross-entropy"]
        measured += float(line["backward_ms"])
    else:
        options += ["--mode", "inference"]
    host = float(line["host_ms"]) / float(line["step_ms"])
    return Row(id=f"{name}-{mode}-{line['type']}-b{batch}x{length}", model=(str(MODELS / f"{name}.onnx"),),
               options=options, samples=batch, micro_batches=1, measured_s=measured / 1e3, group=f"{name}-{mode}",
               facts={"model": name, "mode": mode, "type": line["type"], "host-bound": str(host > 0.9)})
