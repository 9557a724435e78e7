#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the operators of a step take on the GPU of this host, in eager PyTorch, as CSV: which of them a predicted step is
off by.

    bench/gpu/step_operators.py OUT            the largest steps of steps.py, in a minute and a half on an H200
    bench/gpu/step_operators.py OUT gpt2       models whose names begin so

A row is an operator of ATen with the shapes of its operands: how often a step calls it, and what its kernels take, from
torch.profiler. Steps are those of steps.py; the first row of each is the whole step, by events and without the profiler.
"""
import torch

import steps

COLUMNS = ("model", "mode", "type", "batch", "length", "operator", "shapes", "calls", "device_us")
LEAST_SHARE = 1e-3  # of a step; smaller rows are one, "others"

# model, types, (batch, length) of training, of inference
RUNS = [
    ("gpt2-small", ("bfloat16", "tf32", "float32", "autocast"), ((8, 1024),), ((8, 1024),)),
    ("bert-base", ("bfloat16", "float32", "tf32"), ((32, 512),), ((32, 512),)),
    ("llama-3-8b-4-layers", ("bfloat16",), ((4, 2048),), ((4, 2048),)),
    ("vit_b_16", ("bfloat16", "tf32", "float32"), ((64, 224),), ((64, 224),)),
    ("resnet50", ("bfloat16", "tf32", "float32"), ((128, 224),), ((128, 224),)),
    ("vgg16", ("bfloat16", "tf32", "float32"), ((64, 224),), ((64, 224),)),
    ("gpt2-large", ("bfloat16", "float32"), ((4, 1024),), ((4, 1024),)),
    ("alexnet", ("bfloat16", "float32"), ((256, 224),), ((256, 224),)),
    ("inception_v3", ("bfloat16", "float32"), ((64, 299),), ((64, 299),)),
]


def shapes_of(event):
    return " ".join("x".join(map(str, shape)) for shape in event.input_shapes if shape)


def operators(step, device):
    """(operator, shapes, calls, microseconds) of one step, the longest first."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds, record_shapes=True) as profile:
        step()
        if device == "cuda":
            torch.cuda.synchronize()
    rows = []
    for event in profile.key_averages(group_by_input_shape=True):
        # Kernels have rows of their own beside those of the operators that launched them.
        if device == "cuda" and event.device_type != torch.autograd.DeviceType.CPU:
            continue
        spent = event.self_device_time_total if device == "cuda" else event.self_cpu_time_total
        if spent > 0:
            rows.append((event.key, shapes_of(event), event.count, spent))
    return sorted(rows, key=lambda row: -row[3])


def run(name, mode, kind, batch, length, device):
    key = (name, mode, kind, batch, length)
    with steps.prepared(*key, device) as (step, clock, _):
        _, whole, _ = steps.measure(step, clock)
        yield (*key, "step", "", 1, f"{1e3 * whole:.1f}")
        rows = operators(step, device)
    least = LEAST_SHARE * sum(row[3] for row in rows)
    others = [row for row in rows if row[3] < least]
    for operator, shapes, calls, spent in rows:
        if spent >= least:
            yield (*key, operator, shapes, calls, f"{spent:.1f}")
    if others:
        yield (*key, "others", "", sum(row[2] for row in others), f"{sum(row[3] for row in others):.1f}")


if __name__ == "__main__":
    steps.write_table("step_operators", COLUMNS, RUNS, run, __doc__)
