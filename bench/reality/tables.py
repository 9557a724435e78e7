# SPDX-License-Identifier: Apache-2.0
"""Figures of predictions beside measurements, as aligned tables and as a CSV of rows."""
import collections
import csv
import re
import statistics


def errors_of(outcomes, predicted="predicted_s", measured="measured_s"):
    """Signed relative errors of the outcomes that have both figures."""
    pairs = [(getattr(o, predicted), getattr(o.row, measured)) for o in outcomes]
    return [p / m - 1 for p, m in pairs if p is not None and m]


def ranks(values):
    """Ranks from 1; equal values have their mean rank."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def spearman(first, second):
    """Rank correlation, or None where one side is all equal."""
    a, b = ranks(first), ranks(second)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return statistics.correlation(a, b)


def workloads(outcomes):
    """Outcomes with both times, by their row's group."""
    found = collections.defaultdict(list)
    for outcome in outcomes:
        if outcome.predicted_s is not None and outcome.row.measured_s:
            found[outcome.row.group].append(outcome)
    return found


def rank_correlations(outcomes):
    """Of each workload that has three configurations or more."""
    found = [spearman([o.predicted_s for o in group], [o.row.measured_s for o in group])
             for group in workloads(outcomes).values() if len(group) > 2]
    return [value for value in found if value is not None]


def losses(outcomes):
    """Measured time of what is predicted best over the best measured, minus 1, by workload."""
    found = []
    for group in workloads(outcomes).values():
        if len(group) > 1:
            chosen = min(group, key=lambda o: o.predicted_s).row.measured_s
            found.append(chosen / min(o.row.measured_s for o in group) - 1)
    return found


def percent(value):
    """`value` as signed percent."""
    return "-" if value is None else f"{100 * value:+.1f} %"


def aligned(rows):
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                      for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]


def within(outcomes):
    """Of the outcomes whose plan says how far it may be off, the mean of that, and how many are not further off."""
    said = [(o.error, o.predicted_s, o.row.measured_s) for o in outcomes
            if o.error is not None and o.predicted_s is not None and o.row.measured_s]
    if not said:
        return ["-", "-"]
    inside = sum(1 for error, predicted, measured in said if abs(measured / predicted - 1) <= error)
    return [f"{100 * statistics.mean(error for error, _, _ in said):.1f} %", f"{inside} of {len(said)}"]


def error_cells(errors):
    """n, mean of the absolute errors, their median, the bias."""
    if not errors:
        return ["0", "-", "-", "-"]
    sizes = [abs(error) for error in errors]
    return [str(len(errors)), f"{100 * statistics.mean(sizes):.1f} %",
            f"{100 * statistics.median(sizes):.1f} %", percent(statistics.mean(errors))]


def summary_lines(by_set):
    """A line for each data set, of times."""
    rows = [["times", "n", "mean |error|", "median", "bias", "Spearman", "workloads", "chosen plan",
             "worst", "said", "within", "failed", "continued", "s per row"]]
    for name, outcomes in by_set.items():
        ranked, lost = rank_correlations(outcomes), losses(outcomes)
        walls = [o.wall_s for o in outcomes if o.wall_s > 0]
        rows.append([name, *error_cells(errors_of(outcomes)),
                     f"{statistics.mean(ranked):.2f}" if ranked else "-", str(len(ranked)),
                     percent(statistics.mean(lost) if lost else None),
                     percent(max(lost) if lost else None), *within(outcomes),
                     str(sum(1 for o in outcomes if o.failure)),
                     str(sum(1 for o in outcomes if o.continued)),
                     f"{statistics.mean(walls):.1f}" if walls else "kept"])
    return aligned(rows)


def memory_lines(by_set):
    """A line for each data set with measured memory."""
    rows = [["memory", "n", "mean |error|", "median", "bias"]]
    for name, outcomes in by_set.items():
        errors = errors_of(outcomes, "predicted_gib", "measured_gib")
        if errors:
            rows.append([name, *error_cells(errors)])
    return aligned(rows) if len(rows) > 1 else []


def limit_lines(by_set):
    """A line for each data set with runs that did not fit: how many are predicted not to."""
    rows = [["out of memory", "measured", "of them predicted", "predicted though it ran"]]
    for name, outcomes in by_set.items():
        short = [o for o in outcomes if o.row.out_of_memory]
        wrong = sum(1 for o in outcomes if o.infeasible and not o.row.out_of_memory)
        if short or wrong:
            rows.append([name, str(len(short)), str(sum(1 for o in short if o.infeasible)),
                         str(wrong)])
    return aligned(rows) if len(rows) > 1 else []


def by_value_lines(name, outcomes, facts):
    """Errors of one data set by the values of each of `facts`."""
    rows = [[f"{name}, by", "n", "mean |error|", "median", "bias", "said", "within"]]
    for fact in facts:
        split = collections.defaultdict(list)
        for outcome in outcomes:
            if fact in outcome.row.facts:
                split[outcome.row.facts[fact]].append(outcome)
        for value in sorted(split):
            rows.append([f"{fact} {value}", *error_cells(errors_of(split[value])),
                         *within(split[value])])
    return aligned(rows) if len(rows) > 1 else []


def row_lines(outcomes):
    """A line for each outcome."""
    rows = [["id", "predicted", "measured", "error", "predicted GiB", "measured GiB"]]
    for o in outcomes:
        error = o.predicted_s / o.row.measured_s - 1 if o.predicted_s and o.row.measured_s else None
        rows.append([o.row.id, "-" if o.predicted_s is None else f"{o.predicted_s:.4g} s",
                     f"{o.row.measured_s:.4g} s" if o.row.measured_s else
                     "no memory" if o.row.out_of_memory else "-", percent(error),
                     "-" if o.predicted_gib is None else f"{o.predicted_gib:.2f}",
                     "-" if o.row.measured_gib is None else f"{o.row.measured_gib:.2f}"])
    return aligned(rows)


def plain_reason(failure):
    """Without the names of models and without numbers, and short."""
    return re.sub(r"\d+(\.\d+)?", "#", re.sub(r"\S+\.onnx", "MODEL", failure))[:80]


def failure_lines(by_set):
    """Reasons without their numbers, the most frequent first, with one row that has it."""
    reasons = collections.defaultdict(list)
    for name, outcomes in by_set.items():
        for o in outcomes:
            if o.failure:
                reasons[name, plain_reason(o.failure)].append(o)
    return [f"{name}: {len(found)} x {found[0].failure[:200]} (first: {found[0].row.id})"
            for (name, _), found in sorted(reasons.items(), key=lambda r: -len(r[1]))]


def write_csv(path, by_set):
    """One line for each row."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["set", "id", "predicted_s", "measured_s", "predicted_gib", "measured_gib",
                      "continued_from", "tasks", "failure"])
        for name, outcomes in by_set.items():
            for o in outcomes:
                out.writerow([name, o.row.id, *(number(v) for v in (
                    o.predicted_s, o.row.measured_s, o.predicted_gib, o.row.measured_gib)),
                    o.continued, o.tasks or "", o.failure[:200]])


def number(value):
    """Six digits, or nothing."""
    return "" if value is None else f"{value:.6g}"
