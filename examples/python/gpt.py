# SPDX-License-Identifier: Apache-2.0
"""A GPT on four processes of this host: planned, trained, and measured beside what one does by hand.

    torchrun --nproc-per-node 4 examples/python/gpt.py
    torchrun --nproc-per-node 4 examples/python/gpt.py strategy=pp=2,dp=2 micro_batches=4 schedule=1f1b

What follows the file's name are options of `partita plan`, with underscores; `steps=20` trains and
measures longer.
"""
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import partita
import partita.torch

WORDS, LENGTH, SIZE, HEADS, LAYERS, BATCH = 2048, 128, 256, 8, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.up, self.down = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = (each.view(batch, length, HEADS, -1).transpose(1, 2)
                   for each in self.qkv(self.ln1(x)).split(size, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, size))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, SIZE), nn.Embedding(LENGTH, SIZE)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln, self.head = nn.LayerNorm(SIZE), nn.Linear(SIZE, WORDS, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, tokens, labels):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        scores = self.head(self.ln(self.blocks(x)))
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same values on all ranks
    module = Gpt()
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1))
    batch = (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())

    options = dict(each.split("=", 1) for each in sys.argv[1:])
    steps = int(options.pop("steps", 5))
    options = options or {"time_limit": "3"}
    try:
        planned = partita.torch.plan(module, batch, machine=f"cpu:{dist.get_world_size()}", **options)
    except partita.Error as error:
        sys.exit(f"gpt.py: {error}")
    is_first = dist.get_rank() == 0
    if is_first:
        print(planned)

    parallel = planned.apply(module)
    optimizer = torch.optim.SGD(list(parallel.parameters()) or [torch.zeros(1)], lr=0.1)
    for number in range(steps):
        optimizer.zero_grad()
        loss = parallel.step(*batch)
        optimizer.step()
        if is_first:
            print(f"step {number}: loss {loss.item():.3f}")

    rows = planned.compare_with(module, batch, steps=steps)
    if is_first:
        print(partita.torch.as_table(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
