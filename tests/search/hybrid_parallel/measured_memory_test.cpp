// SPDX-License-Identifier: Apache-2.0
//
// Memory beside what other people measured (data/profiles/README.md). Nothing was fitted to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cost/machine/machine_file.h"
#include "graph/fusion/fuse.h"
#include "importers/onnx/onnx_importer.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
}

std::vector<Row> rows_of(const std::string& file) {
    std::ifstream stream(tests::repository() / "data/profiles" / file);
    std::string line;
    std::getline(stream, line);
    const std::vector<std::string> names = cells_of(line);
    std::vector<Row> rows;
    while (std::getline(stream, line)) {
        const std::vector<std::string> cells = cells_of(line);
        Row& row = rows.emplace_back();
        for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
    }
    return rows;
}

/// How the runs were made: ZeRO-1, sequence parallelism with tensor parallelism, equal stages.
std::string strategy_of(const Row& row) {
    std::string text = fmt::format("tp={},pp={},dp={},cp={},zero=1", row.at("tp"), row.at("pp"),
                                   row.at("dp"), row.at("cp"));
    if (row.at("tp") != "1") text += ",sp";
    if (row.at("pp") != "1") text += ",layers=even";
    return text;
}

/// Of the fullest GPU, in GiB.
double predicted_memory(const Row& row) {
    const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
    auto model = importers::import_onnx(
        tests::repository() / "examples/models/llama-3-70b-12-layers.onnx",
        {.bindings = {{"batch", number("dp") * number("micro_batch") * number("micro_batches")},
                      {"sequence", number("seq_len")}},
         .precision = graph::DType::bfloat16,
         .float32_gradients = true});
    const graph::OpGraph graph = graph::fused(model.graph, {"swiglu"}, "model.onnx").graph;
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

// Llama 3 70B of 12 layers under Megatron-LM on 8 B200; without the rows of 32 micro-batches, which
// were measured to be equal.
TEST(MeasuredMemory, IsPredictedWithinThreePercent) {
    double sum = 0;
    int count = 0;
    for (const Row& row : rows_of("simumax/runs_b200.csv")) {
        if (row.at("model") != "llama3-70b" || row.at("micro_batches") != "4") continue;
        const double measured = std::stod(row.at("measured_peak_allocated_gib"));
        const double predicted = predicted_memory(row);
        const double error = predicted / measured - 1;
        std::cout << fmt::format(
            "{:28} x {:>2}  predicted {:.2f} GiB, measured {:.2f} GiB, {:+.1f} %\n",
            strategy_of(row), row.at("micro_batches"), predicted, measured, 100 * error);
        EXPECT_LT(std::abs(error), 0.03);
        sum += std::abs(error);
        ++count;
    }
    EXPECT_EQ(count, 6);
    EXPECT_LT(sum / count, 0.01);
}

}  // namespace
}  // namespace partita::search
