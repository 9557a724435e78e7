# SPDX-License-Identifier: Apache-2.0
"""A torch module as a graph that Partita plans, with what each of its ops does to local parts.

torch.export gives the ATen calls of the module; aten.py says each of them in operators of ONNX. Names
are those of the module: parameters and buffers by their qualified names, ops by the path of the
module that calls them.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx, nn

from partita import _core
from partita.torch.regions import Region, shape_of

_DTYPES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16",
    torch.bfloat16: "bfloat16", torch.int64: "int64", torch.int32: "int32", torch.int16: "int16",
    torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool",
}


@dataclass(frozen=True)
class Part:
    """Where a rank's part of an op lies: regions of operands (None: it holds nothing of that one) and
    of results."""

    operands: tuple[Region | None, ...]
    results: tuple[Region, ...]

    def shape(self, result: int = 0) -> tuple[int, ...]:
        return shape_of(self.results[result])


Run = Callable[..., Any]  # (part, *operands) -> a tensor, or one for each result


@dataclass(frozen=True)
class Value:
    """A tensor of the graph."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    constant: torch.Tensor | None = None  # known when the module was captured


@dataclass(frozen=True)
class LocalOp:
    """An op of the graph, and what it does to parts."""

    name: str
    operands: tuple[str, ...]  # tensors; "": left out
    results: tuple[str, ...]
    run: Run
    whole: tuple[tuple[int, int], ...] = ()  # (result, dim): run() needs all of that dim
    node: str = ""                           # the call of the module that it is part of


def _unsupported(node: fx.Node, why: str) -> _core.InputError:
    path = _path(node)
    where = f"{path}: {node.name}" if path else node.name
    return _core.InputError(f"{where} ({node.target}): {why}")


def _path(node: fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0] if stack else ""


class Numbers:
    """Random numbers of elements, the same however a tensor is cut: each is made of the number of the
    element, the call, the micro-batch and the iteration."""

    def __init__(self) -> None:
        self.seed = 0
        self.turn = 0  # counts forward passes of micro-batches

    def uniform(self, draw: int, region: Region, shape: tuple[int, ...]) -> torch.Tensor:
        """In [0, 1), for the elements of a region."""
        number = torch.zeros((), dtype=torch.int64)
        for dim, ranges in enumerate(region):
            places = torch.cat([torch.arange(*each) for each in ranges])
            number = number.unsqueeze(-1) * shape[dim] + places
        mixed = _mix(number + _mix(torch.tensor(self.seed * 1000003 + draw) + _mix(
            torch.tensor(self.turn))))
        return (mixed & ((1 << 24) - 1)).to(torch.float32) / (1 << 24)


def _mix(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finalizer (Steele et al., OOPSLA 2014), in wrapping 64-bit integers."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & ((1 << 33) - 1))


class Builder:
    """What aten.py writes to."""

    def __init__(self, name: str) -> None:
        self.numbers = Numbers()
        self._draws = 0
        self.turned: frozenset[str] = frozenset()
        self.buffers: set[str] = set()
        self.updates: list[tuple[str, Value]] = []    # of buffers, by results
        self.counters: list[tuple[str, float]] = []   # of buffers, by adding a number
        self.graph = _core.Graph(name)
        self.ops: list[LocalOp] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.node: fx.Node | None = None
        self.loss: fx.Node | None = None    # the call that reduces all to the module's one result
        self.loss_scale: float | None = None  # what its sum is multiplied by
        self._names: set[str] = set()

    def fail(self, why: str) -> _core.InputError:
        return _unsupported(self.node, why)

    @property
    def is_random(self) -> bool:
        return self._draws > 0

    def next_draw(self) -> int:
        self._draws += 1
        return self._draws

    def reduces_to_loss(self, scale: float) -> bool:
        """Is this call the loss? Then it is left unreduced in the graph, whose losses add up: so
        micro-batches pass one by one, and devices hold parts of it."""
        if self.node is not self.loss:
            return False
        self.loss_scale = scale
        return True

    def _unique(self, name: str) -> str:
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        return unique

    def _base(self) -> str:
        path = _path(self.node).replace(".", "/")
        return f"{path}/{self.node.name}" if path else self.node.name

    def integers(self, values: Sequence[int]) -> Value:
        name = self.graph.integers(self._unique(self._base() + "/sizes"), list(values))
        return Value(name, (len(values),), torch.int64)

    def constant(self, tensor: torch.Tensor) -> Value:
        """One that each rank has."""
        name = self._unique(self._base() + "/constant")
        self.graph.constant(name, list(tensor.shape), self.dtype_name(tensor.dtype))
        self.constants[name] = tensor
        return Value(name, tuple(tensor.shape), tensor.dtype, tensor)

    def dtype_name(self, dtype: torch.dtype) -> str:
        if dtype in _DTYPES:
            return _DTYPES[dtype]
        raise self.fail(f"elements of type {dtype} cannot be planned. Use {', '.join(_DTYPES.values())}.")

    def named(self, value: Value) -> Value:
        """A constant as a tensor of the graph."""
        return value if value.name else self.constant(value.constant)

    def emit(self, type: str, operands: Sequence[Value | None], run: Run,
             shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype], *,
             attributes: dict[str, Any] | None = None, hidden: Sequence[Value] = (),
             whole: Sequence[tuple[int, int]] = ()) -> list[Value]:
        """One op. `hidden`: operands behind the others that run() does without, such as a shape."""
        named = [self.named(value) if value is not None else None for value in operands]
        names = [value.name if value is not None else "" for value in named]
        name = self._unique(self._base())
        results = [name if number == 0 else f"{name}:{number}" for number in range(len(shapes))]
        self.graph.add(type, names + [value.name for value in hidden],
                       list((attributes or {}).items()), name, results)
        self.ops.append(LocalOp(name, tuple(names), tuple(results), run, tuple(whole),
                                self.node.name))
        return [Value(result, tuple(shape), dtype)
                for result, shape, dtype in zip(results, shapes, dtypes, strict=True)]


@dataclass
class Captured:
    """A module as a graph, and how to run it."""

    graph: _core.Graph
    ops: list[LocalOp]
    parameters: list[str]                 # qualified names, tensors of the graph
    trained: frozenset[str]               # of those
    turned: frozenset[str]                # weights [out in] that the graph has as [in out]
    buffers: list[str]                    # qualified names, tensors of the graph
    constants: dict[str, torch.Tensor]
    inputs: list[tuple[str, tuple[int, ...], torch.dtype]]
    results: list[Value]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    batched: set[str] = field(default_factory=set)  # inputs whose dim 0 is the batch
    is_training: bool = True              # what is computed depends on train() and eval(), and that was said
    numbers: Numbers = field(default_factory=Numbers)
    updates: list[tuple[str, Value]] = field(default_factory=list)    # buffers that calls renew
    counters: list[tuple[str, float]] = field(default_factory=list)   # buffers that calls count up
    loss_scale: float | None = None       # the one result is the sum of what the graph gives, times that
    aliases: dict[str, list[str]] = field(default_factory=dict)  # of tied parameters: other names


    def needed(self) -> list[Value]:
        """What the graph gives: the module's results, and what its buffers become."""
        return self.results + [value for _, value in self.updates]


def _kept(program: torch.export.ExportedProgram, module: nn.Module,
          builder: Builder) -> tuple[dict[str, Value], Captured]:
    """Placeholders of parameters, buffers and constants as values."""
    signature = program.graph_signature
    first_name = {id(each): name for name, each in module.named_parameters()}
    known = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    values: dict[str, Value] = {}
    builder.turned = _turned(program, {
        placeholder: first_name[id(known[target])]
        for placeholder, target in signature.inputs_to_parameters.items()})
    captured = Captured(builder.graph, builder.ops, [], frozenset(), builder.turned, [], builder.constants, [], [],
                        program.call_spec.in_spec, program.call_spec.out_spec)
    trained = set()
    used = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    for placeholder, target in signature.inputs_to_parameters.items():
        parameter = known[target]
        name = first_name[id(parameter)]
        if target != name:
            captured.aliases.setdefault(name, []).append(target)
        if placeholder not in used:
            continue
        shape = tuple(parameter.shape)[::-1] if name in builder.turned else tuple(parameter.shape)
        if name not in captured.parameters:
            builder.graph.parameter(name, list(shape), builder.dtype_name(parameter.dtype))
            builder._names.add(name)
            captured.parameters.append(name)
            if parameter.requires_grad:
                trained.add(name)
        values[placeholder] = Value(name, shape, parameter.dtype)
    for placeholder, target in signature.inputs_to_buffers.items():
        buffer = buffers[target]
        if placeholder not in used:
            continue
        builder.graph.constant(target, list(buffer.shape), builder.dtype_name(buffer.dtype))
        builder._names.add(target)
        captured.buffers.append(target)
        builder.buffers.add(target)
        values[placeholder] = Value(target, tuple(buffer.shape), buffer.dtype)
    for placeholder, target in signature.inputs_to_lifted_tensor_constants.items():
        constant = program.constants[target]
        values[placeholder] = Value("", tuple(constant.shape), constant.dtype, constant)
    captured.trained = frozenset(trained)
    return values, captured


def _turned(program: torch.export.ExportedProgram, names: dict[str, str]) -> frozenset[str]:
    """Parameters that are weights of linear layers and nothing else. The graph has them as its product
    wants them; a Transpose of its own would stand between a weight and the reduction of its gradient."""
    linear, other = set(), set()
    for node in program.graph.nodes:
        for number, argument in enumerate(node.args):
            if not isinstance(argument, fx.Node) or argument.name not in names:
                continue
            is_weight = node.target == torch.ops.aten.linear.default and number == 1
            (linear if is_weight else other).add(names[argument.name])
        for each in node.all_input_nodes:
            if each.name in names and each not in node.args:
                other.add(names[each.name])
    return frozenset(linear - other)


def _is_random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and (
        torch.Tag.nondeterministic_seeded in node.target.tags)


def capture(module: nn.Module, args: tuple = (), kwargs: dict | None = None,
            unbatched: Sequence[str] = ()) -> Captured:
    """Exports the module with these arguments, whose shapes become the graph's; dim 0 of each is the batch,
    but of those whose names `unbatched` has.

    Raises InputError that names module, call and remedy for what cannot be planned and run by parts.
    """
    from partita.torch import aten

    program = torch.export.export(module, args, kwargs or {})
    builder = Builder(type(module).__name__)
    # Parameters have no call that they belong to; the first node names them in errors.
    builder.node = next(iter(program.graph.nodes))
    values, captured = _kept(program, module, builder)
    builder.loss = _loss_of(program)
    user_inputs = set(program.graph_signature.user_inputs)
    found: dict[fx.Node, Any] = {}
    for node in program.graph.nodes:
        builder.node = node
        if node.op == "placeholder":
            if node.name not in user_inputs:
                found[node] = values.get(node.name)
                continue
            if not isinstance(node.meta.get("val"), torch.Tensor):
                found[node] = node.meta.get("val")
                captured.inputs.append(("", (), torch.float32))
                continue
            shape, dtype = tuple(node.meta["val"].shape), node.meta["val"].dtype
            if node.users:
                has_batch = bool(shape) and node.name not in unbatched
                if has_batch:
                    captured.batched.add(node.name)
                builder.graph.input(node.name, list(shape), builder.dtype_name(dtype),
                                    0 if has_batch else -1)
                builder._names.add(node.name)
            captured.inputs.append((node.name if node.users else "", shape, dtype))
            found[node] = Value(node.name, shape, dtype)
        elif node.op == "call_function":
            found[node] = _call(builder, node, found, aten)
        elif node.op == "output":
            for each in node.args[0]:
                value = found[each] if isinstance(each, fx.Node) else each
                if not isinstance(value, Value):
                    raise _unsupported(node, f"result {each} is no tensor. Return tensors alone.")
                if value.name in captured.parameters:
                    raise _unsupported(node, f"result {each} is a parameter. Return what is computed "
                                             "alone.")
                captured.results.append(builder.named(value))
    unknown = set(unbatched) - {name for name, _, _ in captured.inputs}
    if unknown:
        raise _core.UsageError(f"unbatched: the module has no argument '{min(unknown)}'. It has "
                               f"{', '.join(name for name, _, _ in captured.inputs if name)}.")
    captured.loss_scale = builder.loss_scale
    captured.numbers = builder.numbers
    captured.is_training = builder.is_random or bool(builder.updates)
    captured.updates, captured.counters = builder.updates, builder.counters
    for name in dict.fromkeys(value.name for value in captured.needed()):
        builder.graph.output(name)
    _drop_dead(captured)
    return captured


def _loss_of(program: torch.export.ExportedProgram) -> fx.Node | None:
    """The node of the one result, where that is a number."""
    results = next(node for node in program.graph.nodes if node.op == "output").args[0]
    if len(results) != 1 or not isinstance(results[0], fx.Node):
        return None
    result = results[0]
    return result if result.op == "call_function" and result.meta["val"].dim() == 0 else None


def _call(builder: Builder, node: fx.Node, found: dict[fx.Node, Any], aten: Any) -> Any:
    args = fx.map_arg(node.args, lambda each: found[each])
    kwargs = fx.map_arg(node.kwargs, lambda each: found[each])
    if node.target is operator.getitem:
        return args[0][args[1]]
    leaves = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Value)]
    if all(each.constant is not None and not each.name for each in leaves) and not _is_random(node):
        # Known already: arange, masks, tables of positions.
        plain = pytree.tree_map_only(Value, lambda each: each.constant, (args, kwargs))
        with torch.no_grad():
            result = node.target(*plain[0], **plain[1])
        return pytree.tree_map_only(
            torch.Tensor, lambda each: Value("", tuple(each.shape), each.dtype, each), result)
    lower = aten.TABLE.get(node.target)
    if lower is None:
        raise _unsupported(node, "this operator cannot be planned yet. Leave that part out of the "
                                 "module that is planned, or write it with others.")
    return lower(builder, *args, **kwargs)


def _drop_dead(captured: Captured) -> None:
    """Ops that no result needs, which the graph drops too."""
    needed = {value.name for value in captured.needed()}
    kept = []
    for op in reversed(captured.ops):
        if needed.intersection(op.results):
            kept.append(op)
            needed.update(op.operands)
    captured.ops[:] = reversed(kept)
    captured.parameters = [name for name in captured.parameters if name in needed]
    counted = {name for name, _ in captured.counters}
    captured.buffers = [name for name in captured.buffers if name in needed or name in counted]
    captured.trained = frozenset(name for name in captured.trained if name in needed)
