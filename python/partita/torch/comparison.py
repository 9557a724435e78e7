# SPDX-License-Identifier: Apache-2.0
"""A plan beside what people do by hand, measured on the same ranks."""
from __future__ import annotations

import copy
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from partita import _core
from partita.torch.capture import Captured, autocasting


@dataclass(frozen=True)
class Measured:
    """One way to run a training step."""

    name: str
    seconds: float                  # median of a step, of the slowest rank
    predicted: float | None = None  # of the plan


def _ddp(module: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(module)


def _fsdp(module: nn.Module) -> nn.Module:
    """Each child of a list is gathered by itself, as FSDP2's tutorial does with layers."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in _layers(module):
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """What is in lists, but in no list within them."""
    is_list = isinstance(module, (nn.ModuleList, nn.Sequential))
    for child in module.children():
        if not is_list:
            yield from _layers(child)
        elif any(True for _ in child.parameters()):
            yield child


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": _ddp, "fsdp": _fsdp}


def _timed(step: Callable[[], None], steps: int) -> float:
    for _ in range(2):
        step()
    seconds = []
    for _ in range(steps):
        dist.barrier()
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    slowest = torch.tensor(statistics.median(seconds))
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def _share(captured: Captured, args: tuple) -> tuple:
    """This rank's samples."""
    world, rank = dist.get_world_size(), dist.get_rank()
    shares = []
    for (name, _, _), each in zip(captured.inputs, args, strict=True):
        if name not in captured.batched:
            shares.append(each)
            continue
        if each.shape[0] % world:
            raise _core.UsageError(f"argument '{name}': {each.shape[0]} samples do not make equal shares "
                                   f"for {world} ranks. Give a batch that they divide.")
        shares.append(each.chunk(world)[rank])
    return tuple(shares)


def measure(planned: Any, module: nn.Module, args: tuple, ways: Sequence[str | tuple] = ("ddp", "fsdp"),
            steps: int = 8) -> list[Measured]:
    """The plan first, then each of the ways: "ddp", "fsdp" (FSDP2), both with a share of the batch for
    each rank, or (name, function of a copy of the module) with all of it, such as one that calls
    parallelize_module(). A step is forward, backward and SGD. A collective call.
    """
    parallel = planned.apply(module)
    optimizer = torch.optim.SGD(list(parallel.parameters()) or [torch.zeros(1)], 1e-4)

    def step_by_plan() -> None:
        optimizer.zero_grad()
        parallel.step(*args)
        optimizer.step()

    rows = [Measured("plan", _timed(step_by_plan, steps), planned.plan.value)]
    for way in ways:
        if isinstance(way, str) and way not in WAYS:
            raise _core.UsageError(f"way '{way}': unknown. There is: {', '.join(WAYS)}; or give a name "
                                   "and a function.")
        name, make = (way, WAYS[way]) if isinstance(way, str) else way
        share = args if not isinstance(way, str) else _share(planned.captured, args)
        other = make(copy.deepcopy(module))
        by_hand = torch.optim.SGD(other.parameters(), 1e-4)

        def step_by_hand(other=other, by_hand=by_hand, share=share) -> None:
            by_hand.zero_grad()
            with autocasting(module, planned.captured.autocast):
                loss = other(*share)
            loss.backward()
            by_hand.step()

        rows.append(Measured(name, _timed(step_by_hand, steps)))
        # DDP refers to itself. Left to the interpreter's end, it would keep the process group, whose
        # threads may then let go of a tensor that Python can no longer free, and the process aborts.
        del other, by_hand, step_by_hand
        gc.collect()
    return rows


def as_table(rows: Sequence[Measured]) -> str:
    best = min(row.seconds for row in rows[1:]) if len(rows) > 1 else rows[0].seconds
    lines = []
    for row in rows:
        predicted = f"  predicted {row.predicted * 1e3:.1f} ms" if row.predicted is not None else ""
        lines.append(f"{row.name:12} {row.seconds * 1e3:9.1f} ms  {row.seconds / best:6.2f} x the best by "
                     f"hand{predicted}")
    return "\n".join(lines)
