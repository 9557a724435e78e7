#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of PyTorch on an H200, predicted from curves of kernels and from what `profile --import` takes from the times of
the step's own operators (data/profiles/h200/step_operators.csv), beside the measured step.

    bench/gpu/imported_steps.py build/release/partita
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
OPERATORS = REPOSITORY / "data/profiles/h200/step_operators.csv"
MODELS = {
    "bert-base": "--batch 32 --bind sequence=512",
    "gpt2-small": "--batch 8 --bind sequence=1024",
    "vit_b_16": "--batch 64",
    "resnet50": "--batch 128",
    "vgg16": "--batch 64",
    "alexnet": "--batch 256",
}
OPTIONS = ("--mode training --precision bf16 --optimizer adam --loss cross-entropy --framework ddp --machine 1xH200")


def run(program, command, *arguments):
    said = subprocess.run([program, command, *arguments, "--json", "--quiet"], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def write_operators(model, file):
    """Of a training step in bfloat16; its whole time in milliseconds."""
    rows = [row for row in csv.DictReader(OPERATORS.open(encoding="utf-8"))
            if (row["model"], row["mode"], row["type"]) == (model, "training", "bfloat16")]
    with file.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(["operator", "shapes", "calls", "device_us"])
        table.writerows([row["operator"], row["shapes"], row["calls"], row["device_us"]]
                        for row in rows if row["operator"].startswith("aten::"))
    return 1e-3 * sum(float(row["device_us"]) for row in rows if row["operator"] == "step")


def main(program):
    print("| step | measured | by curves | by its operators | found |\n|---|---|---|---|---|")
    errors = {"curves": [], "operators": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model, sizes in MODELS.items():
            step = write_operators(model, folder / "operators.csv")
            asked = [str(REPOSITORY / f"examples/models/{model}.onnx"), *sizes.split(), *OPTIONS.split()]
            database = str(folder / f"{model}.sqlite")
            found = run(program, "profile", *asked, "--import", str(folder / "operators.csv"), "--db", database)
            plan = [*asked, "--evaluations", "2", "-o", str(folder / "plan.json")]
            cells = []
            for kind, more in (("curves", []), ("operators", ["--profile", database])):
                value = 1e-9 * run(program, "plan", *plan, *more)["value_ps"]
                errors[kind].append(abs(value / step - 1))
                cells.append(f"{value:.1f} ms, {100 * (value / step - 1):+.1f} %")
            share = found["predicted_found_ms"] / found["predicted_ms"]
            print(f"| {model} | {step:.1f} ms | {' | '.join(cells)} | {found['found']} of {found['works']}, {100 * share:.0f} % |")
    means = [f"{100 * sum(each) / len(each):.1f} %" for each in errors.values()]
    print(f"| mean error | | {' | '.join(means)} | |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
