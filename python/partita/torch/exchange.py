# SPDX-License-Identifier: Apache-2.0
"""Exchanges: what goes from who makes a tensor to who needs it, and its gradient back again.

Autograd runs the backward of what this rank computed itself; at an exchange it waits for what other
ranks computed. That cannot deadlock: every rank makes the same exchanges in the same order, and
autograd goes through them backwards in the order in which they were made, the last one first. So that
it comes by each of them on each rank that takes part, one that receives nothing gives a ghost, a
scalar that the results of the whole depend on.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from partita.torch.moves import Groups, Layout, Move, Moves, Send


MOST_MICRO_BATCHES = 4096  # of a plan (plan/strategy/strategy.h)


class _Used(torch.autograd.Function):
    @staticmethod
    def forward(ctx, data: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        return data.view_as(data)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        return None, gradient.to(torch.float32)


@dataclass(frozen=True)
class Narrow:
    """A tensor in 16 bits whose gradient adds up in float32, where autograd would add up in its own type:
    that of the token, which has its shape and takes no memory."""

    data: torch.Tensor
    token: torch.Tensor

    def t(self) -> Narrow:
        return Narrow(self.data.t(), self.token.t())

    def leaf(self) -> Narrow:
        return Narrow(self.data, self.token.detach().requires_grad_())

    def used(self) -> torch.Tensor:
        return _Used.apply(self.data, self.token)


class Exchange:
    """Forward and backward moves of one tensor for one layout of its readers."""

    def __init__(self, name: str, made: Layout, needed: Layout, gradient: Layout | None,
                 gradient_needed: Layout | None, rank: int, dtype: torch.dtype,
                 groups: Groups, narrow: torch.dtype | None = None) -> None:
        """made, needed: of the tensor, by who makes it and for who reads it. gradient,
        gradient_needed: of its gradient, by who read it and for who made it; None: it has none.
        narrow: the type that readers get it in, and its gradient comes back in its own."""
        self.narrow = narrow
        self.forward = Move(name, made, needed, rank, narrow or dtype, groups)
        self.backward = (Move(name, gradient, gradient_needed, rank, dtype, groups)
                         if gradient is not None and gradient_needed is not None else None)

    @property
    def is_identity(self) -> bool:
        return self.narrow is None and self.forward.is_identity and (
            self.backward is None or self.backward.is_identity)


class Traffic:
    """What goes on in one iteration of one rank."""

    def __init__(self, pending: list[Send] | None = None) -> None:
        """pending: sends that may go on, which must outlive the graph that autograd drops behind a
        backward: one that is dropped is never sent."""
        self.anchor = torch.zeros((), requires_grad=True)
        self.ghosts: list[torch.Tensor] = []
        self.micro_batch = 0
        self.pending = [] if pending is None else pending

    def again(self) -> Traffic:
        """Of what runs once more for the backward."""
        traffic = Traffic(self.pending)
        traffic.micro_batch = self.micro_batch
        return traffic

    def settle(self) -> None:
        """Waits for all sends."""
        for send in self.pending:
            send.work.wait()
        self.pending.clear()


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx, exchanges: Exchanges, traffic: Traffic, data: list[torch.Tensor | None],
                anchor: torch.Tensor, *tensors: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Adds to `data` what moved; of what is narrow it returns tokens."""
        ctx.exchanges, ctx.traffic = exchanges, traffic
        ctx.tag = exchanges.tag(traffic, is_backward=True)
        data += exchanges.forward.run(exchanges.narrowed(tensors), traffic.pending,
                                      exchanges.tag(traffic))
        return tuple(anchor.new_zeros(()) if result is None else
                     anchor.new_zeros(()).expand(result.shape) if narrow is not None else
                     result.view_as(result) if result is tensor else result
                     for result, tensor, narrow in zip(data, tensors, exchanges.narrow, strict=True))

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor):
        exchanges, traffic = ctx.exchanges, ctx.traffic
        held = [gradient if move.is_target else None
                for gradient, move in zip(gradients, exchanges.forward.moves, strict=True)]
        moved = exchanges.backward.run(held, traffic.pending, ctx.tag)
        if exchanges.is_last:
            traffic.settle()
        return None, None, None, None, *moved


class Exchanges:
    """Those of one time, whose messages travel together; all of them have gradients, or none has."""

    def __init__(self, exchanges: list[Exchange], is_last: bool = False, number: int = 0) -> None:
        """is_last: nothing comes behind their backward. number: not 0, and of no others, where chunks of
        several micro-batches are under way, which two ranks may come by in different orders."""
        self._number = number
        self.forward = Moves([each.forward for each in exchanges])
        self.backward = Moves([each.backward for each in exchanges if each.backward is not None])
        self.is_last = is_last
        self.narrow = [each.narrow for each in exchanges]
        self.is_identity = all(each.is_identity for each in exchanges)
        self.is_idle = not exchanges or self.forward.is_idle and self.backward.is_idle

    def tag(self, traffic: Traffic, is_backward: bool = False) -> int:
        if self._number == 0:
            return 0
        return (2 * self._number + is_backward) * MOST_MICRO_BATCHES + traffic.micro_batch

    def narrowed(self, tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        return [each if each is None or narrow is None else each.detach().to(narrow)
                for each, narrow in zip(tensors, self.narrow, strict=True)]

    def run(self, tensors: list[torch.Tensor | None],
            traffic: Traffic) -> list[torch.Tensor | Narrow | None]:
        """Each as this rank needs it; None: it needs nothing of it."""
        if self.is_idle:
            return [None] * len(tensors)
        if self.is_identity:
            return tensors
        if not self.backward.moves or not torch.is_grad_enabled():
            return self.forward.run(self.narrowed(tensors), traffic.pending, self.tag(traffic))
        data: list[torch.Tensor | None] = []
        moved = _Exchanged.apply(self, traffic, data, traffic.anchor, *tensors)
        results: list[torch.Tensor | Narrow | None] = []
        for result, move, narrow, each in zip(moved, self.forward.moves, self.narrow, data, strict=True):
            if not move.is_target:
                traffic.ghosts.append(result)
                results.append(None)
            else:
                results.append(result if narrow is None else Narrow(each, result))
        return results


class _Finished(torch.autograd.Function):
    """Results that depend on all ghosts."""

    @staticmethod
    def forward(ctx, count: int, *tensors: torch.Tensor):
        ctx.ghosts = len(tensors) - count
        results = tuple(tensor.view_as(tensor) for tensor in tensors[:count])
        ctx.mark_non_differentiable(*(each for each in results if not each.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor):
        ghosts = tuple(torch.zeros(()) for _ in range(ctx.ghosts))
        return (None, *gradients, *ghosts)


def finished(results: list[torch.Tensor], traffic: Traffic) -> list[torch.Tensor]:
    """The results, whose backward goes through every exchange of the iteration."""
    if not torch.is_grad_enabled():
        return results
    # The anchor makes them depend on something even where this rank computes nothing.
    ghosts = [*traffic.ghosts, traffic.anchor]
    traffic.ghosts = []
    return list(_Finished.apply(len(results), *results, *ghosts))
