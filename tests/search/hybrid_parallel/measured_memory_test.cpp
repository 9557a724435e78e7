// SPDX-License-Identifier: Apache-2.0
//
// Memory beside what other people measured (data/profiles/README.md). Nothing was fitted to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cost/machine/machine_file.h"
#include "graph/fusion/fuse.h"
#include "importers/onnx/onnx_importer.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/small_problems.h"
#include "tests/support/csv_rows.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using tests::CsvRow;

/// How the runs were made: ZeRO-1, sequence parallelism with tensor parallelism, context parallelism by
/// all-to-all, equal stages.
std::string strategy_of(const CsvRow& row) {
    std::string text = fmt::format("tp={},pp={},dp={},cp={},ep={},zero=1", row.at("tp"),
                                   row.at("pp"), row.at("dp"), row.at("cp"), row.at("ep"));
    if (row.at("tp") != "1") text += ",sp";
    if (row.at("cp") != "1") text += ",cp-by=heads";
    if (row.at("pp") != "1") text += ",layers=even";
    return text;
}

struct ModelRow {
    const char* name;
    const char* file;
    /// What Megatron-LM runs as one kernel.
    std::vector<std::string> fuse;
};

const std::vector<std::string> kGated = {"weighted-swiglu", "swiglu"};
const ModelRow kModels[] = {{"llama3-70b", "llama-3-70b-12-layers.onnx", {"swiglu"}},
                            {"deepseekv2", "deepseek-v2-4-layers.onnx", kGated},
                            {"deepseekv3", "deepseek-v3-4-layers.onnx", kGated}};

/// Of the fullest GPU, in GiB.
double predicted_memory(const CsvRow& row) {
    const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
    const auto* const of = std::ranges::find(kModels, row.at("model"), &ModelRow::name);
    auto model = importers::import_onnx(
        tests::repository() / "examples/models" / of->file,
        {.bindings = {{"batch", number("dp") * number("micro_batch") * number("micro_batches")},
                      {"sequence", number("seq_len")}},
         .precision = graph::DType::bfloat16,
         .float32_gradients = true});
    const graph::OpGraph graph = graph::fused(model.graph, of->fuse, of->file, {}).graph;
    const cost::Machine machine = cost::load_machine("dgx-b200");
    plan::ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    options.input_sample_dims = model.input_sample_dims;
    options.policy = {.micro_batches = number("micro_batches"),
                      .schedule = {.kind = plan::ScheduleKind::one_f_one_b},
                      .optimizer = plan::Optimizer::adam,
                      .loss = plan::LossKind::cross_entropy};
    const plan::Problem problem = plan::make_problem(graph, machine, options);
    EngineOptions engine{.searchers = {"grids"}};
    engine.parallel = parse_parallel_config(strategy_of(row));
    const SearchResult result = search(problem, std::move(engine));
    EXPECT_TRUE(result.has_plan()) << result.shortage;
    Bytes most;
    for (const plan::DeviceUse& use : result.evaluation.devices) most = std::max(most, use.memory);
    return static_cast<double>(most.raw()) / (1 << 30);
}

// Under Megatron-LM on 8 B200; without the rows of 32 micro-batches, which were measured to be equal.
TEST(MeasuredMemory, IsPredictedWithinThreePercent) {
    std::map<std::string, std::vector<double>> errors;  // by model
    for (const CsvRow& row : tests::profile_rows("simumax/runs_b200.csv")) {
        if (row.at("micro_batches") != "4") continue;
        const double measured = std::stod(row.at("measured_peak_allocated_gib"));
        const double predicted = predicted_memory(row);
        const double error = predicted / measured - 1;
        std::cout << fmt::format(
            "{:10} {:44} predicted {:.2f} GiB, measured {:.2f} GiB, {:+.1f} %\n", row.at("model"),
            strategy_of(row), predicted, measured, 100 * error);
        EXPECT_LT(std::abs(error), 0.03);
        errors[row.at("model")].push_back(std::abs(error));
        errors["all"].push_back(std::abs(error));
    }
    const auto mean = [&](const char* model) {
        const std::vector<double>& of = errors.at(model);
        return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
    };
    EXPECT_EQ(errors.at("all").size(), 10u);
    EXPECT_LT(mean("llama3-70b"), 0.005);
    EXPECT_LT(mean("all"), 0.01);
}

}  // namespace
}  // namespace partita::search
