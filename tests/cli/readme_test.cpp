// SPDX-License-Identifier: Apache-2.0
//
// What the README says that could grow old: the table of searchers, and the use as a library. (Its
// commands are run as pasted by tests/scripts/readme_commands.)
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace partita::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Readme, ListsEverySearcherWithItsSummary) {
    std::ifstream stream(tests::repository() / "README.md");
    const std::string readme(std::istreambuf_iterator<char>(stream), {});
    for (const search::SearcherRow& row : search::searcher_table()) {
        EXPECT_THAT(readme, HasSubstr(fmt::format("| `{}` | {} |", row.name, row.summary)));
    }
}

TEST_F(ProgramTest, ReadmeLibraryExamplePlans) {
    const auto model = importers::import_onnx(example("models/resnet50.onnx"), {.batch = 8});
    const auto machine = cost::load_machine("dgx-a100");
    const plan::Problem problem(model.graph, machine, cost::default_cost_model(), {});
    const auto result = search::search(problem, {.searchers = {"heft"}});
    write_file(folder() / "plan.json", to_json(search::make_plan(problem, result)));
    EXPECT_THAT(plan::verify(problem, plan::read_plan(folder() / "plan.json")), IsEmpty());
}

}  // namespace
}  // namespace partita::tests
