# SPDX-License-Identifier: Apache-2.0
"""Steps that run once more for the backward, instead of keeping what they make.

A unit is what a stage recomputes of a layer block. To autograd it is one call, whose backward runs its
steps again and goes backwards through that. So every rank that has part in a unit repeats its exchanges
at the same time: before those of its backward, and behind those of all that comes later (exchange.py
says why that cannot deadlock). What a unit reads of others is fetched before it, and kept.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

import torch

from partita import _core
from partita.torch.builder import Numbers
from partita.torch.capture import Captured
from partita.torch.exchange import Traffic
from partita.torch.programs import Environment, Step, StepSequence

Units = dict[str, int]  # of ops, by name; those that are in none are missing


def units_of(ops: Iterable[tuple[str, int]], blocks: list[_core.RecomputedOps]) -> Units:
    """`ops`: in the order of the program, with the stage of each. An op between two of a unit is of it,
    too."""
    block_of = {op: each.block for each in blocks for op in each.ops}
    units: Units = {}
    current: tuple[str, int] | None = None  # block and stage
    between: list[str] = []
    count = 0
    for op, stage in ops:
        block = block_of.get(op)
        if block is None:
            if current is not None and current[1] == stage:
                between.append(op)
            else:
                current = None
            continue
        if (block, stage) == current:
            units.update(dict.fromkeys(between, count))
        else:
            current = (block, stage)
            count += 1
        between = []
        units[op] = count
    return units


class _Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, steps: RecomputedSteps, traffic: Traffic, anchor: torch.Tensor,
                *inputs: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        ctx.steps, ctx.again = steps, traffic.again()
        ctx.turn = steps.numbers.turn
        ctx.save_for_backward(*inputs)
        ctx.needs = [each is not None and each.requires_grad for each in inputs]
        made = [None if each is None else each.view_as(each)
                for each in steps.made(inputs, traffic.again())]
        ctx.mark_non_differentiable(*(each for each, differentiable in zip(
            made, steps.differentiable, strict=True) if each is not None and not differentiable))
        return anchor.new_zeros(()), *made

    @staticmethod
    def backward(ctx, _ghost: torch.Tensor, *gradients: torch.Tensor | None):
        numbers = ctx.steps.numbers
        inputs = [None if each is None else each.detach().requires_grad_(needs)
                  for each, needs in zip(ctx.saved_tensors, ctx.needs, strict=True)]
        traffic = ctx.again
        now, numbers.turn = numbers.turn, ctx.turn
        with torch.enable_grad():
            made = ctx.steps.made(inputs, traffic)
        numbers.turn = now
        reached = [(each, gradient) for each, gradient in zip(made, gradients, strict=True)
                   if each is not None and each.requires_grad and gradient is not None]
        reached += [(ghost, torch.zeros(())) for ghost in traffic.ghosts]
        if reached:
            torch.autograd.backward([each for each, _ in reached], [each for _, each in reached])
        return None, None, None, *(each.grad if needs else None
                                   for each, needs in zip(inputs, ctx.needs, strict=True))


class RecomputedSteps:
    """The steps of one unit on this rank."""

    def __init__(self, steps: Sequence[Step], later: Collection[str], differentiable: Collection[str],
                 changed: Collection[str], numbers: Numbers) -> None:
        """later: keys that are read behind them. differentiable: tensors. changed: keys of what an
        iteration changes in place."""
        self.numbers = numbers
        self._steps, self._changed = StepSequence(steps, later), changed
        self._inputs = list(self._steps.reads)
        self._outputs = sorted(self._steps.made.intersection(later))
        tensor_of = {fetch.key: fetch.tensor for step in steps for fetch in step.fetches}
        self.differentiable = [tensor_of.get(key, key) in differentiable for key in self._outputs]

    def made(self, inputs: Sequence[torch.Tensor | None],
             traffic: Traffic) -> list[torch.Tensor | None]:
        values: Environment = dict(zip(self._inputs, inputs, strict=True))
        self._steps.run(values, traffic)
        return [values.get(key) for key in self._outputs]

    def reads(self) -> list[str]:
        return self._inputs

    def makes(self) -> list[str]:
        return self._outputs

    def run(self, values: Environment, traffic: Traffic) -> None:
        inputs = [values.get(key) for key in self._inputs]
        if not torch.is_grad_enabled():
            outputs = self.made(inputs, traffic)
        else:
            inputs = [each.clone() if key in self._changed else each
                      for key, each in zip(self._inputs, inputs, strict=True)]
            ghost, *outputs = _Again.apply(self, traffic, traffic.anchor, *inputs)
            traffic.ghosts.append(ghost)
        values.update(zip(self._outputs, outputs, strict=True))


def grouped(captured: Captured, steps: list[Step], units: Units, last: Iterable[str],
            differentiable: Collection[str]) -> list[Step | RecomputedSteps]:
    """The same, with those of each unit as one, behind what they fetch of others. `last`: keys that are
    read behind all of them. differentiable: tensors."""
    made: dict[int, set[str]] = {}  # on any rank
    for op in captured.ops:
        if op.name in units:
            made.setdefault(units[op.name], set()).update(op.results)
    buffers = {name for name, _ in captured.updates}
    changed = buffers | {fetch.key for step in steps for fetch in step.fetches
                         if fetch.tensor in buffers}
    runs: list[tuple[bool, list[Step]]] = []
    for unit, run in groupby(steps, lambda step: units.get(step.op.name)):
        if unit is None:
            runs.append((False, list(run)))
        else:
            before, within = _parted(run, made[unit])
            runs += [(False, before), (True, within)]
    later = set(last)
    result: list[Step | RecomputedSteps] = []
    for again, run in reversed(runs):
        if again and run:
            run = [RecomputedSteps(run, later, differentiable, changed, captured.numbers)]
        result[:0] = run
        later.update(key for each in run for key in each.reads())
    return result


def _parted(steps: Iterable[Step], made: Collection[str]) -> tuple[list[Step], list[Step]]:
    """What they fetch of others, and all else."""
    before, within = [], []
    for step in steps:
        of_others = [fetch for fetch in step.fetches if fetch.tensor not in made]
        own = [fetch for fetch in step.fetches if fetch.tensor in made]
        if of_others:
            before.append(Step(step.op, of_others, (), None))
        if step.part is not None or own:
            within.append(Step(step.op, own, step.keys, step.part))
    return before, within
