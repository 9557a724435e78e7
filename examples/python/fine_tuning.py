# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning with frozen weights on two processes, saved under the module's own names.

    torchrun --nproc-per-node 2 examples/python/fine_tuning.py
"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import partita.torch


class Classifier(nn.Module):
    """A body that stays as it is, and a head that learns."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(32, 10)
        self.body.requires_grad_(False)

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.body(images)), labels)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    module = Classifier()
    batch = (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,)))
    planned = partita.torch.plan(module, batch, machine="cpu:2", strategy="dp=2")
    parallel = planned.apply(module)
    trained = [each for each in parallel.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.5)
    for _ in range(20):
        optimizer.zero_grad()
        loss = parallel.step(*batch)
        optimizer.step()

    state = parallel.full_state_dict()  # on every rank
    if dist.get_rank() == 0:
        kept = all(torch.equal(state[f"body.{name}"], each)
                   for name, each in module.body.state_dict().items())
        module.load_state_dict(state)
        print(f"loss {loss.item():.3f}; {len(trained)} parameters trained, body "
              f"{'as before' if kept else 'CHANGED'}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
