# SPDX-License-Identifier: Apache-2.0
"""Plans of four modules on the CPUs of this host, beside what people do by hand. Results: bench/results/torch.md.

    torchrun --nproc-per-node 2 bench/torch/beside_by_hand.py [MODULE ...]

Each module is profiled first, and what ranks take to send.
"""
from __future__ import annotations

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import partita
import partita.torch


class Block(nn.Module):
    """Of a Llama: queries and keys by heads, a gated layer."""

    def __init__(self, size: int, head: int) -> None:
        super().__init__()
        self.head = head
        self.norm1, self.norm2 = nn.RMSNorm(size), nn.RMSNorm(size)
        self.q, self.k, self.v, self.o = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(size, 3 * size, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * size, size, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (each(y).unflatten(-1, (-1, self.head)).transpose(1, 2)
                   for each in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, words: int = 2048, size: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.blocks = nn.ModuleList(Block(size, 32) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(size), nn.Linear(size, words, bias=False)

    def forward(self, tokens, labels):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class Wide(nn.Module):
    """Many parameters, few samples."""

    def __init__(self, size: int = 1024, layers: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 4 * size), nn.ReLU(), nn.Linear(4 * size, size))
            for _ in range(layers))

    def forward(self, x, y):
        for block in self.blocks:
            x = x + block(x)
        return F.mse_loss(x, y)


class Clicks(nn.Module):
    """Large tables, a small product (Naumov et al., DLRM, 2019)."""

    def __init__(self, rows: int = 50_000, size: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, size) for _ in range(4))
        self.bottom, self.top = nn.Linear(16, size), nn.Linear(size + 25, 1)

    def forward(self, dense, ids, y):
        rows = [torch.relu(self.bottom(dense))]
        rows += [table(ids[:, number]) for number, table in enumerate(self.tables)]
        stacked = torch.stack(rows, 1)
        crossed = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        return F.mse_loss(torch.sigmoid(self.top(torch.cat([rows[0], crossed], 1)).squeeze(1)), y)


class Pictures(nn.Module):
    """A residual convnet."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
                          nn.Conv2d(channels, channels, 3, padding=1)) for _ in range(3))
        self.last = nn.Linear(channels, 10)

    def forward(self, x, y):
        x = self.first(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return F.cross_entropy(self.last(x.mean((2, 3))), y)


def _words(*shape: int) -> torch.Tensor:
    return torch.randint(0, 2048, shape)


MODULES = {
    "llama": (Llama, lambda: (_words(8, 128), _words(8, 128))),
    "wide": (Wide, lambda: (torch.randn(64, 1024), torch.randn(64, 1024))),
    "clicks": (Clicks, lambda: (torch.randn(512, 16), torch.randint(0, 50_000, (512, 4)),
                                torch.rand(512))),
    "pictures": (Pictures, lambda: (torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,)))),
}


def _by_columns_and_rows(module: nn.Module) -> nn.Module:
    """Tensor parallelism as PyTorch's tutorial has it."""
    column, row = ColwiseParallel(), RowwiseParallel()
    plan: dict[str, object] = {}
    for number, block in enumerate(module.blocks):
        if isinstance(block, Block):
            plan |= {f"blocks.{number}.{name}": column for name in ("q", "k", "v", "gate", "up")}
            plan |= {f"blocks.{number}.{name}": row for name in ("o", "down")}
        else:
            plan |= {f"blocks.{number}.0": column, f"blocks.{number}.2": row}
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(module, mesh, plan)
    return module


def _profiled(name: str, module: nn.Module, args: tuple, folder: str) -> str:
    """The database on rank 0, which plans."""
    database = os.path.join(folder, f"{name}.sqlite")
    partita.torch.profile(module, args, machine="cpu:1", database=database, steps=5)
    return database


def main() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    world = dist.get_world_size()
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or MODULES:
            torch.manual_seed(0)
            make, arguments = MODULES[name]
            module, args = make(), arguments()
            database = _profiled(name, module, args, folder)
            planned = partita.torch.plan(module, args, machine=f"cpu:{world}", time_limit=10,
                                         profile=database)
            ways: list = ["ddp", "fsdp"]
            if name in ("llama", "wide"):
                ways.append(("tp", _by_columns_and_rows))
            rows = planned.compare_with(module, args, ways, steps=15)
            if dist.get_rank() == 0:
                print(f"{name}\n{planned}\n{partita.torch.as_table(rows)}\n", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
