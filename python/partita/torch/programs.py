# SPDX-License-Identifier: Apache-2.0
"""What one rank does of a plan: which operands it fetches, which parts it runs."""
from __future__ import annotations

import torch

from partita import _core
from partita.torch import regions
from partita.torch.capture import Captured, LocalOp, Part
from partita.torch.exchange import Exchange, Traffic, exchanged
from partita.torch.moves import Groups, Layout
from partita.torch.regions import Window

# Tensors by the keys under which ops find them.
Environment = dict[str, torch.Tensor | None]


class Fetch:
    """How an op gets one operand."""

    def __init__(self, tensor: str, key: str, window: Window | None = None,
                 exchange: Exchange | None = None) -> None:
        self.tensor = tensor      # by who makes it
        self.key = key            # as this op and its like need it
        self.window = window      # of a tensor that every rank has
        self.exchange = exchange  # of one that lies on devices

    def run(self, values: Environment, traffic: Traffic) -> None:
        if self.key in values:
            return
        if self.window is not None:
            values[self.key] = self.window.read(values[self.tensor])
        else:
            values[self.key] = exchanged(self.exchange, traffic, values.get(self.tensor))


class Step:
    """One op on this rank: the operands are fetched on all ranks, the op runs where it has a part."""

    def __init__(self, op: LocalOp, fetches: list[Fetch], keys: tuple[str, ...],
                 part: Part | None) -> None:
        self.op, self.fetches, self.keys, self.part = op, fetches, keys, part

    def run(self, values: Environment, traffic: Traffic) -> None:
        for fetch in self.fetches:
            fetch.run(values, traffic)
        if self.part is None:
            return
        results = self.op.run(self.part, *(values[key] if key else None for key in self.keys))
        if isinstance(results, torch.Tensor):
            results = (results,)
        for name, result in zip(self.op.results, results, strict=True):
            values[name] = result


class Programs:
    """Builds what one rank does, from the layouts of a plan."""

    def __init__(self, captured: Captured, model: _core.Model, layouts: list[_core.OpLayouts],
                 rank: int, devices: int, micro_batches: int) -> None:
        self._captured, self._model, self._rank = captured, model, rank
        self._devices = devices
        self._micro_batches = micro_batches
        self._by_op = {each.op: each for each in layouts}
        self.groups = Groups()
        self._everywhere = {name for name, _, _ in captured.inputs} | set(captured.buffers) | set(
            captured.constants)
        self._made: dict[str, tuple[Layout, Layout | None]] = {}
        self.dtypes = {name: dtype for name, _, dtype in captured.inputs}
        self._trained = set(captured.trained)
        self._renewed = {value.name for _, value in captured.updates}
        self._fetched: dict[tuple, Fetch] = {}
        self.fetched: list[tuple[str, Exchange]] = []  # parameters, once per iteration

    def parameters(self, dtypes: dict[str, torch.dtype]) -> dict[str, Layout]:
        """Where each parameter is updated, which is where it is kept between iterations; in the module's
        orientation."""
        readers: dict[str, dict[tuple[Layout, Layout | None], None]] = {}
        for op in self._captured.ops:
            for number, name in enumerate(op.operands):
                if name in self._captured.parameters:
                    layouts = self._by_op[op.name]
                    gradient = self._layout(op.name, layouts.operand_gradients[number]) if (
                        name in self._trained and layouts.operand_gradients) else None
                    needed = self._layout(op.name, layouts.operands[number])
                    readers.setdefault(name, {})[needed, gradient] = None
        homes = {}
        for name in self._captured.parameters:
            layouts = self._by_op[name]
            self.dtypes[name] = dtypes[name]
            kept = self._layout(name, layouts.results[0])
            home = self._layout(name, layouts.update) if layouts.update else kept
            wanted = list(readers[name])
            # One that all readers need alike goes there at once, and its gradient comes back so, after
            # the last micro-batch: partial gradients are added up where they arise.
            needed, gradient = wanted[0] if len(wanted) == 1 else (kept, kept)
            if name not in self._trained or not layouts.operand_gradients and not (
                    layouts.result_gradients):
                gradient = None
            self._made[name] = (needed, gradient)
            if name in self._captured.turned:  # they travel as the module has them
                home, needed = home.turned(), needed.turned()
                gradient = gradient.turned() if gradient else None
            homes[name] = home
            self.fetched.append((name, Exchange(name, home, needed, gradient,
                                                home if gradient else None, self._rank, dtypes[name],
                                                self.groups)))
        return homes

    def steps(self) -> list[Step]:
        steps = [self._step(op) for op in self._captured.ops]
        return [step for step in steps if step.part is not None or step.fetches]

    def flows_forward(self, stages: list[int]) -> bool:
        """Does nothing go from a stage to one before it, but parameters?"""
        made = {}
        for op in self._captured.ops:
            layouts = self._by_op[op.name]
            for name, layout in zip(op.operands, layouts.operands, strict=False):
                if name in made and any(stages[part.device] < made[name] for part in layout.parts):
                    return False
            for name, layout in zip(op.results, layouts.results, strict=True):
                made[name] = max(stages[part.device] for part in layout.parts)
        return True

    def loss(self) -> Step | None:
        """Adds up what this rank holds of the losses."""
        if self._captured.loss_scale is None:
            return None
        name = self._captured.results[0].name
        made, gradient = self._made[name]
        # Of replicas each sums up the same, of other parts its own.
        numbers = {region: number for number, region in
                   enumerate(dict.fromkeys(part.region for part in made.parts))}
        parts = tuple(part._replace(region=(), summand=numbers[part.region]) for part in made.parts)
        summed = Layout(parts, len(numbers), "sum" if len(numbers) > 1 else "")
        needed = Layout(tuple(part._replace(summand=0) for part in parts)) if gradient else None
        self._made["@loss"] = (summed, needed)
        scale = self._captured.loss_scale
        op = LocalOp("@loss", (name,), ("@loss",), lambda part, losses: losses.sum() * scale)
        mine = made.on(self._rank)
        part = Part((mine.region,), ((),)) if mine else None
        return Step(op, [], (name,), part)

    def results(self) -> list[Fetch]:
        """Every result of the module as a whole on every rank."""
        if self._captured.loss_scale is not None:
            return [self._result("@loss", self._captured.results[0].dtype)]
        fetches = []
        for value in self._captured.results:
            if value.name in self._everywhere:
                fetches.append(Fetch(value.name, value.name))
                continue
            fetches.append(self._result(value.name, value.dtype))
        return fetches

    def updates(self) -> list[tuple[str, Fetch]]:
        """What buffers become, on every rank."""
        return [(buffer, self._result(value.name, value.dtype))
                for buffer, value in self._captured.updates]

    def _result(self, name: str, dtype: torch.dtype) -> Fetch:
        made, gradient = self._made[name]
        everywhere = Layout.everywhere(regions.shape_of(hull(made)), self._devices)
        exchange = Exchange(name, made, everywhere, everywhere if gradient else None, gradient,
                            self._rank, dtype, self.groups)
        return Fetch(name, name if exchange.is_identity else name + "@result", exchange=exchange)

    def _layout(self, op: str, layout: _core.TensorLayout) -> Layout:
        devices = [part.device for part in layout.parts]
        if len(set(devices)) != len(devices):
            raise _core.InputError(f"op '{op}': two parts of it lie on one device, and a rank of "
                                   "torch runs one. Plan with as many devices as parts.")
        return Layout.of(layout)

    def _step(self, op: LocalOp) -> Step:
        layouts = self._by_op[op.name]
        differentiable = any(name in self._trained for name in op.operands)
        fetches, keys, operand_regions = [], [], []
        for number, name in enumerate(op.operands):
            if not name:
                keys.append("")
                operand_regions.append(None)
                continue
            needed = self._layout(op.name, layouts.operands[number])
            mine = needed.on(self._rank)
            operand_regions.append(mine.region if mine else None)
            keys.append("" if mine is None else self._fetch(op, number, name, needed, fetches))
            if mine is None and name not in self._everywhere:
                self._fetch(op, number, name, needed, fetches)
        made = [self._layout(op.name, each) for each in layouts.results]
        for number, (name, layout) in enumerate(zip(op.results, made, strict=True)):
            dtype = self._dtype(name)
            gradient = None
            if differentiable and dtype.is_floating_point and name not in self._renewed:
                self._trained.add(name)
                gradient = self._layout(op.name, layouts.result_gradients[number])
            self._made[name] = (layout, gradient)
            self.dtypes[name] = dtype
        mine_made = [each.on(self._rank) for each in made]
        part = None
        if mine_made[0] is not None:
            part = Part(tuple(operand_regions), tuple(each.region for each in mine_made))
        self._check_whole(op, made)
        return Step(op, fetches, tuple(keys), part)

    def _fetch(self, op: LocalOp, number: int, name: str, needed: Layout,
               fetches: list[Fetch]) -> str:
        """The key of the operand; adds how to get it, unless an op before did."""
        layouts = self._by_op[op.name]
        if name in self._everywhere:
            mine = needed.on(self._rank)
            identity = (name, mine.region)
            if identity not in self._fetched:
                shape = self._shape(name)
                window = Window(regions.whole(shape), mine.region)
                self._fetched[identity] = Fetch(name, f"{name}@{len(self._fetched)}", window=window)
                fetches.append(self._fetched[identity])
            return self._fetched[identity].key
        made, gradient_needed = self._made[name]
        gradient = None
        if gradient_needed is not None:
            gradient = self._layout(op.name, layouts.operand_gradients[number])
        identity = (name, needed, gradient)
        if identity not in self._fetched:
            exchange = Exchange(name, made, needed, gradient, gradient_needed, self._rank,
                                self.dtypes[name], self.groups)
            key = name if exchange.is_identity else f"{name}@{len(self._fetched)}"
            self._fetched[identity] = fetch = Fetch(name, key, exchange=exchange)
            if not exchange.is_identity and not exchange.is_idle:
                fetches.append(fetch)
        return self._fetched[identity].key

    def _shape(self, name: str) -> tuple[int, ...]:
        """Of an input, buffer or constant, in one micro-batch."""
        for known, shape, _ in self._captured.inputs:
            if known == name and name in self._captured.batched:
                return (shape[0] // self._micro_batches, *shape[1:])
        return tuple(self._model.tensor(name).shape)

    def _dtype(self, tensor: str) -> torch.dtype:
        return getattr(torch, self._model.tensor(tensor).dtype)

    def _check_whole(self, op: LocalOp, made: list[Layout]) -> None:
        for result, dim in op.whole:
            around = hull(made[result])
            for part in made[result].parts:
                if part.region[dim] != around[dim]:
                    raise _core.InputError(
                        f"op '{op.name}' ({op.node}): its dim {dim} is split, which torch's kernel "
                        "cannot do by parts. Keep it whole: fix=FILE with a constraint for it.")


def hull(layout: Layout) -> regions.Region:
    """From the first to the last position of each dim that some part holds."""
    dims = len(layout.parts[0].region)
    return tuple(
        ((min(part.region[dim][0][0] for part in layout.parts if part.region[dim]),
          max(part.region[dim][-1][1] for part in layout.parts if part.region[dim])),)
        for dim in range(dims))
