// SPDX-License-Identifier: Apache-2.0
#include "api/imported_times.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/loaded_model.h"
#include "api/request.h"
#include "cost/machine/machine_file.h"
#include "cost/traces/work_text.h"
#include "search/profiling/covering_strategies.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

#include <partita/partita.h>

namespace partita::api {
namespace {

ImportOptions options_of(const std::string& model) {
    if (model == "encoder-layer" || model == "lstm")
        return {.bindings = {{"sequence", 6}}, .batch = 4};
    return {.batch = 4};
}

class WantedWorksOf : public testing::TestWithParam<const char*> {};

// Whatever a work is called, its operands can be read back from it.
TEST_P(WantedWorksOf, SayWhatTheyAreDoneOn) {
    const LoadedModel loaded =
        load_model(tests::repository() / "examples" / "runnable" / GetParam() / "model.onnx",
                   options_of(GetParam()));
    const cost::Machine machine = cost::load_machine("cpu:2");
    for (const plan::Mode mode : {plan::Mode::inference, plan::Mode::training}) {
        const plan::Problem problem = make_problem(loaded, machine, {.mode = mode});
        const WantedWorks wanted = wanted_works(problem, search::covering_strategies(problem));
        EXPECT_EQ(wanted.device, cost::device_key(machine.device(0)));
        ASSERT_GT(wanted.works.size(), 5U);
        std::int64_t parsed = 0;
        for (const WantedWork& each : wanted.works) {
            const std::string& name = each.work.signature.text;
            const auto text = cost::parse_work_text(name);
            if (!text) {
                EXPECT_TRUE(name.starts_with("loss ") || name.starts_with("norm")) << name;
                continue;
            }
            ++parsed;
            EXPECT_EQ(text->phase, each.work.phase) << name;
            if (text->type.empty()) {
                EXPECT_GT(text->elements, 0) << name;
                continue;
            }
            EXPECT_EQ(text->type, each.work.type) << name;
            EXPECT_FALSE(text->operands.empty() || text->results.empty()) << name;
            EXPECT_GT(each.predicted, Time{}) << name;
        }
        EXPECT_GT(4 * parsed, 3 * std::ssize(wanted.works));
    }
}

INSTANTIATE_TEST_SUITE_P(Runnable, WantedWorksOf,
                         testing::Values("mlp", "convnet", "encoder-layer", "lstm", "dlrm-tiny"),
                         [](const auto& of) {
                             std::string name = of.param;
                             std::erase(name, '-');
                             return name;
                         });

// As a user of the library has it.
TEST(ImportTimes, GivesFindPlanItsPrices) {
    const TemporaryFolder folder;
    const std::filesystem::path examples = tests::repository() / "examples";
    const Model model =
        Model::load((examples / "runnable/mlp/model.onnx").string(), {.batch = 1024});
    const Machine machine = Machine::load("cpu:1");
    PlanOptions options{.mode = Mode::training, .evaluations = 3};
    const Time before = find_plan(model, machine, options).plan().value();
    const std::filesystem::path database = folder.path() / "profile.sqlite";
    const ImportReport report =
        import_times(model, machine, options, examples / "traces/mlp.json", database);
    EXPECT_EQ(report.works, report.found + std::ssize(report.missing));
    options.profile = database;
    const Time after = find_plan(model, machine, options).plan().value();
    EXPECT_EQ(before - after, report.predicted_found - report.measured_found);
    options.mode = Mode::inference;
    options.profile.clear();
    const Model other =
        Model::load((examples / "runnable/convnet/model.onnx").string(), {.batch = 4});
    EXPECT_THROW(import_times(other, machine, options, examples / "traces/mlp.json", database),
                 MismatchError);
}

TEST(WriteCosts, PriceWhatTheyKnow) {
    const TemporaryFolder folder;
    const std::filesystem::path database = folder.path() / "costs.sqlite";
    const Model model =
        Model::load(tests::repository() / "examples/runnable/mlp/model.onnx", {.batch = 64});
    const Machine machine = Machine::load("cpu:1");
    PlanOptions options{.mode = Mode::training, .evaluations = 3};
    const Time before = find_plan(model, machine, options).plan().value();
    const ImportReport report = write_costs(
        model, machine, options,
        [&](const Work& work) -> std::optional<Time> {
            EXPECT_GT(work.predicted, Time{}) << work.text;
            if (!work.text.starts_with("forward")) return std::nullopt;
            return Time(work.predicted.raw() / 2 + 1);
        },
        database);
    EXPECT_GT(report.found, 0);
    EXPECT_LT(report.found, report.works);
    EXPECT_LT(report.measured_found, report.predicted_found);
    options.profile = database;
    const Time now = find_plan(model, machine, options).plan().value();
    EXPECT_EQ(before - now, report.predicted_found - report.measured_found);
}

}  // namespace
}  // namespace partita::api
