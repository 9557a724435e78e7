#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py catches every kind of fault, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_includes  # noqa: E402


def faults(**files):
    """The faults of a repository of one-file folders, e.g. plan='#include ...'."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for folder, text in files.items():
            folder, _, kind = folder.partition("_")
            (root / folder).mkdir(exist_ok=True)
            (root / folder / f"file.{kind or 'h'}").write_text(text + "\n", encoding="utf-8")
        return check_includes.faults(root)


class CheckIncludes(unittest.TestCase):
    def test_arrows_may_be_followed_downward_to_the_end(self):
        self.assertEqual(faults(
            graph='#include "base/units.h"', importers='#include "graph/op_graph.h"',
            cost='#include "base/units.h"',
            plan='#include "cost/machine/machine.h"\n#include "graph/ids.h"',
            search='#include "base/units.h"', rl='#include "search/core/searcher.h"',
            runtime='#include "plan/plan.h"', api='#include "runtime/executor.h"',
            include='#include "base/units.h"\n#include <partita/error.h>\n#include <span>', cli='#include <partita/plan.h>'), [])

    def test_an_arrow_may_not_be_crossed(self):
        for folder, target in (("graph", "cost"), ("cost", "plan"), ("cost", "importers"),
                               ("importers", "cost"), ("plan", "search"), ("plan", "importers"),
                               ("search", "importers"), ("search", "rl"), ("search", "runtime"),
                               ("rl", "runtime"), ("runtime", "search"), ("api", "cli"),
                               ("include", "cli"), ("graph", "api")):
            for kind in ("h", "cpp"):
                found = faults(**{f"{folder}_{kind}": f'int x;\n#  include "{target}/file.h"'})
                self.assertEqual(len(found), 1, (folder, target))
                self.assertTrue(found[0].startswith(f"{folder}/file.{kind}:2: "), found)

    def test_a_part_of_a_folder_is_not_known_to_its_rest(self):
        line = '#include "plan/incremental/timeline.h"'
        self.assertEqual(len(faults(plan=line)), 1)
        self.assertEqual(len(faults(plan_cpp=line)), 1)
        self.assertEqual(faults(search=line), [])
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "plan/incremental").mkdir(parents=True)
            (root / "plan/incremental/file.h").write_text(line, encoding="utf-8")
            self.assertEqual(check_includes.faults(root), [])

    def test_a_public_header_is_not_for_those_below(self):
        self.assertEqual(len(faults(plan_cpp="#include <partita/plan.h>")), 1)

    def test_public_headers_show_only_what_is_installed(self):
        for line in ('#include "search/core/engine.h"', '#include "graph/op_graph.h"',
                     "#include <nlohmann/json.hpp>", "#include <boost/graph/adjacency_list.hpp>"):
            self.assertEqual(len(faults(include=line)), 1, line)

    def test_headers_show_no_third_party_type_but_boost_graphs(self):
        for header in ("fmt/core.h", "nlohmann/json.hpp", "sqlite3.h", "onnx/onnx_pb.h",
                       "boost/asio.hpp", "torch/torch.h"):
            self.assertEqual(len(faults(cost=f"#include <{header}>")), 1, header)
            self.assertEqual(faults(cost_cpp=f"#include <{header}>"), [], header)
            self.assertEqual(faults(importers=f"#include <{header}>"), [], header)
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
