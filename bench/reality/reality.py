#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds step times and memory that Partita predicts against training runs of other people.

    reality.py --sets vtrain-single --limit 60
    reality.py --sets simumax --rows --out rows.csv
    reality.py --sets vtrain-single --extra '--set device.launch_interval=45us' --by tp,pp

Every row is planned by the program itself, one evaluation of the configuration that was run.
README.md beside this file says what the data sets are.
"""
import argparse
import pathlib
import shlex
import sys

import models
import runner
import tables
from sets import alpa, amp, fsdp_mpt, neusight, simumax, torch_steps, training_runs, vtrain

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = {
    "vtrain-single": vtrain.single_node,
    "vtrain-multi": vtrain.multi_node,
    "simumax": simumax.rows,
    "sc21": training_runs.sc21,
    "selective": training_runs.selective,
    "mt-nlg": training_runs.mt_nlg,
    "llama3": training_runs.llama3,
    "torchtitan": training_runs.torchtitan,
    "bloom": training_runs.bloom,
    "fsdp-mpt": fsdp_mpt.rows,
    "alpa-intra": alpa.intra_op,
    "alpa-e2e": alpa.end_to_end,
    "amp-t4": amp.on_t4,
    "amp-mixed": amp.mixed,
    "neusight-4gpu": neusight.four_gpus,
    "neusight-1gpu": neusight.one_gpu,
    "h200-steps": torch_steps.h200,
    "h100-steps": torch_steps.h100,
}


def parsed():
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partita", type=pathlib.Path, default=ROOT / "build/release/partita")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data",
                        help="a folder with profiles/ and published/")
    parser.add_argument("--sets", default=",".join(SETS), help="some of " + ", ".join(SETS))
    parser.add_argument("--limit", type=int, default=0, help="of each set so many rows, spread")
    parser.add_argument("--match", default="", help="only rows whose id has this in it")
    parser.add_argument("--extra", default="", help="options of partita plan for every row")
    parser.add_argument("--by", default="", help="errors by these: gpus, tp, dp, pp, hidden, ...")
    parser.add_argument("--rows", action="store_true", help="print each row too")
    parser.add_argument("--out", type=pathlib.Path, help="a CSV of all rows")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / ".cache/reality",
                        help="models, and answers by command and build")
    parser.add_argument("--python", default=sys.executable, help="has onnx and numpy")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one command")
    parser.add_argument("--most-tasks", type=float, default=2e6,
                        help="above: priced with fewer micro-batches and continued")
    return parser.parse_args()


def spread(rows, limit):
    """`limit` of the rows, evenly."""
    if not limit or limit >= len(rows):
        return rows
    return [rows[i * len(rows) // limit] for i in range(limit)]


def chosen_rows(name, arguments):
    """Rows of one data set that were asked for."""
    rows = SETS[name](arguments.data)
    return spread([row for row in rows if arguments.match in row.id], arguments.limit)


def report(by_set, arguments):
    """Prints all tables."""
    parts = [tables.summary_lines(by_set), tables.memory_lines(by_set), tables.limit_lines(by_set)]
    for name, outcomes in by_set.items():
        parts.append(tables.by_value_lines(name, outcomes, filter(None, arguments.by.split(","))))
        if arguments.rows:
            parts.append([name, *tables.row_lines(outcomes)])
    parts.append(tables.failure_lines(by_set))
    print("\n\n".join("\n".join(lines) for lines in parts if lines))


def main():
    arguments = parsed()
    names = arguments.sets.split(",")
    if unknown := [name for name in names if name not in SETS]:
        sys.exit(f"reality.py: --sets {unknown[0]}: is none of {', '.join(SETS)}.")
    made = models.Models(arguments.cache / "models", arguments.python)
    run = runner.Runner(arguments.partita, made, arguments.cache / "answers",
                        shlex.split(arguments.extra), arguments.timeout, arguments.most_tasks)
    by_set = {}
    for name in names:
        rows = chosen_rows(name, arguments)
        print(f"{name}: {len(rows)} rows", file=sys.stderr)
        by_set[name] = run.run(rows)
    report(by_set, arguments)
    if arguments.out:
        tables.write_csv(arguments.out, by_set)


if __name__ == "__main__":
    main()
