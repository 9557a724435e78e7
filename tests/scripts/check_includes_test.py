#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py catches every kind of fault, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_includes  # noqa: E402


def faults(used=None, **files):
    """The faults of a repository of one-file folders, e.g. plan__tasks='#include ...'; `_cpp` ends a source."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for folder, text in files.items():
            kind = "cpp" if folder.endswith("_cpp") else "h"
            folder = folder.removesuffix("_cpp").replace("__", "/")
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / f"file.{kind}").write_text(text + "\n", encoding="utf-8")
        return check_includes.faults(root, used)


class CheckIncludes(unittest.TestCase):
    def test_a_folder_may_include_what_its_row_names(self):
        self.assertEqual(faults(
            graph='#include "base/units.h"', importers__onnx='#include "graph/op_graph.h"',
            cost__machine='#include "base/units.h"\n#include "cost/machine/routes.h"',
            plan__tasks='#include "cost/machine/machine.h"\n#include "graph/ids.h"',
            search__core='#include "search/support/random.h"',
            rl='#include "search/core/searcher.h"',
            runtime__execute='#include "plan/tasks/task_graph.h"',
            api='#include "runtime/interface/runtime.h"',
            include__partita='#include "base/units.h"\n#include <partita/error.h>\n#include <span>',
            cli__report='#include <partita/plan.h>\n#include "cli/table.h"'), [])

    def test_an_arrow_may_not_be_crossed(self):
        for folder, target in (
                ("graph", "cost/machine"), ("base", "graph"), ("cost/machine", "plan/tasks"),
                ("cost/machine", "importers/onnx"), ("importers/onnx", "cost/machine"),
                ("plan/tasks", "search/core"), ("plan/tasks", "plan/lowering"),
                ("plan/simulation", "plan/evaluation"), ("plan/strategy", "plan/problem"),
                ("search/core", "search/portfolio"), ("search/mcmc/moves", "search/mcmc"),
                ("search/bounds", "importers/onnx"), ("search/mcmc", "rl"),
                ("search/mcmc", "runtime/execute"), ("rl", "runtime/execute"),
                ("runtime/execute", "search/core"), ("runtime/kernels", "runtime/execute"),
                ("api", "cli"), ("include/partita", "cli"), ("graph", "api")):
            for kind in ("h", "cpp"):
                name = folder.replace("/", "__") + ("_cpp" if kind == "cpp" else "")
                found = faults(**{name: f'int x;\n#  include "{target}/file.h"'})
                self.assertEqual(len(found), 1, (folder, target))
                self.assertTrue(found[0].startswith(f"{folder}/file.{kind}:2: "), found)

    def test_one_name_is_not_all_that_lies_below_it(self):
        self.assertEqual(len(faults(cost='#include "graph/operators/part.h"')), 0)
        self.assertEqual(len(faults(cost__machine='#include "graph/operators/part.h"')), 1)

    def test_a_folder_without_a_row_is_a_fault(self):
        self.assertIn("has no row", faults(plan__attic="int x;")[0])
        self.assertIn("has no row", faults(plan="int x;")[0])

    def test_the_table_has_no_arrow_down_and_none_that_nobody_uses(self):
        used = {(row, target) for row, targets in check_includes.ARROWS.items()
                for target in targets.split()}
        self.assertEqual(check_includes.faults_of_table(used), [])
        for arrow in sorted(used):
            found = check_includes.faults_of_table(used - {arrow})
            self.assertEqual(len(found), 1)
            self.assertIn(f"{arrow[0]} -> {arrow[1]}", found[0])
        before = check_includes.ARROWS["base"]
        check_includes.ARROWS["base"] = "graph"
        try:
            self.assertIn("not above it", check_includes.faults_of_table(used)[0])
        finally:
            check_includes.ARROWS["base"] = before

    def test_used_arrows_are_found(self):
        used = set()
        faults(used, plan__strategy='#include "graph/ids.h"')
        self.assertEqual(used, {("plan/strategy", "graph")})

    def test_a_public_header_is_not_for_those_below(self):
        self.assertEqual(len(faults(plan__tasks_cpp="#include <partita/plan.h>")), 1)

    def test_public_headers_show_only_what_is_installed(self):
        for line in ('#include "search/core/engine.h"', '#include "graph/op_graph.h"',
                     "#include <nlohmann/json.hpp>", "#include <boost/graph/adjacency_list.hpp>"):
            self.assertEqual(len(faults(include__partita=line)), 1, line)

    def test_headers_show_no_third_party_type_but_boost_graphs(self):
        for header in ("fmt/core.h", "nlohmann/json.hpp", "sqlite3.h", "onnx/onnx_pb.h",
                       "boost/asio.hpp", "torch/torch.h"):
            self.assertEqual(len(faults(cost=f"#include <{header}>")), 1, header)
            self.assertEqual(faults(cost_cpp=f"#include <{header}>"), [], header)
            self.assertEqual(faults(importers__onnx=f"#include <{header}>"), [], header)
        allowed = "#include <boost/graph/adjacency_list.hpp>\n#include <span>"
        self.assertEqual(faults(graph=allowed), [])

    def test_includes_are_written_from_the_repository_root(self):
        self.assertEqual(len(faults(graph_cpp='#include "units.h"')), 1)
        self.assertEqual(len(faults(graph_cpp='#include "../graph/units.h"')), 1)

    def test_no_header_says_using_namespace(self):
        self.assertEqual(len(faults(cli="using namespace std;")), 1)
        self.assertEqual(faults(cli_cpp="using namespace std::chrono_literals;"), [])


if __name__ == "__main__":
    unittest.main()
