# SPDX-License-Identifier: Apache-2.0
"""What the operators of a training step take, as torch.profiler sees it, for `partita profile --import`.

    python examples/python/trace.py mlp.json

The module is that of examples/runnable/mlp/model.onnx; on a GPU where there is one.
"""
import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

BATCH, WARM_UP, STEPS = 1024, 5, 2


def main(file):
    torch.set_num_threads(1)  # a device of partita's cpu:N is one core
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 10),
                           nn.Softmax(1)).to(device)
    inputs = torch.randn(BATCH, 32, device=device)

    def step():
        module.zero_grad()
        module(inputs).sum().backward()

    for _ in range(WARM_UP):
        step()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=activities, record_shapes=True) as measured:
        for _ in range(STEPS):
            step()
    measured.export_chrome_trace(file)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
