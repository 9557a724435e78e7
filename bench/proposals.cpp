// SPDX-License-Identifier: Apache-2.0
//
// What one draw of a move costs, in time and in allocations, from data parallelism and from a mixed
// state that a random walk has reached. A draw that proposes nothing counts too.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/allocation_count.h"
#include "bench/repository.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "search/coarsening/op_groups.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/mcmc/moves/move.h"

namespace partita::bench {
namespace {

struct Model {
    std::string name;
    importers::OnnxOptions options;
};

plan::ProblemOptions training() {
    return {.mode = plan::Mode::training, .objective = plan::Objective::step_time};
}

class Case {
public:
    Case(const Model& model, const std::string& machine)
        : model_(importers::import_onnx(
              repository() / "examples/models" / (model.name + std::string(".onnx")),
              model.options)),
          machine_(cost::load_machine(machine)),
          problem_(model_.graph, machine_, cost::default_cost_model(), training()),
          groups_(problem_, search::make_groups(problem_, search::Grouping::all)),
          space_(groups_),
          state_(space_.table(), search::data_parallel_strategy(
                                     problem_, search::data_parallel_devices(problem_)[0])),
          builder_(space_) {}

    /// Null: the move proposes nothing this time. Valid until the next draw.
    const search::Changes* draw(const search::Move& move, search::Random& random) {
        return propose(move, state_, random, builder_, proposal_) ? &proposal_.changes : nullptr;
    }

    /// Ops and groups one by one, so that few lie alike.
    void walk(int steps) {
        search::Random random(3);
        for (int i = 0; i < steps; ++i) {
            const char* name = random.below(2) == 0 ? "change-degrees" : "change-devices";
            const search::Changes* changes = draw(*search::find_move(name), random);
            if (changes != nullptr) state_.apply(*changes);
        }
    }

private:
    importers::OnnxModel model_;
    cost::Machine machine_;
    plan::Problem problem_;
    search::GroupGraph groups_;
    search::SearchSpace space_;
    search::State state_;
    search::ProposalBuilder builder_;
    search::Proposal proposal_;
};

const std::vector<Model>& models() {
    static const std::vector<Model> kModels = {
        {"resnet50", {.batch = 512}},
        {"gpt2-small", {.bindings = {{"sequence", 256}}, .batch = 64}},
        {"gnmt", {.bindings = {{"sequence", 32}, {"target_sequence", 32}}, .batch = 64}},
    };
    return kModels;
}

/// One at a time: those of large machines take some memory.
Case& case_of(std::size_t model, std::int64_t nodes, bool mixed) {
    static std::unique_ptr<Case> latest;
    static std::tuple<std::size_t, std::int64_t, bool> key;
    if (latest && key == std::tuple(model, nodes, mixed)) return *latest;
    latest.reset();
    latest = std::make_unique<Case>(models()[model], fmt::format("dgx-a100:{}", nodes));
    if (mixed) latest->walk(500);
    key = {model, nodes, mixed};
    return *latest;
}

/// Arguments: model, nodes of 8 devices, mixed, move.
void propose(benchmark::State& state) {
    const auto model = static_cast<std::size_t>(state.range(0));
    const bool mixed = state.range(2) != 0;
    Case& of = case_of(model, state.range(1), mixed);
    const search::Move& move = search::move_table()[static_cast<std::size_t>(state.range(3))];
    state.SetLabel(fmt::format("{} on {}, {}, {}", models()[model].name, 8 * state.range(1),
                               mixed ? "mixed" : "data-parallel", move.name));
    search::Random random(1);
    std::int64_t proposals = 0;
    std::int64_t changes = 0;
    const auto draw = [&] {
        const search::Changes* drawn = of.draw(move, random);
        if (drawn == nullptr) return;
        ++proposals;
        changes += std::ssize(drawn->ops);
    };
    for (int i = 0; i < 20'000; ++i) draw();  // tables fill themselves
    proposals = 0;
    changes = 0;
    const std::int64_t before = allocation_count();
    for ([[maybe_unused]] auto _ : state) draw();
    const auto per_draw = benchmark::Counter::kAvgIterations;
    state.counters["allocations"] =
        benchmark::Counter(static_cast<double>(allocation_count() - before), per_draw);
    state.counters["proposed"] = benchmark::Counter(static_cast<double>(proposals), per_draw);
    state.counters["changed"] = benchmark::Counter(static_cast<double>(changes), per_draw);
}
BENCHMARK(propose)->ArgsProduct(
    {{0, 1, 2}, {1, 2, 8}, {0, 1}, benchmark::CreateDenseRange(0, 6, 1)});

}  // namespace
}  // namespace partita::bench
