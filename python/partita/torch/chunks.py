# SPDX-License-Identifier: Apache-2.0
"""What a rank runs at a time: all of an iteration's steps, or, where the data passes it several times, those
of one pass. What a chunk makes for a later one of the same rank is cut off there, so that each has a
backward of its own.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import torch

from partita.torch.exchange import Traffic, finished
from partita.torch.programs import Environment, Step, StepSequence
from partita.torch.recompute import RecomputedSteps

Steps = Sequence[Step | RecomputedSteps]


def parted(steps: Iterable[Step], passes: Mapping[str, int], made: Mapping[str, int], stage: int,
           stages: int) -> list[list[Step]]:
    """Steps of a rank of that stage, by chunk. passes: of ops by name (schedule.passes_of()); made: of the
    tensors that they make. What this rank only sends it sends in the chunk that has it."""
    chunks: list[list[Step]] = [[] for _ in range(max(passes.values()) // stages + 1)]
    for step in steps:
        if passes[step.op.name] % stages == stage:
            chunks[passes[step.op.name] // stages].append(step)
            continue
        for fetch in step.fetches:
            chunks[made.get(fetch.tensor, stage) // stages].append(Step(step.op, [fetch], (), None))
    return chunks


class Chunk:
    def __init__(self, steps: Steps, later: Collection[str], last: Collection[str]) -> None:
        """later: keys that later chunks read; last: that are read behind all of them."""
        self._steps = StepSequence(steps, {*later, *last})
        self._kept = sorted(self._steps.made.intersection(later))

    def reads(self) -> list[str]:
        return list(self._steps.reads)

    def run(self, values: Environment, traffic: Traffic) -> None:
        self._steps.run(values, traffic)

    def cut(self, values: Environment) -> tuple[Environment, list[tuple[torch.Tensor, torch.Tensor]]]:
        """What later chunks find of it, and (what it made, what has the gradient)."""
        found: Environment = {}
        cuts = []
        for key in self._kept:
            value = values.get(key)
            found[key] = value
            if value is not None and value.requires_grad:
                found[key] = value.detach().requires_grad_()
                cuts.append((value, found[key]))
        return found, cuts


class MicroBatch:
    """One on its way through the chunks of a rank."""

    def __init__(self, number: int, chunks: Sequence[Chunk], begin: Callable[[], Environment]) -> None:
        """begin: makes what all chunks find: inputs, parameters and the like."""
        self._number, self._chunks, self._begin = number, chunks, begin
        self._found: Environment = {}
        self._roots: dict[int, list[tuple[torch.Tensor, torch.Tensor | None]]] = {}

    def forward(self, chunk: int, traffic: Traffic, root: str) -> tuple[Environment, torch.Tensor]:
        """What it makes, and of that what is called `root`; 0: this rank does not make it in that chunk."""
        traffic.micro_batch = self._number
        values = {**self._begin(), **self._found}
        self._chunks[chunk].run(values, traffic)
        made = values.get(root)
        held, = finished([traffic.anchor.clone() if made is None else made], traffic)
        found, cuts = self._chunks[chunk].cut(values)
        self._found.update(found)
        self._roots[chunk] = [(held, None), *cuts]
        return values, held.detach()

    def backward(self, chunk: int) -> None:
        roots = self._roots.pop(chunk)
        gradients = [None if leaf is None else torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
                     for _, leaf in roots]
        torch.autograd.backward([value for value, _ in roots], gradients)
        if not self._roots:
            self._found.clear()
