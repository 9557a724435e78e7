# SPDX-License-Identifier: Apache-2.0
"""What one rank does of a plan: which operands it fetches, which parts it runs."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any

import torch

from partita import _core
from partita.torch import regions
from partita.torch.builder import LocalOp, Part
from partita.torch.capture import Captured
from partita.torch.exchange import Exchange, Exchanges, Traffic
from partita.torch.moves import Groups, Layout
from partita.torch.regions import Window

# Tensors by the keys under which ops find them.
Environment = dict[str, torch.Tensor | None]


class Fetch:
    """How an op gets one operand: a window of a tensor that every rank has, an exchange of one that lies
    on devices, or as it is."""

    def __init__(self, tensor: str, key: str, how: Window | Exchanges | None = None) -> None:
        self.tensor = tensor  # by who makes it
        self.key = key        # as this op and its like need it
        self.how = how        # None: the key is the tensor

    @property
    def is_idle(self) -> bool:
        """Has this rank nothing to do?"""
        return self.how is None or isinstance(self.how, Exchanges) and self.how.is_idle

    def run(self, values: Environment, traffic: Traffic) -> None:
        if self.key in values:
            return
        if isinstance(self.how, Window):
            values[self.key] = self.how.read(values[self.tensor])
        else:
            values[self.key], = self.how.run([values.get(self.tensor)], traffic)


class Step:
    """One op on this rank: the operands are fetched on all ranks, the op runs where it has a part."""

    def __init__(self, op: LocalOp, fetches: list[Fetch], keys: tuple[str, ...],
                 part: Part | None) -> None:
        self.op, self.fetches, self.keys, self.part = op, fetches, keys, part

    def reads(self) -> list[str]:
        """Keys of what is there before."""
        fetched = {fetch.key for fetch in self.fetches}
        return [fetch.tensor for fetch in self.fetches] + [
            key for key in self.keys if key and key not in fetched]

    def makes(self) -> list[str]:
        """Keys of what is there behind it."""
        results = self.op.results if self.part is not None else ()
        return [*(fetch.key for fetch in self.fetches), *results]

    def run(self, values: Environment, traffic: Traffic) -> None:
        for fetch in self.fetches:
            fetch.run(values, traffic)
        if self.part is None:
            return
        operands = [values[key] if key else None for key in self.keys]
        try:
            results = self.op.run(self.part, *operands)
        except Exception as error:
            error.add_note(f"in op '{self.op.name}' of the plan, a part of the call '{self.op.node}'")
            raise
        if isinstance(results, torch.Tensor):
            results = (results,)
        for name, result in zip(self.op.results, results, strict=True):
            values[name] = result


class StepSequence:
    """Steps that run one after the other; what none behind needs is let go of at once."""

    def __init__(self, steps: Iterable[Any], later: Collection[str]) -> None:
        """steps: with reads(), makes() and run() as Step has. later: keys that are read behind them."""
        self.steps = list(steps)
        self.reads: dict[str, None] = {}  # keys of what is there before
        made: set[str] = set()
        for step in self.steps:
            self.reads.update(dict.fromkeys(key for key in step.reads() if key not in made))
            made.update(step.makes())
        self.made = made
        needed = set(later)
        self._last: list[list[str]] = []
        for step in reversed(self.steps):
            ended = {*step.reads(), *step.makes()} - needed
            needed |= ended
            self._last.insert(0, sorted(ended))

    def run(self, values: Environment, traffic: Traffic) -> None:
        for step, ended in zip(self.steps, self._last, strict=True):
            step.run(values, traffic)
            for key in ended:
                values.pop(key, None)


class Programs:
    """Builds what one rank does. The order of the calls is that of the iteration, and the same on all
    ranks: parameters(), steps(), loss(), then results() and updates()."""

    def __init__(self, captured: Captured, model: _core.Model, plan: _core.Plan, rank: int) -> None:
        self._captured, self._model, self._rank = captured, model, rank
        self._devices = plan.machine.device_count
        self._micro_batches = plan.micro_batches
        self._by_op = {each.op: each for each in plan.layouts(model)}
        self.groups = Groups()
        self._everywhere = {name for name, _, _ in captured.inputs} | set(captured.buffers) | set(
            captured.constants)
        # By who makes it, and its gradient as that one needs it; None: it has none.
        self._made: dict[str, tuple[Layout, Layout | None]] = {}
        # Tensors that have a gradient, of those that the programs have come to.
        self.differentiable = set(captured.trained) if plan.mode == "training" else set()
        self._renewed = {value.name for _, value in captured.updates}
        self._fetched: dict[tuple, Fetch] = {}
        self._numbers = count(1)  # of exchanges, the same on all ranks
        self._flows: list[tuple[Layout, Layout]] = []  # within an iteration

    def parameters(self) -> tuple[dict[str, Layout], dict[str, Exchange]]:
        """Where each is kept between iterations, which is where it is updated; and how it gets to its
        readers, once per iteration. In the module's orientation."""
        readers: dict[str, dict[tuple[Layout, Layout | None], None]] = {
            name: {} for name in self._captured.parameters}
        for op in self._captured.ops:
            for number, name in enumerate(op.operands):
                if name in readers:
                    readers[name][self._needed(op, number)] = None
        homes, exchanges = {}, {}
        for name, wanted in readers.items():
            layouts = self._by_op[name]
            kept = self._layout(name, layouts.results[0])
            home = self._layout(name, layouts.update) if layouts.update else kept
            # One that all readers need alike goes there at once, and its gradient comes back so, after
            # the last micro-batch: partial gradients are added up where they arise.
            needed, gradient = next(iter(wanted)) if len(wanted) == 1 else (
                kept, kept if name in self.differentiable else None)
            self._made[name] = (needed, gradient)
            if name in self._captured.turned:  # they travel as the module has them
                home, needed = home.turned(), needed.turned()
                gradient = gradient.turned() if gradient else None
            homes[name] = home
            narrow = self._dtype(name) if name in self._captured.narrow else None
            exchanges[name] = Exchange(name, home, needed, gradient, home, self._rank,
                                       self._captured.dtypes[name], self.groups, narrow)
        return homes, exchanges

    def steps(self) -> list[Step]:
        steps = [self._step(op) for op in self._captured.ops]
        return [step for step in steps if step.part is not None or step.fetches]

    def loss(self) -> list[Step]:
        """Adds up what this rank holds of the losses, where the module returns their sum."""
        if self._captured.loss_scale is None:
            return []
        name = self._captured.results[0].name
        made, gradient = self._made[name]
        # Of replicas each sums up the same, of other pieces its own.
        numbers = {region: number for number, region in
                   enumerate(dict.fromkeys(piece.region for piece in made.pieces))}
        summed = tuple(piece._replace(region=(), summand=numbers[piece.region])
                       for piece in made.pieces)
        whole = tuple(piece._replace(summand=0) for piece in summed)
        self._made["@loss"] = (Layout(summed, len(numbers), "sum" if len(numbers) > 1 else ""),
                               Layout(whole) if gradient else None)
        scale = self._captured.loss_scale
        op = LocalOp("@loss", (name,), ("@loss",), lambda part, losses: losses.sum() * scale)
        mine = made.on(self._rank)
        return [Step(op, [], (name,), Part((mine.region,), ((),)) if mine else None)]

    def results(self) -> list[Fetch]:
        """Every result of the module as a whole on every rank."""
        if self._captured.loss_scale is not None:
            return [self._result("@loss")]
        return [self._result(value.name) for value in self._captured.results]

    def updates(self) -> list[tuple[str, Fetch]]:
        """What buffers become, on every rank."""
        return [(buffer, self._result(value.name)) for buffer, value in self._captured.updates]

    def flows_forward(self, stages: Sequence[int]) -> bool:
        """Does nothing go, within an iteration, from a stage to one before it?"""
        def stages_of(layout: Layout) -> list[int]:
            return [stages[piece.device] for piece in layout.pieces]

        return all(max(stages_of(made)) <= min(stages_of(needed)) for made, needed in self._flows)

    def _result(self, name: str) -> Fetch:
        if name in self._everywhere:
            return Fetch(name, name)
        made, gradient = self._made[name]
        everywhere = made.everywhere(self._devices)
        exchange = self._exchange(name, made, everywhere, everywhere if gradient else None, gradient)
        return Fetch(name, f"{name}@result", Exchanges([exchange]))

    def _layout(self, op: str, layout: _core.TensorLayout) -> Layout:
        devices = [part.device for part in layout.parts]
        if len(set(devices)) != len(devices):
            raise _core.InputError(f"op '{op}': two parts of it lie on one device, and a rank of "
                                   "torch runs one. Plan with as many devices as parts.")
        return Layout.of(layout)

    def _needed(self, op: LocalOp, number: int) -> tuple[Layout, Layout | None]:
        """Of an operand, and of the gradient that the op gives it."""
        layouts = self._by_op[op.name]
        gradient = None
        if op.operands[number] in self.differentiable:
            gradient = self._layout(op.name, layouts.operand_gradients[number])
        return self._layout(op.name, layouts.operands[number]), gradient

    def _exchange(self, name: str, made: Layout, needed: Layout, gradient: Layout | None,
                  gradient_needed: Layout | None) -> Exchange:
        dtype = self._dtype(self._captured.results[0].name if name == "@loss" else name)
        return Exchange(name, made, needed, gradient, gradient_needed, self._rank, dtype, self.groups)

    def _step(self, op: LocalOp) -> Step:
        layouts = self._by_op[op.name]
        fetches: list[Fetch] = []
        fetched = [self._fetch(op, number, fetches) for number in range(len(op.operands))]
        is_differentiable = any(name in self.differentiable for name in op.operands)
        made = [self._layout(op.name, each) for each in layouts.results]
        for number, (name, layout) in enumerate(zip(op.results, made, strict=True)):
            gradient = None
            if is_differentiable and self._dtype(name).is_floating_point and (
                    name not in self._renewed):
                self.differentiable.add(name)
                gradient = self._layout(op.name, layouts.result_gradients[number])
            self._made[name] = (layout, gradient)
        self._check_whole(op, made)
        mine = [each.on(self._rank) for each in made]
        part = None
        if mine[0] is not None:
            part = Part(tuple(region for _, region in fetched), tuple(each.region for each in mine))
        return Step(op, fetches, tuple(key for key, _ in fetched), part)

    def _fetch(self, op: LocalOp, number: int,
               fetches: list[Fetch]) -> tuple[str, regions.Region | None]:
        """The key and region of an operand, "" and None where this rank holds nothing of it; adds how to
        get it, unless an op before did."""
        name = op.operands[number]
        if not name:
            return "", None
        needed, gradient = self._needed(op, number)
        mine = needed.on(self._rank)
        if name not in self._everywhere:
            identity: tuple = (name, needed, gradient)
        elif mine is not None:
            identity = (name, mine.region)
        else:
            return "", None
        if identity not in self._fetched:
            self._fetched[identity] = fetch = self._new_fetch(name, needed, gradient)
            if not fetch.is_idle:
                fetches.append(fetch)
        return (self._fetched[identity].key, mine.region) if mine is not None else ("", None)

    def _new_fetch(self, name: str, needed: Layout, gradient: Layout | None) -> Fetch:
        key = f"{name}@{len(self._fetched)}"
        if name in self._everywhere:
            return Fetch(name, key, Window(regions.whole(self._shape(name)),
                                           needed.on(self._rank).region))
        made, gradient_needed = self._made[name]
        exchanges = Exchanges([self._exchange(name, made, needed, gradient, gradient_needed)],
                              number=next(self._numbers))
        if exchanges.is_identity:
            return Fetch(name, name)
        self._flows.append((made, needed))
        return Fetch(name, key, exchanges)

    def _shape(self, name: str) -> tuple[int, ...]:
        """Of an input, buffer or constant, in one micro-batch."""
        shape = tuple(self._model.tensor(name).shape)
        if name in self._captured.batched:
            return (shape[0] // self._micro_batches, *shape[1:])
        return shape

    def _dtype(self, tensor: str) -> torch.dtype:
        return getattr(torch, self._model.tensor(tensor).dtype)

    def _check_whole(self, op: LocalOp, made: list[Layout]) -> None:
        for result, dim in op.whole:
            extent = ((0, made[result].shape[dim]),)
            if any(piece.region[dim] != extent for piece in made[result].pieces):
                raise _core.InputError(
                    f"op '{op.name}' ({op.node}): its dim {dim} is split, which torch's kernel "
                    "cannot do by parts. Keep it whole: fix=FILE with a constraint for it.")
