# SPDX-License-Identifier: Apache-2.0
"""Runs a function on several ranks of gloo, processes of this host."""
from __future__ import annotations

import gc
import os
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _rank(rank: int, world: int, port: int, function: Callable, args: tuple, answers: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        answers.put((rank, function(*args), None))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:  # whatever it is, the test says it
        answers.put((rank, None, traceback.format_exc()))
        os._exit(1)


def run(world: int, function: Callable, *args: Any, seconds: float = 600) -> list[Any]:
    """What the function returns on each rank. The processes are forks: they have what is there."""
    context = mp.get_context("fork")
    gc.freeze()  # or every rank copies the pages of all objects when it collects garbage
    answers = context.SimpleQueue()
    port = free_port()
    processes = [context.Process(target=_rank, args=(rank, world, port, function, args, answers),
                                 daemon=True) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(seconds)
    results: list[Any] = [None] * world
    faults = []
    seen = 0
    while not answers.empty():
        rank, result, fault = answers.get()
        seen += 1
        results[rank] = result
        if fault:
            faults.append(f"rank {rank}:\n{fault}")
    for process in processes:
        if process.is_alive():
            faults.append("a rank did not end")
            process.kill()
    if seen < world and not faults:
        faults.append(f"ranks ended by {[process.exitcode for process in processes]}")
    assert not faults, "\n".join(faults)
    return results
