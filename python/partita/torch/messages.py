# SPDX-License-Identifier: Apache-2.0
"""What ranks take to send each other what plans have them send (moves.py), by kind and size."""
from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

from partita import _core
from partita.torch import regions
from partita.torch.moves import Groups, Layout, Move, Moves, Piece, Send

_ELEMENT = 4  # bytes of float32
_SIZES = [4096 * 8**step for step in range(5)]  # to 16 MiB


def _kinds(ranks: int, elements: int) -> Iterator[tuple[str, Layout, Layout]]:
    """Of a buffer as the planner counts it (cost/collectives/collective.h), between the first ranks."""
    def rows(count: int) -> list[regions.Region]:
        return [((((rank, rank + 1),), ((0, count),))) for rank in range(ranks)]

    def layout(held: list[regions.Region]) -> Layout:
        return Layout(tuple(Piece(rank, region, 0) for rank, region in enumerate(held)))

    share = elements // ranks
    whole = regions.whole((ranks, share))
    everywhere, root = layout([whole] * ranks), Layout((Piece(0, whole, 0),))
    summands = Layout(tuple(Piece(rank, whole, rank) for rank in range(ranks)), ranks, "sum")
    parts = layout(rows(share))
    columns = layout([(((0, ranks),), ((rank * share, (rank + 1) * share),)) for rank in range(ranks)])
    yield "all-reduce", summands, everywhere
    yield "all-gather", parts, everywhere
    yield "reduce-scatter", summands, parts
    yield "all-to-all", layout(rows(share * ranks)), columns
    yield "broadcast", root, everywhere
    yield "reduce", summands, root
    yield "scatter", root, parts
    yield "gather", parts, root
    if ranks == 2:
        yield "copy", root, Layout((Piece(1, whole, 0),))


def _seconds(move: Move, held: torch.Tensor | None, repetitions: int) -> float:
    """Of the slowest rank."""
    measured = []
    for _ in range(repetitions + 1):
        pending: list[Send] = []
        dist.barrier()
        begin = time.perf_counter()
        Moves([move]).run([held], pending)
        for send in pending:
            send.work.wait()
        measured.append(time.perf_counter() - begin)
    slowest = torch.tensor(statistics.median(measured[1:]))
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def measure(repetitions: int = 7) -> list[_core.TransferTime]:
    """Among 2, 4, ... and all ranks of the default process group. A collective call."""
    world, rank, groups = dist.get_world_size(), dist.get_rank(), Groups()
    counts = sorted({world, *(2**power for power in range(1, world.bit_length()) if 2**power <= world)})
    found = []
    for ranks in counts:
        for size in _SIZES:
            for kind, source, target in _kinds(ranks, size // _ELEMENT):
                move = Move(kind, source, target, rank, torch.float32, groups)
                mine = source.on(rank)
                held = torch.ones(regions.shape_of(mine.region)) if mine is not None else None
                found.append(_core.TransferTime(kind, ranks, size, _seconds(move, held, repetitions)))
    return found
