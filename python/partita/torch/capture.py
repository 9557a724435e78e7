# SPDX-License-Identifier: Apache-2.0
"""A torch module as a graph that Partita plans, with what each of its ops does to local parts.

torch.export gives the ATen calls of the module; aten/ says each of them in operators of ONNX. Names
are those of the module: parameters and buffers by their qualified names, ops by the path of the
module that calls them.
"""
from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx, nn

from partita import _core
from partita.torch.aten import TABLE
from partita.torch.aten.table import cast
from partita.torch.builder import Builder, LocalOp, Numbers, Value, unsupported


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
    is_training: bool = True  # was train() when captured, which its dropout or batch norm depends on
    numbers: Numbers = field(default_factory=Numbers)
    updates: list[tuple[str, Value]] = field(default_factory=list)  # buffers, and what they become
    loss_scale: float | None = None       # the one result is the sum of what the graph gives, times that
    aliases: dict[str, list[str]] = field(default_factory=dict)  # of tied parameters: other names
    autocast: torch.dtype | None = None   # of products, as torch.autocast has them; None: off
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)  # of parameters, in the module
    narrow: frozenset[str] = frozenset()  # parameters that all readers get in the type of autocast

    def model(self) -> _core.Model:
        """Narrow parameters have gradients in float32: autocast makes them so."""
        return _core.Model(self.graph, float32_gradients=bool(self.narrow))

    def values(self, module: nn.Module) -> dict[str, bytes]:
        """Contents of the graph's parameters and constants."""
        kept = dict(module.named_parameters())
        buffers = dict(module.named_buffers(remove_duplicate=False))
        tensors = {**{name: buffers[name] for name in self.buffers}, **self.constants}
        for name in self.parameters:
            value = kept[name].t() if name in self.turned else kept[name]
            tensors[name] = value.to(self.autocast) if name in self.narrow else value
        return {name: _bytes_of(each) for name, each in tensors.items()}

    def needed(self) -> list[Value]:
        """What the graph gives: the module's results, and what its buffers become."""
        return self.results + [value for _, value in self.updates]


def _bytes_of(tensor: torch.Tensor) -> bytes:
    """Row by row. Not by NumPy, which torch does without."""
    tensor = tensor.detach().cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def _kept(program: torch.export.ExportedProgram, module: nn.Module, builder: Builder,
          autocast: torch.dtype | None) -> tuple[dict[str, Value], Captured]:
    """Placeholders of parameters, buffers and constants as values."""
    signature = program.graph_signature
    first_name = {id(each): name for name, each in module.named_parameters()}
    known = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    values: dict[str, Value] = {}
    names = {placeholder: first_name[id(known[target])]
             for placeholder, target in signature.inputs_to_parameters.items()}
    builder.turned = _turned(program, names)
    narrow = _narrow(program, names, autocast) if autocast is not None else frozenset()
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
        dtype = autocast if name in narrow else parameter.dtype
        if name not in captured.parameters:
            builder.graph.parameter(name, list(shape), builder.dtype_name(dtype))
            builder.claim(name)
            captured.parameters.append(name)
            captured.dtypes[name] = parameter.dtype
            if parameter.requires_grad:
                trained.add(name)
        values[placeholder] = Value(name, shape, dtype)
    for placeholder, target in signature.inputs_to_buffers.items():
        buffer = buffers[target]
        if placeholder not in used:
            continue
        builder.graph.constant(target, list(buffer.shape), builder.dtype_name(buffer.dtype))
        builder.claim(target)
        captured.buffers.append(target)
        builder.buffers.add(target)
        values[placeholder] = Value(target, tuple(buffer.shape), buffer.dtype)
    for placeholder, target in signature.inputs_to_lifted_tensor_constants.items():
        constant = program.constants[target]
        values[placeholder] = Value("", tuple(constant.shape), constant.dtype, constant)
    captured.trained, captured.narrow = frozenset(trained), narrow
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


def _narrow(program: torch.export.ExportedProgram, names: dict[str, str],
            autocast: torch.dtype) -> frozenset[str]:
    """Parameters of float32 that nothing reads but what autocast runs in its type."""
    used: dict[str, bool] = {}
    for node in program.graph.nodes:
        if node.name not in names or node.op != "placeholder" or not node.users:
            continue
        lowered = node.meta["val"].dtype == torch.float32 and all(
            _is_lowered(user, autocast) for user in node.users)
        name = names[node.name]
        used[name] = used.get(name, True) and lowered
    return frozenset(name for name, lowered in used.items() if lowered)


def _is_lowered(node: fx.Node, autocast: torch.dtype) -> bool:
    return node.target in _LOWERED and node.meta["val"].dtype == autocast


def _is_random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and (
        torch.Tag.nondeterministic_seeded in node.target.tags)


def capture(module: nn.Module, args: tuple = (), kwargs: dict | None = None,
            unbatched: Sequence[str] = (), autocast: torch.dtype | None = None) -> Captured:
    """Exports the module with these arguments, whose shapes become the graph's; dim 0 of each is the batch,
    but of those whose names `unbatched` has. autocast: as under torch.autocast of that type.

    Raises InputError that names module, call and remedy for what cannot be planned and run by parts.
    """
    with autocasting(module, autocast):
        captured = _capture(module, args, kwargs or {}, unbatched, autocast)
    captured.autocast = autocast
    return captured


def autocasting(module: nn.Module, dtype: torch.dtype | None) -> AbstractContextManager:
    """The context in which the module runs as it was captured; None: off."""
    if dtype is None:
        return nullcontext()
    device = min({each.device.type for each in module.parameters()} or {"cpu"})
    if not torch.amp.is_autocast_available(device):
        raise _core.UsageError(f"precision: torch has no autocast for parameters on '{device}'. Move the "
                               "module to the CPU first.")
    return torch.autocast(device, dtype)


def _capture(module: nn.Module, args: tuple, kwargs: dict, unbatched: Sequence[str],
             autocast: torch.dtype | None) -> Captured:
    program = torch.export.export(module, args, kwargs)
    builder = Builder(type(module).__name__)
    # Parameters have no call that they belong to; the first node names them in errors.
    builder.node = next(iter(program.graph.nodes))
    values, captured = _kept(program, module, builder, autocast)
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
                builder.claim(node.name)
            captured.inputs.append((node.name if node.users else "", shape, dtype))
            found[node] = Value(node.name, shape, dtype)
        elif node.op == "call_function":
            found[node] = _call(builder, node, found, autocast)
        elif node.op == "output":
            for each in node.args[0]:
                value = found[each] if isinstance(each, fx.Node) else each
                if not isinstance(value, Value):
                    raise unsupported(node, f"result {each} is no tensor. Return tensors alone.")
                if value.name in captured.parameters:
                    raise unsupported(node, f"result {each} is a parameter. Return what is computed "
                                             "alone.")
                captured.results.append(builder.named(value))
    unknown = set(unbatched) - {name for name, _, _ in captured.inputs}
    if unknown:
        raise _core.UsageError(f"unbatched: the module has no argument '{min(unknown)}'. It has "
                               f"{', '.join(name for name, _, _ in captured.inputs if name)}.")
    captured.loss_scale = builder.loss_scale
    captured.numbers = builder.numbers
    captured.is_training = builder.is_random or bool(builder.updates)
    captured.updates = builder.updates
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


# Calls that torch.autocast runs in its type (torch/csrc/autocast, docs/source/amp.rst), of those that have
# a row in aten/. What it runs in float32 has a result of float32.
_aten = torch.ops.aten
_LOWERED = {_aten.linear.default, _aten.matmul.default, _aten.mm.default, _aten.bmm.default,
            _aten.addmm.default, _aten.einsum.default, _aten.scaled_dot_product_attention.default,
            _aten.conv1d.default, _aten.conv1d.padding, _aten.conv2d.default, _aten.conv2d.padding,
            _aten.conv3d.default, _aten.conv3d.padding, _aten.conv_transpose1d.default,
            _aten.conv_transpose2d.input, _aten.convolution.default}
_CASTS = {_aten.to.dtype, _aten.to.dtype_layout, _aten.type_as.default, _aten._to_copy.default}


def _as_autocast(builder: Builder, node: fx.Node, low: torch.dtype, arguments: Any) -> Any:
    """The operands of the type that torch.autocast gives them, which the exported program does not say."""
    results = [each.dtype for each in pytree.tree_leaves(node.meta.get("val"))
               if isinstance(each, torch.Tensor) and each.dtype.is_floating_point]
    operands = [each for each in pytree.tree_leaves(arguments)
                if isinstance(each, Value) and each.dtype.is_floating_point]
    if not results or not operands or node.target in _CASTS:
        return arguments
    if results[0] == torch.float32:
        given, wanted = low, torch.float32
    elif _is_lowered(node, low):
        given, wanted = torch.float32, low
    elif results[0] == low and operands[0].dtype == torch.float32:
        raise unsupported(node, f"autocast runs it in {low}, and how is not known here. Plan without "
                                "precision, or leave autocast off around it.")
    else:
        return arguments
    return pytree.tree_map_only(
        Value, lambda each: cast(builder, each, wanted) if each.dtype == given else each, arguments)


def _call(builder: Builder, node: fx.Node, found: dict[fx.Node, Any],
          autocast: torch.dtype | None) -> Any:
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
    if autocast is not None:
        args, kwargs = _as_autocast(builder, node, autocast, (args, kwargs))
    lower = TABLE.get(node.target)
    if lower is not None:
        return lower(builder, *args, **kwargs)
    lower = TABLE.get(_out_of_place(node.target))
    if lower is None:
        raise unsupported(node, "this operator cannot be planned yet. Leave that part out of the "
                                "module that is planned, or write it with others.")
    changed = found[node.args[0]]
    _check_in_place(node, changed.name in builder.buffers)
    result = lower(builder, *args, **kwargs)
    if changed.name in builder.buffers:
        builder.updates.append((changed.name, result))
    # Whoever reads the old tensor from now on finds the new one.
    found.update({each: result for each, value in found.items() if value is changed})
    return result


def _out_of_place(target: Any) -> Any:
    """aten.relu of aten.relu_; None: there is none."""
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return None
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
    return getattr(packet, target._overloadname, None)


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and any(
        each.alias_info is not None and not each.alias_info.is_write
        for each in node.target._schema.returns)


def _check_in_place(node: fx.Node, is_buffer: bool) -> None:
    """The tensor that the call changes must be nobody else's."""
    changed = node.args[0]
    if (changed.op == "placeholder" and not is_buffer) or _is_view(changed) or any(map(_is_view, changed.users)):
        raise unsupported(node, f"it changes '{changed.name}' in place, which is an argument or a "
                                "parameter, or shares its memory with another tensor. Write it without.")


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
    renewed = {name for name, _ in captured.updates}
    captured.buffers = [name for name in captured.buffers if name in needed or name in renewed]
    captured.trained = frozenset(name for name in captured.trained if name in needed)
