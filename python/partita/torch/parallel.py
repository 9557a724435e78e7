# SPDX-License-Identifier: Apache-2.0
"""The module that a plan makes: parameters where the plan keeps them, ops where it puts them."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.utils._pytree as pytree
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from partita import _core
from partita.torch import regions
from partita.torch.capture import Captured
from partita.torch.exchange import Fetches, Traffic, exchanged, finished
from partita.torch.moves import Layout, Move
from partita.torch.programs import Environment, Programs, hull
from partita.torch.regions import Window
from partita.torch.schedule import stages_of, turns


class _Local(torch.autograd.Function):
    """DTensor.to_local(), whose gradient keeps the placements: autograd copies one that is not stored as
    the parameter is, and DTensor's copy of uneven parts would be whole."""

    @staticmethod
    def forward(ctx, parameter: DTensor) -> torch.Tensor:
        ctx.like = parameter
        local = parameter.detach().to_local()
        return local.view_as(local)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> DTensor:
        like = ctx.like
        return DTensor.from_local(gradient.contiguous(), like.device_mesh, like.placements,
                                  run_check=False, shape=like.shape, stride=like.stride())


class ParallelModule(nn.Module):
    """A module by parts. Call it as the module it was made of, with the same whole inputs on every
    rank; every rank gets whole results.

    Its parameters have their names of before. One that several ranks keep is a DTensor; one that lies
    on one rank is a plain tensor there and missing elsewhere; so is a part that DTensor has no
    placement for (`partita_region` says which part it is, full_state_dict() gathers all).
    """

    def __init__(self, captured: Captured, model: _core.Model, plan: _core.Plan,
                 module: nn.Module) -> None:
        super().__init__()
        self._rank = dist.get_rank()
        devices = plan.machine.device_count
        if dist.get_world_size() != devices:
            raise _core.UsageError(
                f"the plan is for {devices} devices, and there are {dist.get_world_size()} ranks. "
                f"Start {devices}, or plan for a machine of {dist.get_world_size()} devices.")
        self._captured = captured
        self._micro_batches = plan.micro_batches
        self._pending: list = []  # sends of the last iteration
        self._turn = 0  # micro-batches so far, which random numbers depend on
        for name, shape, _ in captured.inputs:
            if name in captured.batched and shape[0] % plan.micro_batches:
                raise _core.UsageError(f"argument '{name}': {shape[0]} samples do not make "
                                       f"{plan.micro_batches} equal micro-batches. Plan with a number "
                                       "that divides them.")
        self._plan_ops = {op.name: op for op in plan.ops}
        self._factors = {name: model.factors(name) for name in captured.parameters}
        known = dict(module.named_parameters())
        missing = [name for name in captured.parameters if name not in known]
        if missing:
            raise _core.MismatchError(f"the module has no parameter '{missing[0]}': the plan was made "
                                      "for another one. Plan this one.")
        programs = Programs(captured, model, plan.layouts(model), self._rank, devices,
                             plan.micro_batches)
        self._programs = programs
        self._homes = programs.parameters({name: known[name].dtype for name in captured.parameters})
        # Those with gradients and those without travel apart.
        self._fetches = []
        for trained in (True, False):
            named = [(name, exchange) for name, exchange in programs.fetched
                     if (exchange.backward is not None) == trained]
            self._fetches.append(([name for name, _ in named],
                                  Fetches([exchange for _, exchange in named])))
        self._steps = programs.steps()
        self._schedule = plan.schedule
        stages = stages_of([self._plan_ops[op.name].devices for op in captured.ops], devices)
        self._stage, self._stages = stages[self._rank], max(stages) + 1
        if not programs.flows_forward(stages):
            self._stages = 1  # micro-batches one after the other
        loss = programs.loss()
        if loss is not None:
            self._steps.append(loss)
        self._results = programs.results()
        self._updates = programs.updates()
        self._meshes: dict[tuple, DeviceMesh] = {}
        self._names: list[str] = []
        for name in captured.parameters:
            self._keep(name, known[name])
        buffers = dict(module.named_buffers())
        for name in captured.buffers:
            _nest(self, name).register_buffer(name.rpartition(".")[2], buffers[name].clone())
        kept = {*captured.parameters, *captured.buffers,
                *(alias for aliases in captured.aliases.values() for alias in aliases)}
        self._unused = {name: each.clone() for name, each in module.state_dict().items()
                        if name not in kept}
        # Ranks draw the same random numbers.
        seed = torch.tensor(torch.initial_seed() % (1 << 31))
        dist.broadcast(seed, 0)
        self._seed = int(seed)
        self._constants = captured.constants

    # Parameters.

    def _keep(self, name: str, parameter: nn.Parameter) -> None:
        home: Layout = self._homes[name]
        mesh_and_placements = self._mesh(name, home)
        mine = home.on(self._rank)
        if mine is None:
            return
        dist_value = Window(regions.whole(parameter.shape), mine.region).read(
            parameter.detach()).clone(memory_format=torch.contiguous_format)
        if mesh_and_placements is not None:
            mesh, placements = mesh_and_placements
            kept: Any = DTensor.from_local(dist_value, mesh, placements, run_check=False,
                                           shape=parameter.shape, stride=parameter.stride())
        else:
            kept = dist_value
        registered = nn.Parameter(kept, requires_grad=parameter.requires_grad)
        registered.partita_region = mine.region
        _nest(self, name).register_parameter(name.rpartition(".")[2], registered)
        self._names.append(name)

    def _mesh(self, name: str, home: Layout) -> tuple[DeviceMesh, list] | None:
        """All ranks call this for all parameters in one order: a mesh makes groups."""
        if len(home.parts) < 2:
            return None
        op = self._plan_ops[name]
        updated = bool(op.update_devices)
        degrees = op.update_degrees if updated else op.degrees
        devices = op.update_devices if updated else op.devices
        turned = name in self._captured.turned
        dims = {factor.name: 1 - factor.results[0][1] if turned else factor.results[0][1]
                for factor in self._factors[name] if factor.results}
        placements: list[Any] = []
        for factor, _ in degrees:
            if factor == "*":
                placements.append(Replicate())
            elif factor in dims:
                placements.append(Shard(dims[factor]))
            else:
                return None  # strided parts of fused projections
        shape = tuple(degree for _, degree in degrees)
        identity = (shape, tuple(devices))
        if identity not in self._meshes:
            self._meshes[identity] = DeviceMesh("cpu", torch.tensor(devices).reshape(shape))
        return self._meshes[identity], placements

    def _locals(self) -> Environment:
        """What this rank keeps of each parameter."""
        values: Environment = {}
        for name in self._names:
            parameter = self.get_parameter(name)
            values[name] = _Local.apply(parameter) if isinstance(parameter, DTensor) else parameter
        return values

    def full_state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers whole, by the names of the module it was made of, on every rank; a
        collective call. Tied ones are there under each name, those that nothing reads as they were."""
        state: dict[str, torch.Tensor] = {}
        traffic = Traffic()
        with torch.no_grad():
            held = self._locals()
            for name, home in self._homes.items():
                shape = regions.shape_of(hull(home))
                everywhere = Layout.everywhere(shape, dist.get_world_size())
                dtype = self._programs.dtypes[name]
                move = Move(home, everywhere, self._rank, dtype, self._programs.groups)
                mine = held.get(name)
                moved = move.run(mine, traffic.pending)
                state[name] = moved.clone()
                traffic.settle()
                for alias in self._captured.aliases.get(name, []):
                    state[alias] = state[name]
        state.update({name: self.get_buffer(name).clone() for name in self._captured.buffers})
        state.update({name: each.clone() for name, each in self._unused.items()})
        return state

    def gradients(self) -> dict[str, torch.Tensor]:
        """Gradients of all trained parameters, whole, on every rank; a collective call."""
        traffic = Traffic()
        whole = {}
        for name, home in self._homes.items():
            if name not in self._captured.trained:
                continue
            mine = None
            if home.on(self._rank) is not None:
                gradient = self.get_parameter(name).grad
                if gradient is None:
                    raise _core.UsageError(f"parameter '{name}' has no gradient. Call backward() first.")
                mine = gradient.to_local() if isinstance(gradient, DTensor) else gradient
            shape = regions.shape_of(hull(home))
            move = Move(home, Layout.everywhere(shape, dist.get_world_size()), self._rank,
                        self._programs.dtypes[name], self._programs.groups)
            whole[name] = move.run(mine, traffic.pending).clone()
            traffic.settle()
        return whole

    # Running.

    def train(self, mode: bool = True) -> ParallelModule:
        """What dropout and batch normalization do was settled when the module was planned."""
        if not mode and self._captured.is_training:
            raise _core.UsageError("the module was planned in training, where its dropout or batch "
                                   "normalization does otherwise. Plan module.eval() for evaluation.")
        return super().train(mode)

    def _inputs(self, args: tuple, kwargs: dict) -> Environment:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._captured.in_spec:
            raise _core.UsageError(f"arguments: expected {self._captured.in_spec}, got {spec}. Give "
                                   "those that the module was planned with.")
        values: Environment = {}
        for (name, shape, _), value in zip(self._captured.inputs, leaves, strict=True):
            if not name:
                continue
            if tuple(value.shape) != shape:
                raise _core.UsageError(f"argument '{name}': expected {list(shape)}, got "
                                       f"{list(value.shape)}. Plan again for this shape.")
            values[name] = value
        return values

    def _whole_values(self) -> Environment:
        """What every rank has: buffers and constants."""
        return {**{name: self.get_buffer(name) for name in self._captured.buffers},
                **self._constants}

    def _fetch_parameters(self, traffic: Traffic) -> Environment:
        kept = self._locals()
        values: Environment = {}
        for names, fetches in self._fetches:
            values.update(zip(names, fetches.run([kept.get(name) for name in names], traffic),
                              strict=True))
        for name in self._captured.turned:
            if values.get(name) is not None:
                values[name] = values[name].t()
        return values

    def _run(self, inputs: Environment, parameters: Environment, traffic: Traffic) -> Environment:
        self._captured.numbers.seed, self._captured.numbers.turn = self._seed, self._turn
        self._turn += 1
        values: Environment = {**self._whole_values(), **inputs, **parameters}
        for step in self._steps:
            step.run(values, traffic)
        self._update_buffers(values, traffic)
        return values

    def _body(self, inputs: Environment, parameters: Environment,
              traffic: Traffic) -> list[torch.Tensor]:
        """One micro-batch; its results, whole."""
        values = self._run(inputs, parameters, traffic)
        for fetch in self._results:
            if fetch.exchange is not None:
                fetch.run(values, traffic)
        results = finished([values[fetch.key] for fetch in self._results], traffic)
        if not torch.is_grad_enabled():
            traffic.settle()
        return results

    def _update_buffers(self, values: Environment, traffic: Traffic) -> None:
        with torch.no_grad():
            for name, fetch in self._updates:
                fetch.run(values, traffic)
                self.get_buffer(name).copy_(values[fetch.key])
            for name, increment in self._captured.counters:
                self.get_buffer(name).add_(increment)

    def _micro(self, inputs: Environment) -> Iterator[Environment]:
        for index in range(self._micro_batches):
            yield {name: value.chunk(self._micro_batches)[index]
                   if name in self._captured.batched else value for name, value in inputs.items()}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self._inputs(args, kwargs)
        traffic = Traffic(self._pending)
        traffic.settle()
        parameters = self._fetch_parameters(traffic)
        batches = [self._body(each, parameters, traffic) for each in self._micro(inputs)]
        results = [_joined(each) for each in zip(*batches, strict=True)]
        if self._captured.loss_scale is None:
            for value, result in zip(self._captured.results, results, strict=True):
                if tuple(result.shape) != value.shape:
                    raise _core.UsageError(f"result '{value.name}' has no samples, and {len(batches)} "
                                           "micro-batches each make one. Plan with one micro-batch.")
        return pytree.tree_unflatten(results, self._captured.out_spec)

    def step(self, *args: Any, loss: Callable[[Any], torch.Tensor] | None = None,
             **kwargs: Any) -> torch.Tensor:
        """Forward and backward of all micro-batches; gradients are added to `.grad`. Returns the loss of
        the whole batch.

        `loss`: makes one of what the module returns, so that those of the micro-batches add up; left
        out, the module returns the loss. Stages then work at the same time, in the order of the plan's
        schedule (GPipe or 1F1B; others as 1F1B). Parameters are fetched once, and their gradients
        reduced once, behind the last micro-batch.
        """
        inputs = list(self._micro(self._inputs(args, kwargs)))
        traffic = Traffic(self._pending)
        traffic.settle()
        fetched = self._fetch_parameters(traffic)
        ghosts, traffic.ghosts = traffic.ghosts, []
        leaves = {name: value.detach().requires_grad_() if value is not None and value.requires_grad
                  else value for name, value in fetched.items()}
        if loss is None and self._captured.loss_scale is not None:
            total = self._in_turns(inputs, leaves, traffic)
        else:
            total = self._one_by_one(inputs, leaves, traffic, loss)
        reached = [(fetched[name], torch.zeros_like(leaf) if leaf.grad is None else leaf.grad)
                   for name, leaf in leaves.items() if leaf is not None and leaf.requires_grad]
        reached += [(ghost, torch.zeros(())) for ghost in ghosts]
        if reached:
            torch.autograd.backward([value for value, _ in reached], [grad for _, grad in reached])
        traffic.settle()
        return total

    def _one_by_one(self, inputs: list[Environment], leaves: Environment, traffic: Traffic,
                    loss: Callable[[Any], torch.Tensor] | None) -> torch.Tensor:
        total = torch.zeros(())
        for each in inputs:
            results = pytree.tree_unflatten(self._body(each, leaves, traffic),
                                            self._captured.out_spec)
            value = loss(results) if loss else results
            value.backward()
            total += value.detach()
        return total

    def _in_turns(self, inputs: list[Environment], leaves: Environment,
                  traffic: Traffic) -> torch.Tensor:
        """Of a module whose result is a loss: no rank waits for its value before the end."""
        roots: dict[int, torch.Tensor] = {}
        total = torch.zeros(())
        for turn in turns(self._schedule, len(inputs), max(self._stage, 0), self._stages):
            if turn.is_forward:
                mine = self._run(inputs[turn.micro_batch], leaves, traffic).get("@loss")
                held = traffic.anchor.clone() if mine is None else mine
                roots[turn.micro_batch], = finished([held], traffic)
                total += held.detach()
            else:
                roots.pop(turn.micro_batch).backward()
        fetch, = self._results
        with torch.no_grad():
            summed = exchanged(fetch.exchange, traffic, total)
        traffic.settle()
        return summed


def _joined(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Of the micro-batches: samples behind one another, sums added up."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts) if parts[0].dim() else torch.stack(parts).sum()


def _nest(module: nn.Module, name: str) -> nn.Module:
    """The module that holds `name`, made where it is missing."""
    for step in name.split(".")[:-1]:
        if step not in module._modules:
            module.add_module(step, nn.Module())
        module = module._modules[step]
    return module
