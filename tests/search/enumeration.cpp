// SPDX-License-Identifier: Apache-2.0
#include "tests/search/enumeration.h"

#include <vector>

#include "search/mcmc/moves/proposal_builder.h"
#include "tests/plan/network_builder.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using graph::TensorRole;
using plan::NetworkBuilder;

namespace {

class Enumeration {
public:
    explicit Enumeration(SearchSpace& space)
        : space_(space),
          evaluator_(plan::make_evaluator(space.problem(), plan::Scheduler::pct)),
          base_(plan::whole_ops(std::vector<int>(space.problem().graph().op_count(), 0),
                                space.problem().policy())),
          state_(space.table(), base_),
          builder_(space),
          chosen_(base_.ops.size()) {}

    Enumerated run() {
        choose(0);
        return result_;
    }

private:
    void choose(std::size_t index) {
        const std::vector<OpId>& ops = space_.computing();
        if (index == ops.size()) return evaluate();
        ConfigTable& table = space_.table();
        for (const int size : table.sizes(ops[index])) {
            for (const plan::DeviceSet& devices : table.device_sets(ops[index], size)) {
                for (const auto& degrees : table.degrees(ops[index], size)) {
                    chosen_[ops[index].index()] =
                        table.id(ops[index], plan::OpConfig{.axes = degrees, .devices = devices});
                    choose(index + 1);
                }
            }
        }
    }

    void evaluate() {
        builder_.start(state_);
        for (const OpId op : space_.computing()) builder_.set(op, chosen_[op.index()]);
        plan::Strategy strategy = base_;
        if (builder_.finish(changes_)) apply(changes_, space_.table(), strategy);
        const plan::Evaluation evaluation = evaluator_->evaluate(strategy);
        if (++result_.strategies == 1 || evaluation.better_than(result_.best)) {
            result_.best = evaluation;
        }
    }

    SearchSpace& space_;
    std::unique_ptr<plan::Evaluator> evaluator_;
    plan::Strategy base_;  ///< everything on the first device
    State state_;
    ProposalBuilder builder_;
    Changes changes_;
    std::vector<ConfigId> chosen_;
    Enumerated result_;
};

}  // namespace

Enumerated enumerate(SearchSpace& space) {
    return Enumeration(space).run();
}

graph::OpGraph lenet() {
    NetworkBuilder build;
    using Ints = std::vector<std::int64_t>;
    const auto pool = [] {
        graph::Attributes attributes;
        attributes.set("kernel_shape", Ints{2, 2});
        attributes.set("strides", Ints{2, 2});
        return attributes;
    };
    TensorId x = build.source("x", TensorRole::input, {8, 1, 28, 28});
    x = build.add("Conv", {x, build.weight({8, 1, 5, 5})}, {{8, 8, 24, 24}})[0];
    x = build.add("MaxPool", {x}, {{8, 8, 12, 12}}, pool())[0];
    x = build.add("Conv", {x, build.weight({16, 8, 5, 5})}, {{8, 16, 8, 8}})[0];
    x = build.add("MaxPool", {x}, {{8, 16, 4, 4}}, pool())[0];
    x = build.add("Conv", {x, build.weight({512, 16, 4, 4})}, {{8, 512, 1, 1}})[0];
    x = build.add("Conv", {x, build.weight({16, 512, 1, 1})}, {{8, 16, 1, 1}})[0];
    build.add_outputs();
    return std::move(build.graph);
}

graph::OpGraph two_step_rnn() {
    NetworkBuilder build;
    const TensorId embedding = build.weight({512, 64});
    const TensorId recurrent = build.weight({64, 64});
    TensorId state = build.source("state", TensorRole::input, {16, 64});
    for (int step = 0; step < 2; ++step) {
        const TensorId word = build.source("word" + std::to_string(step), TensorRole::input, {16},
                                           graph::DType::int64);
        const TensorId read = build.add("Gather", {embedding, word}, {{16, 64}})[0];
        const TensorId kept = build.add("MatMul", {state, recurrent}, {{16, 64}})[0];
        state = build.add("Add", {read, kept}, {{16, 64}})[0];
    }
    build.add("MatMul", {state, build.weight({64, 512})}, {{16, 512}});
    build.add_outputs();
    return std::move(build.graph);
}

}  // namespace partita::search
