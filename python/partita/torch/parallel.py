# SPDX-License-Identifier: Apache-2.0
"""The module that a plan makes: parameters where the plan keeps them, ops where it puts them."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.utils._pytree as pytree
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from partita import _core
from partita.torch import chunks, recompute, regions
from partita.torch.capture import Captured
from partita.torch.chunks import Chunk, MicroBatch
from partita.torch.exchange import Exchanges, Narrow, Traffic, finished
from partita.torch.moves import Move, Moves, Send
from partita.torch.programs import Environment, Programs, Step
from partita.torch.regions import Window
from partita.torch.schedule import passes_of, stages_of, turns

Fetched = torch.Tensor | Narrow | None  # a parameter as its readers get it


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
        known = dict(module.named_parameters())
        _check(captured, model, plan, known)
        self._captured = captured
        self._mode, self._schedule = plan.mode, plan.schedule
        self._micro_batches = plan.micro_batches
        self._rank = dist.get_rank()
        self._pending: list[Send] = []  # of the last iteration
        self._turn = 0  # micro-batches so far, which random numbers depend on
        self._seed = _seed_of_rank_0()

        programs = Programs(captured, model, plan, self._rank)
        self._groups = programs.groups
        self._homes, exchanges = programs.parameters()
        # Those with gradients and those without travel apart.
        self._fetched: list[tuple[list[str], Exchanges]] = []
        for trained in (True, False):
            names = [name for name, each in exchanges.items() if (each.backward is not None) == trained]
            self._fetched.append((names, Exchanges([exchanges[name] for name in names], is_last=True)))
        steps = programs.steps() + programs.loss()
        self._results = programs.results()
        self._updates = programs.updates()

        ops = {op.name: op for op in plan.ops}
        self._chunks = self._chunked(steps, programs, plan, model)

        self._meshes: dict[tuple, DeviceMesh] = {}
        self._names: list[str] = []  # of parameters that this rank keeps
        for name in captured.parameters:
            self._keep(name, known[name], self._mesh(ops[name], model.factors(name)))
        self._copy_buffers(module)

    def _chunked(self, steps: list[Step], programs: Programs, plan: _core.Plan,
                 model: _core.Model) -> list[Chunk]:
        """The steps as they run in turns, with what runs again for the backward."""
        captured = self._captured
        devices = {op.name: op.devices for op in plan.ops}
        stages = stages_of([devices[op.name] for op in captured.ops], dist.get_world_size())
        self._stage, self._stages = max(stages[self._rank], 0), max(stages) + 1
        passes = passes_of([(op.operands, op.results, stages[devices[op.name][0]])
                            for op in captured.ops], self._stages)
        units = recompute.units_of([(op.name, number) for op, number in zip(
            captured.ops, passes, strict=True)], plan.recomputed(model))
        parts = [steps]
        if self._is_interleaved(passes):
            parts = chunks.parted(steps, *_passes_by_name(captured, passes), self._stage, self._stages)
        elif not programs.flows_forward(stages):
            self._stage, self._stages = 0, 1  # micro-batches one after the other
        last = {fetch.tensor for fetch in [*self._results, *(fetch for _, fetch in self._updates)]}
        later: set[str] = set()
        made: list[Chunk] = []
        for part in reversed(parts):
            grouped = recompute.grouped(captured, part, units, last | later, programs.differentiable)
            made.insert(0, Chunk(grouped, later, last))
            later.update(made[0].reads())
        return made

    def _is_interleaved(self, passes: list[int]) -> bool:
        """May chunks of several micro-batches be under way?"""
        return (self._schedule == "interleaved" and max(passes) >= self._stages > 1 and
                self._micro_batches % self._stages == 0 and not self._updates and
                self._captured.loss_scale is not None)

    # Parameters.

    def _keep(self, name: str, parameter: nn.Parameter,
              mesh: tuple[DeviceMesh, list] | None) -> None:
        mine = self._homes[name].on(self._rank)
        if mine is None:
            return
        kept = Window(regions.whole(parameter.shape), mine.region).read(parameter.detach()).clone(
            memory_format=torch.contiguous_format)
        if mesh is not None:
            kept = DTensor.from_local(kept, *mesh, run_check=False, shape=parameter.shape,
                                      stride=parameter.stride())
        registered = nn.Parameter(kept, requires_grad=parameter.requires_grad)
        registered.partita_region = mine.region
        _nest(self, name).register_parameter(name.rpartition(".")[2], registered)
        self._names.append(name)

    def _mesh(self, op: _core.OpPlan,
              factors: list[_core.FactorInfo]) -> tuple[DeviceMesh, list] | None:
        """What DTensor says of who keeps a parameter; None: nothing. All ranks call this for all
        parameters in one order: a mesh makes groups."""
        degrees, devices = (op.update_degrees, op.update_devices) if op.update_devices else (
            op.degrees, op.devices)
        if len(devices) < 2:
            return None
        dims = {factor.name: factor.results[0][1] for factor in factors if factor.results}
        if op.name in self._captured.turned:
            dims = {name: 1 - dim for name, dim in dims.items()}
        if any(factor != "*" and factor not in dims for factor, _ in degrees):
            return None  # strided parts of fused projections
        placements = [Replicate() if factor == "*" else Shard(dims[factor]) for factor, _ in degrees]
        shape = tuple(degree for _, degree in degrees)
        identity = (shape, tuple(devices))
        if identity not in self._meshes:
            self._meshes[identity] = DeviceMesh("cpu", torch.tensor(devices).reshape(shape))
        return self._meshes[identity], placements

    def _copy_buffers(self, module: nn.Module) -> None:
        saved = module.state_dict()
        buffers = dict(module.named_buffers(remove_duplicate=False))
        for name in self._captured.buffers:
            _nest(self, name).register_buffer(name.rpartition(".")[2], buffers[name].clone(),
                                              persistent=name in saved)
        aliases = (alias for each in self._captured.aliases.values() for alias in each)
        read = {*self._captured.parameters, *self._captured.buffers, *aliases}
        self._unread = {name: each.clone() for name, each in saved.items() if name not in read}

    def _locals(self) -> Environment:
        """What this rank keeps of each parameter."""
        values: Environment = {}
        for name in self._names:
            parameter = self.get_parameter(name)
            values[name] = _Local.apply(parameter) if isinstance(parameter, DTensor) else parameter
        return values

    def _whole(self, name: str, mine: torch.Tensor | None) -> torch.Tensor:
        """Of a parameter or its gradient, of which this rank has `mine`."""
        home = self._homes[name]
        traffic = Traffic()
        move = Move(name, home, home.everywhere(dist.get_world_size()), self._rank,
                    self._captured.dtypes[name], self._groups)
        whole, = Moves([move]).run([mine], traffic.pending)
        traffic.settle()
        return whole.clone()

    def full_state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers whole, by the names of the module it was made of, on every rank; a
        collective call. Tied ones are there under each name, those that nothing reads as they were."""
        with torch.no_grad():
            held = self._locals()
            state = {name: self._whole(name, held.get(name)) for name in self._homes}
        for name, aliases in self._captured.aliases.items():
            state.update({alias: state[name] for alias in aliases if name in state})
        own = self.state_dict()
        state.update({name: own[name].clone() for name in self._captured.buffers if name in own})
        state.update({name: each.clone() for name, each in self._unread.items()})
        return state

    def gradients(self) -> dict[str, torch.Tensor]:
        """Gradients of all trained parameters, whole, on every rank; a collective call."""
        whole = {}
        for name in self._homes:
            if name not in self._captured.trained:
                continue
            mine = self.get_parameter(name).grad if name in self._names else None
            if mine is None and name in self._names:
                raise _core.UsageError(f"parameter '{name}' has no gradient. Call backward() first.")
            whole[name] = self._whole(name, mine.to_local() if isinstance(mine, DTensor) else mine)
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

    def _fetch_parameters(self, traffic: Traffic) -> dict[str, Fetched]:
        kept = self._locals()
        values: dict[str, Fetched] = {}
        for names, exchanges in self._fetched:
            values.update(zip(names, exchanges.run([kept.get(name) for name in names], traffic),
                              strict=True))
        for name in self._captured.turned:
            if values.get(name) is not None:
                values[name] = values[name].t()
        return values

    def _set_random(self, micro_batch: int) -> None:
        self._captured.numbers.seed = self._seed
        self._captured.numbers.turn = self._turn + micro_batch

    def _begun(self, inputs: Environment, parameters: dict[str, Fetched]) -> Environment:
        """What a micro-batch finds."""
        buffers = {name: self.get_buffer(name) for name in self._captured.buffers}
        values: Environment = {**buffers, **self._captured.constants, **inputs}
        for name, value in parameters.items():
            values[name] = value.used() if isinstance(value, Narrow) else value
        return values

    def _body(self, number: int, inputs: Environment, parameters: dict[str, Fetched],
              traffic: Traffic) -> list[torch.Tensor]:
        """One micro-batch; its results, whole."""
        traffic.micro_batch = number
        self._set_random(number)
        values = self._begun(inputs, parameters)
        with torch.autocast("cpu", enabled=False):  # its casts are among the steps
            for chunk in self._chunks:
                chunk.run(values, traffic)
        self._update_buffers(values, traffic)
        for fetch in self._results:
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

    def _micro(self, inputs: Environment) -> Iterator[Environment]:
        for index in range(self._micro_batches):
            yield {name: value.chunk(self._micro_batches)[index]
                   if name in self._captured.batched else value for name, value in inputs.items()}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the module it was made of. A plan of inference computes no gradients."""
        inputs = self._inputs(args, kwargs)
        traffic = Traffic(self._pending)
        traffic.settle()
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._mode == "training"):
            parameters = self._fetch_parameters(traffic)
            batches = [self._body(number, each, parameters, traffic)
                       for number, each in enumerate(self._micro(inputs))]
        self._turn += self._micro_batches
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
        schedule (GPipe, 1F1B, eager 1F1B, interleaved; zb-h1 as 1F1B). Parameters are fetched once, and
        their gradients reduced once, behind the last micro-batch.
        """
        if self._mode != "training":
            raise _core.UsageError("the plan is one of inference, and a step trains. Plan with "
                                   "mode=\"training\", or call the module.")
        inputs = list(self._micro(self._inputs(args, kwargs)))
        traffic = Traffic(self._pending)
        traffic.settle()
        fetched = self._fetch_parameters(traffic)
        ghosts, traffic.ghosts = traffic.ghosts, []
        leaves = {name: _leaf(value) for name, value in fetched.items()}
        if loss is None and self._captured.loss_scale is not None:
            total = self._in_turns(inputs, leaves, traffic)
        else:
            total = self._one_by_one(inputs, leaves, traffic, loss)
        self._turn += self._micro_batches
        reached = []
        for name, leaf in leaves.items():
            token, origin = _token(leaf), _token(fetched[name])
            if token is not None and token.requires_grad:
                reached.append((origin, torch.zeros_like(token) if token.grad is None else token.grad))
        reached += [(ghost, torch.zeros(())) for ghost in ghosts]
        if reached:
            torch.autograd.backward([value for value, _ in reached], [grad for _, grad in reached])
        traffic.settle()
        return total

    def _one_by_one(self, inputs: list[Environment], leaves: dict[str, Fetched], traffic: Traffic,
                    loss: Callable[[Any], torch.Tensor] | None) -> torch.Tensor:
        total = torch.zeros(())
        for number, each in enumerate(inputs):
            results = pytree.tree_unflatten(self._body(number, each, leaves, traffic),
                                            self._captured.out_spec)
            value = loss(results) if loss else results
            if not isinstance(value, torch.Tensor) or value.dim() != 0:
                raise _core.UsageError("step(): expected a loss, one number. Give loss=..., a function of "
                                       "what the module returns.")
            value.backward()
            total += value.detach()
        return total

    def _in_turns(self, inputs: list[Environment], leaves: dict[str, Fetched],
                  traffic: Traffic) -> torch.Tensor:
        """Of a module whose result is a loss: no rank waits for its value before the end."""
        batches = [MicroBatch(number, self._chunks, partial(self._begun, each, leaves))
                   for number, each in enumerate(inputs)]
        total = torch.zeros(())
        for turn in turns(self._schedule, len(inputs), self._stage, self._stages, len(self._chunks)):
            if not turn.is_forward:
                batches[turn.micro_batch].backward(turn.chunk)
                continue
            self._set_random(turn.micro_batch)
            with torch.autocast("cpu", enabled=False):  # its casts are among the steps
                values, loss = batches[turn.micro_batch].forward(turn.chunk, traffic, "@loss")
            self._update_buffers(values, traffic)
            total += loss
        fetch, = self._results
        with torch.no_grad():
            values: Environment = {"@loss": total}
            fetch.run(values, traffic)
        traffic.settle()
        return values[fetch.key]


def _passes_by_name(captured: Captured, passes: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Of ops, and of the tensors that they make."""
    of_ops = {op.name: number for op, number in zip(captured.ops, passes, strict=True)}
    made = {name: of_ops[op.name] for op in captured.ops for name in op.results}
    if captured.loss_scale is not None:
        of_ops["@loss"] = made[captured.results[0].name]
    return of_ops, made


def _token(fetched: Fetched) -> torch.Tensor | None:
    """What has its gradient."""
    return fetched.token if isinstance(fetched, Narrow) else fetched


def _leaf(fetched: Fetched) -> Fetched:
    """The same, where gradients add up, if it has any."""
    if isinstance(fetched, Narrow):
        return fetched.leaf()
    if fetched is None or not fetched.requires_grad:
        return fetched
    return fetched.detach().requires_grad_()


def _check(captured: Captured, model: _core.Model, plan: _core.Plan,
           known: dict[str, nn.Parameter]) -> None:
    """Refuses what cannot be run as it is planned."""
    devices, ranks = plan.machine.device_count, dist.get_world_size()
    if ranks != devices:
        raise _core.UsageError(f"the plan is for {devices} devices, and there are {ranks} ranks. Start "
                               f"{devices}, or plan for a machine of {ranks} devices.")
    for name in captured.parameters:
        if name not in known:
            raise _core.MismatchError(f"the module has no parameter '{name}': the plan was made for "
                                      "another one. Plan this one.")
        planned = list(model.tensor(name).shape)
        shape = list(known[name].shape)
        if shape != (planned[::-1] if name in captured.turned else planned) or (
                known[name].dtype != captured.dtypes[name]):
            raise _core.MismatchError(f"parameter '{name}' is {shape} of {known[name].dtype}, and was "
                                      "another one when the module was planned. Plan this one.")
    for name, shape, _ in captured.inputs:
        if name in captured.batched and shape[0] % plan.micro_batches:
            raise _core.UsageError(f"argument '{name}': {shape[0]} samples do not make "
                                   f"{plan.micro_batches} equal micro-batches. Plan with a number that "
                                   "divides them.")
    if "clip_norm" in json.loads(plan.json())["policy"]:
        raise _core.UsageError("the plan clips gradients, which is the caller's here. Plan without the "
                               "option clip_norm, and call torch.nn.utils.clip_grad_norm_().")


def _seed_of_rank_0() -> int:
    """So that all ranks draw the same random numbers."""
    seed = torch.tensor(torch.initial_seed() % (1 << 31))
    dist.broadcast(seed, 0)
    return int(seed)


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
