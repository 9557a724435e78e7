#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an include crosses an arrow that the design does not have.

    graph  <-  importers
    graph  <-  cost  <-  plan  <-  search  <-  rl
                         plan  <-  runtime
    api, include/partita -> all but cli        cli -> all        tests, bench: free

plan/incremental knows the rest of plan, which does not know it.

Also fails when a header of graph, cost, plan or search shows a third-party type other than
Boost.Graph's and Boost.Container's, a public header shows anything but the standard library and what
is installed with it, a header says `using namespace`, or a quoted include is not
written from the repository root.

Usage: check_includes.py REPOSITORY
"""
import pathlib
import re
import sys

ARROWS = {
    "base": [],
    "graph": ["base"],
    "importers": ["graph"],
    "cost": ["graph"],
    "plan": ["cost"],
    "search": ["plan"],
    "rl": ["search"],
    "runtime": ["plan"],
    "api": ["base", "graph", "importers", "cost", "plan", "search", "rl", "runtime", "include"],
    "include": ["base", "graph", "importers", "cost", "plan", "search", "rl", "runtime"],
    "cli": ["base", "graph", "importers", "cost", "plan", "search", "rl", "runtime", "api", "include"],
}
PARTS = ("plan/incremental/",)
PLAIN_HEADERS = ("base", "graph", "cost", "plan", "search")
ALLOWED_LIBRARY = ("boost/graph/", "boost/property_map/", "boost/container/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
INSTALLED = ("graph/dtype.h", "base/error.h", "base/units.h")  # cmake/PartitaInstall.cmake
STANDARD = re.compile(r"^[a-z_0-9]+$")  # <vector>, <cstdint>; no <sqlite3.h>, no <fmt/core.h>


def known(folder):
    """The folders that `folder` may include: itself and, transitively, whom it points to."""
    reached = {folder}
    for target in ARROWS[folder]:
        reached |= known(target)
    return reached


def faults_of_line(folder, is_header, line):
    """What is wrong with one line of a file in `folder`, or nothing."""
    if is_header and USING_NAMESPACE.match(line):
        return "`using namespace` in a header. Name what you use."
    match = INCLUDE.match(line)
    if not match:
        return None
    quoted, angled = match.groups()
    path = quoted or angled
    target = path.split("/")[0]
    if angled and target == "partita":
        target = "include"
    if quoted and ("/" not in path or target not in ARROWS):
        return f'"{path}": write it from the repository root, e.g. "{folder}/...".'
    if folder == "include" and not STANDARD.match(path) and target != "include" \
            and path not in INSTALLED:
        return f"'{path}': public headers show the standard library, <partita/...> and " \
               f"{', '.join(INSTALLED)}. Include it in api/."
    if target in ARROWS and "/" in path:
        if target in known(folder):
            return None
        allowed = ", ".join(sorted(known(folder)))
        return f"'{path}': {folder} may only include {allowed}. Move the code, not the arrow."
    if is_header and folder in PLAIN_HEADERS and not STANDARD.match(path) \
            and not path.startswith(ALLOWED_LIBRARY):
        return f"<{path}>: headers of {folder} show no third-party type but Boost's. " \
               "Include it in the .cpp."
    return None


def fault_of_part(inside, line):
    """The same for a part of a folder that its rest does not know."""
    match = INCLUDE.match(line)
    for part in PARTS:
        if not match or not (match.group(1) or "").startswith(part):
            continue
        if inside.split("/")[0] == part.split("/")[0] and not inside.startswith(part):
            return f"'{match.group(1)}': {inside} may not include {part}. Move the code, not the arrow."
    return None


def faults(repository):
    """All faults of a repository, as FILE:LINE: what."""
    found = []
    for folder in ARROWS:
        for file in sorted((repository / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            inside = f"{file.parent.relative_to(repository)}/"
            is_header = file.suffix in (".h", ".cuh")
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                fault = faults_of_line(folder, is_header, line) or fault_of_part(inside, line)
                if fault:
                    found.append(f"{file.relative_to(repository)}:{number}: {fault}")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    result = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(result))
    sys.exit(1 if result else 0)
