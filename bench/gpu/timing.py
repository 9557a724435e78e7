# SPDX-License-Identifier: Apache-2.0
"""What an operator takes on the device, without what the host takes to launch it."""
import statistics
import time

import torch

POOL_BYTES = 1 << 32  # operands are cut out of this; on CPUs, where it is for trying out, less
CPU_POOL_BYTES = 1 << 28
COLD_BYTES = 1 << 28  # several times an L2 cache: runs take turns on so many bytes of operands
MOST_TURNS = 16
LAUNCHES = 10
REPLAYS = 3


class Pool:
    """Random bytes, from which tensors of any type are cut without filling them again."""

    def __init__(self, device):
        self.device = torch.device(device)
        size = POOL_BYTES if self.device.type == "cuda" else CPU_POOL_BYTES
        self._numbers = {}
        self._size = size
        self._at = 0

    def numbers(self, dtype):
        if dtype not in self._numbers:
            width = torch.empty(0, dtype=dtype).element_size()
            elements = torch.empty(self._size // width, dtype=dtype, device=self.device)
            for part in elements.split(1 << 26):
                part.normal_()
            self._numbers[dtype] = elements
        return self._numbers[dtype]

    def cut(self, shape, dtype):
        """A view of memory that no tensor before it had, as long as the pool lasts."""
        numbers = self.numbers(dtype)
        count = 1
        for extent in shape:
            count *= extent
        if count > numbers.numel():
            raise MemoryError(f"{shape} is larger than the pool")
        start = self._at
        if start + count > numbers.numel():
            start = 0
        self._at = (start + count + 255) // 256 * 256
        return numbers[start:start + count].view(shape)


def turns_for(nbytes):
    return max(1, min(MOST_TURNS, -(-COLD_BYTES // max(1, nbytes))))


def microseconds(calls, device):
    """The median time of one of `calls`, which run in turn; GPUs replay them from a graph."""
    if torch.device(device).type != "cuda":
        return _host_microseconds(calls)
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    calls[0]()
    end.record()
    torch.cuda.synchronize()
    launches = LAUNCHES if begin.elapsed_time(end) < 2 else 4
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in range(launches):
            calls[launch % len(calls)]()
    graph.replay()
    times = []
    for _ in range(REPLAYS):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / launches)
    return statistics.median(times)


def _host_microseconds(calls):
    times = []
    for call in calls[:2]:
        start = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - start))
    return min(times)
