# SPDX-License-Identifier: Apache-2.0
"""Prices rows through `partita plan`: two at a time, with answers kept by command and build."""
import concurrent.futures
import dataclasses
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 1 << 30


@dataclasses.dataclass
class Outcome:
    """What became of a row: a prediction, or why there is none."""
    row: object
    predicted_s: float = None
    predicted_gib: float = None
    failure: str = ""
    continued: str = ""     # "4, 8": priced with so many micro-batches, and continued
    infeasible: bool = False
    wall_s: float = 0.0     # of the commands, 0 where all answers were kept
    tasks: int = 0
    error: float = None     # how far plan says that its kernels' prices may be off, 0.1 for 10 %


def stamp_of(partita):
    """Changes with the program, its libraries and the data files it may read."""
    found = hashlib.sha256()
    beside = partita.resolve().parent
    files = [partita, *beside.glob("partita"), *beside.glob("libpartita*.so"),
             *beside.glob("lib/libpartita*.so")]
    for data in (ROOT / "data", beside / "share" / "partita"):
        files += [file for kind in ("machines", "frameworks", "kernels", "collectives/models")
                  for file in (data / kind).glob("*.json")]
    for file in sorted(set(files)):
        found.update(str(file).encode() + file.read_bytes())
    return found.hexdigest()


class Runner:
    """`extra` goes behind the options of every row; `timeout` is of one command, in seconds."""

    def __init__(self, partita, models, cache, extra, timeout, most_tasks):
        self._partita, self._models, self._extra = pathlib.Path(partita), models, extra
        self._cache, self._timeout = pathlib.Path(cache), timeout
        self._most_tasks = most_tasks
        self._cache.mkdir(parents=True, exist_ok=True)
        self._stamp = stamp_of(self._partita)

    def run(self, rows, jobs=2):
        """Outcomes in the order of `rows`; a line for each on stderr as they end."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(self._outcome, row) for row in rows]
            for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
                print(f"[{count}/{len(rows)}] {progress(future.result())}", file=sys.stderr)
        return [future.result() for future in futures]

    def _outcome(self, row):
        outcome = Outcome(row)
        try:
            sizes = self._sizes(row)
            answers = [self._answer(row, size, outcome) for size in sizes]
        except (RuntimeError, ValueError) as error:
            outcome.failure = str(error)
            return outcome
        seconds = [answer["value_ps"] / 1e12 for answer in answers]
        outcome.predicted_s = seconds[-1]
        outcome.tasks = answers[-1]["tasks"]
        outcome.error = (answers[-1]["accuracy"] or {}).get("error")
        outcome.predicted_gib = max(d["memory_bytes"] for d in answers[-1]["devices"]) / GIB
        if len(sizes) == 2:
            slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
            outcome.predicted_s += slope * (row.micro_batches - sizes[1])
            outcome.continued = f"{sizes[0]}, {sizes[1]}"
        return outcome

    def _sizes(self, row):
        """Numbers of micro-batches to price: that of the row, or two to draw a line through.

        A step is a line in them from as many on as the pipeline has stages: then all that memory
        holds at once is there too.
        """
        if row.micro_batches * row.tasks_of_micro_batch <= self._most_tasks:
            return [row.micro_batches]
        few = max(2, row.stages)
        sizes = [few, 2 * few] if 2 * few < row.micro_batches else [row.micro_batches]
        tasks = sizes[-1] * row.tasks_of_micro_batch
        if tasks > 2 * self._most_tasks:
            raise ValueError(f"not tried: too many tasks (about {tasks / 1e6:.0f} million with "
                             f"{sizes[-1]} micro-batches; --most-tasks)")
        return sizes

    def _answer(self, row, micro_batches, outcome):
        """The JSON of one `partita plan`, kept or new. Raises RuntimeError with its message."""
        model = self._models.path(row.model)
        command = [str(self._partita), "plan", str(model), "--batch",
                   str(row.samples * micro_batches), "--micro-batches", str(micro_batches),
                   *row.options, *self._extra, "--threads", "1"]
        key = hashlib.sha256(repr((command, self._stamp, model.stat().st_size)).encode())
        file = self._cache / f"{key.hexdigest()[:32]}.json"
        if not file.exists():
            begin = time.monotonic()
            answer = self._plan(command)
            answer["wall_s"] = time.monotonic() - begin
            outcome.wall_s += answer["wall_s"]
            if answer["code"] in (0, 4):
                file.write_text(json.dumps(answer))
        else:
            answer = json.loads(file.read_text())
        if answer["code"] != 0:
            outcome.infeasible = answer["code"] == 4
            raise RuntimeError(answer["message"])
        return answer["summary"]

    def _plan(self, command):
        with tempfile.TemporaryDirectory() as folder:
            plan = ["-o", f"{folder}/plan.json", "--json", "--quiet"]
            try:
                done = subprocess.run(command + plan, capture_output=True, text=True, check=False,
                                      timeout=self._timeout)
            except subprocess.TimeoutExpired:
                return {"code": 124, "message": "timeout", "command": command}
        answer = {"code": done.returncode, "message": "", "command": command}
        if done.returncode == 0:
            answer["summary"] = short(json.loads(done.stdout))
        else:
            answer["message"] = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return answer


def short(summary):
    """What is kept of a summary."""
    devices = [{"memory_bytes": device["memory_bytes"]} for device in summary["devices"]]
    names = ("value_ps", "status", "configuration", "evaluations", "elapsed_s", "tasks", "notes",
             "accuracy")
    return {**{name: summary[name] for name in names}, "devices": devices}


def progress(outcome):
    """One line."""
    row = outcome.row
    if outcome.failure:
        return f"{row.id}: {outcome.failure[:150]}"
    text = f"{row.id}: predicted {outcome.predicted_s:.4g} s"
    if row.measured_s:
        error = 100 * (outcome.predicted_s / row.measured_s - 1)
        text += f", measured {row.measured_s:.4g} s, {error:+.0f} %"
    return text + f" ({outcome.wall_s:.1f} s)"
