#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an include crosses an arrow that the design does not have.

ARROWS has a row per folder, each of which may know folders of rows above it only: so there is no
cycle. A row ending in /* stands for a folder with all below it. An arrow that nobody uses is a fault
too: the table is what the code is like, and docs/architecture.md says why.

Also fails when a header of base, graph, cost, plan or search shows a third-party type other than
Boost's, a public header shows anything but the standard library and what is installed with it, a
header says `using namespace`, or a quoted include is not written from the repository root.

Usage: check_includes.py REPOSITORY
"""
import pathlib
import re
import sys

ARROWS = {
    "base": "",
    "graph": "base",
    "graph/operators": "base graph",
    "graph/fusion": "base graph graph/operators",
    "importers/*": "base graph",
    "cost/kernels": "base graph",
    "cost/machine": "base cost/kernels graph",
    "cost/discovery": "base cost/machine graph",
    "cost": "base cost/kernels cost/machine graph graph/operators",
    "cost/collectives": "base cost cost/machine",
    "cost/profile": "base cost cost/collectives cost/machine graph",
    "cost/traces": "base cost cost/profile graph",
    "plan/strategy": "base graph graph/operators",
    "plan/layout": "base cost/collectives cost/machine graph/operators plan/strategy",
    "plan/problem": "base cost cost/collectives cost/machine cost/profile graph graph/operators "
                    "plan/strategy",
    "plan/legality": "base plan/layout plan/problem plan/strategy",
    "plan/tasks": "base cost/collectives cost/machine cost/profile graph graph/operators "
                  "plan/layout plan/problem plan/strategy",
    "plan/tensors": "base cost/collectives cost/machine graph graph/operators plan/layout "
                    "plan/problem plan/strategy plan/tasks",
    "plan/folding": "base plan/problem plan/tasks plan/tensors",
    "plan/lowering": "base cost/collectives cost/machine graph plan/folding plan/legality "
                     "plan/problem plan/strategy plan/tasks plan/tensors",
    "plan/simulation": "base plan/tasks",
    "plan/evaluation": "base graph plan/legality plan/lowering plan/problem plan/simulation "
                       "plan/strategy plan/tasks plan/tensors",
    "plan/description": "base cost cost/collectives graph graph/operators plan/legality plan/problem "
                        "plan/simulation plan/strategy plan/tasks",
    "plan/incremental": "base plan/evaluation plan/legality plan/lowering plan/problem "
                        "plan/simulation plan/strategy plan/tasks plan/tensors",
    "plan/files": "base cost/collectives cost/machine plan/evaluation plan/legality plan/lowering "
                  "plan/problem plan/strategy",
    "plan/exporters": "base graph plan/description plan/layout plan/legality plan/problem "
                      "plan/simulation plan/strategy plan/tasks",
    "search/support": "",
    "search/coarsening": "base graph plan/problem plan/strategy search/support",
    "search/core": "base plan/evaluation plan/problem plan/strategy search/coarsening "
                   "search/support",
    "search/part_costs": "base graph plan/problem search/coarsening",
    "search/configs": "base graph plan/incremental plan/legality plan/problem "
                      "plan/strategy search/coarsening search/support",
    "search/list_scheduling": "base graph search/coarsening search/core search/support",
    "search/hybrid_parallel/intra_op": "plan/legality plan/problem plan/strategy search/configs",
    "search/hybrid_parallel": "base graph plan/evaluation plan/legality plan/problem plan/strategy "
                              "search/coarsening search/configs search/core "
                              "search/hybrid_parallel/intra_op search/list_scheduling "
                              "search/part_costs",
    "search/variable_elimination": "graph plan/evaluation plan/legality plan/problem plan/strategy "
                                   "plan/tensors search/coarsening search/configs search/core "
                                   "search/list_scheduling",
    "search/mcmc/moves": "base plan/legality plan/problem plan/strategy search/configs search/support",
    "search/mcmc": "base plan/evaluation plan/incremental plan/strategy search/coarsening "
                   "search/configs search/core search/mcmc/moves search/support",
    "search/max_load/model": "base graph plan/evaluation search/coarsening",
    "search/max_load/branch_and_bound": "base plan/problem search/coarsening "
                                        "search/max_load/model",
    "search/max_load/contiguous": "base plan/evaluation search/core search/list_scheduling "
                                  "search/max_load/model",
    "search/max_load/local": "plan/evaluation plan/strategy search/core "
                             "search/max_load/branch_and_bound search/max_load/model "
                             "search/support",
    "search/max_load/exact": "base search/coarsening search/core search/max_load/branch_and_bound "
                             "search/max_load/model search/support",
    "search/call_latency": "base plan/evaluation plan/problem search/coarsening search/core "
                           "search/support",
    "search/bounds": "base graph plan/evaluation plan/problem search/call_latency "
                     "search/max_load/branch_and_bound search/part_costs",
    "search/alternatives": "plan/evaluation plan/incremental plan/problem plan/simulation "
                           "plan/strategy search/coarsening search/configs search/core "
                           "search/mcmc/moves",
    "search/profiling": "plan/legality plan/problem plan/strategy search/configs",
    "search/portfolio": "base plan/evaluation plan/files plan/legality plan/problem plan/strategy "
                        "search/bounds search/call_latency search/coarsening search/core "
                        "search/hybrid_parallel search/list_scheduling search/max_load/contiguous "
                        "search/max_load/exact search/max_load/local search/mcmc search/support "
                        "search/variable_elimination",
    "rl/*": "base graph plan search",
    "runtime/communicate": "base cost graph",
    "runtime/interface": "base cost graph plan runtime/communicate",
    "runtime/kernels": "base graph",
    "runtime/execute": "base cost graph plan runtime/communicate runtime/interface "
                       "runtime/kernels",
    "runtime": "cost/discovery runtime/execute runtime/interface runtime/kernels",
    "include/*": "base graph",
    "api/*": "base cost graph importers include plan rl runtime search",
    "cli/*": "api base cost graph importers include plan runtime search",
}
PLAIN_HEADERS = ("base", "graph", "cost", "plan", "search")
ALLOWED_LIBRARY = ("boost/graph/", "boost/property_map/", "boost/container/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
INSTALLED = ("graph/dtype.h", "base/error.h", "base/units.h")  # cmake/PartitaInstall.cmake
STANDARD = re.compile(r"^[a-z_0-9]+$")  # <vector>, <cstdint>; no <sqlite3.h>, no <fmt/core.h>
WIDE = ("rl", "runtime", "include", "api", "cli")  # their rows name whole trees of others
TOP = {row.split("/")[0] for row in ARROWS}


def below(folder, other):
    return folder == other or folder.startswith(other + "/")


def row_of(folder):
    """The row that says what `folder` may know; None: it has none."""
    for row in ARROWS:
        if folder == row or (row.endswith("/*") and below(folder, row[:-2])):
            return row
    return None


def allows(row, folder):
    """The arrow by which `row` may include from `folder`, "" within itself; None: it may not."""
    if row_of(folder) == row:
        return ""
    # From another tree, one name stands for all of it.
    for target in ARROWS[row].split():
        whole = "/" not in target and row.split("/")[0] in WIDE
        if folder == target or (whole and below(folder, target)):
            return target
    return None


def fault_of_include(folder, row, is_header, quoted, angled):
    path = quoted or angled
    target = path.split("/")[0]
    if angled and target == "partita":
        path, target = "include/" + path, "include"
    if quoted and ("/" not in path or target not in TOP):
        return f'"{path}": write it from the repository root, e.g. "{folder}/...".', None
    if row.startswith("include") and not STANDARD.match(path) and target != "include" \
            and path not in INSTALLED:
        return f"'{path}': public headers show the standard library, <partita/...> and " \
               f"{', '.join(INSTALLED)}. Include it in api/.", None
    if target in TOP and "/" in path:
        arrow = allows(row, str(pathlib.PurePosixPath(path).parent))
        if arrow is None:
            return f"'{path}': {folder} may only include {ARROWS[row] or 'itself'}. " \
                   "Move the code, not the arrow.", None
        return None, arrow
    if is_header and folder.split("/")[0] in PLAIN_HEADERS and not STANDARD.match(path) \
            and not path.startswith(ALLOWED_LIBRARY):
        return f"<{path}>: headers of {folder} show no third-party type but Boost's. " \
               "Include it in the .cpp.", None
    return None, None


def sources(repository):
    for top in sorted(TOP):
        for file in sorted((repository / top).rglob("*")):
            if file.suffix in (".h", ".cpp", ".cu", ".cuh"):
                yield file


def faults(repository, used=None):
    """All faults of a repository, as FILE:LINE: what. Adds the arrows in use to `used`."""
    found = []
    for file in sources(repository):
        place = file.relative_to(repository)
        folder = str(place.parent)
        row = row_of(folder)
        if row is None:
            found.append(f"{place}:1: the folder {folder} has no row in ARROWS. Give it one.")
            continue
        is_header = file.suffix in (".h", ".cuh")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            fault, match = None, INCLUDE.match(line)
            if is_header and USING_NAMESPACE.match(line):
                fault = "`using namespace` in a header. Name what you use."
            elif match:
                fault, arrow = fault_of_include(folder, row, is_header, *match.groups())
                if arrow and used is not None:
                    used.add((row, arrow))
            if fault:
                found.append(f"{place}:{number}: {fault}")
    return found


def faults_of_table(used):
    """Arrows that point down the table, to no row, or that nobody uses."""
    found = []
    rows = list(ARROWS)
    for index, row in enumerate(rows):
        above = rows[:index]
        for target in ARROWS[row].split():
            if not any(below(other.removesuffix("/*"), target) for other in above):
                found.append(f"check_includes.py: {row} points to {target}, which is not above it.")
            elif (row, target) not in used:
                found.append(f"check_includes.py: nobody uses the arrow {row} -> {target}. "
                             "Take it out.")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    arrows = set()
    result = faults(pathlib.Path(sys.argv[1]), arrows)
    result += faults_of_table(arrows)
    print("\n".join(result))
    sys.exit(1 if result else 0)
