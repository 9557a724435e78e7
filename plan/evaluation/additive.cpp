// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/additive.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_events.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using Kind = TensorEvent::Kind;

AdditivePrices::AdditivePrices(const Problem& problem, const Policy& policy, LoweringCache& cache)
    : problem_(problem),
      micro_batches_(policy.micro_batches),
      cache_(cache),
      lowering_(std::make_unique<TensorLowering>(problem, cache.layouts(), *cache.regions(),
                                                 cache.resource_sets())) {
    key_.optimizer = policy.optimizer;
    number_alike();
}

void AdditivePrices::number_alike() {
    std::map<std::vector<std::int64_t>, std::int32_t> numbers;
    const graph::OpGraph& graph = problem_.graph();
    for (const graph::Tensor& tensor : graph.tensors()) {
        const bool given = tensor.producer.valid() && graph.op(tensor.producer).given.has_value();
        std::vector<std::int64_t> traits{static_cast<std::int64_t>(tensor.dtype),
                                         given ? std::int64_t{tensor.producer.value} : -1,
                                         tensor.given_bytes ? tensor.given_bytes->raw() : -1};
        traits.insert(traits.end(), tensor.shape.begin(), tensor.shape.end());
        const auto next = static_cast<std::int32_t>(numbers.size());
        alike_.push_back(numbers.emplace(std::move(traits), next).first->second);
    }
}

bool AdditivePrices::is_trained(TensorId t) const {
    const OpId producer = problem_.graph().tensor(t).producer;
    return problem_.graph().op(producer).kind == OpKind::parameter &&
           problem_.facts().has_gradient(t);
}

std::int64_t AdditivePrices::gradient_count(TensorId t) const {
    if (!problem_.facts().has_gradient(t)) return 0;
    const auto uses = problem_.graph().uses(t);
    return std::count_if(uses.begin(), uses.end(), [&](const graph::Use& use) {
        return problem_.facts().has_backward(use.op);
    });
}

std::size_t AdditivePrices::result_of(TensorId t) const {
    const Op& producer = problem_.graph().op(problem_.graph().tensor(t).producer);
    return static_cast<std::size_t>(std::find(producer.outputs.begin(), producer.outputs.end(), t) -
                                    producer.outputs.begin());
}

std::int64_t AdditivePrices::times(bool batched) const {
    return batched ? micro_batches_ : 1;
}

/// Of one more contribution to the largest piece of a gradient.
Time AdditivePrices::addition(TensorId t, std::int32_t layout) const {
    Time most;
    std::int64_t largest = 0;
    for (const Piece& piece : cache_.layouts()[layout].pieces) {
        if (piece.region < 0) continue;
        const std::int64_t volume = cache_.regions()->volume(piece.region);
        if (volume < largest) continue;  // the same on devices of several classes
        largest = volume;
        most = std::max(most, problem_.prices().accumulate_price(t, volume, piece.device).time);
    }
    return most;
}

namespace {

/// Of the slowest class among the devices.
Time slowest(const Prices& prices, const OpLayouts& layouts, const std::vector<Time>& times) {
    Time most;
    for (const std::int32_t device : layouts.devices) {
        most = std::max(most, times[static_cast<std::size_t>(prices.device_class(device))]);
    }
    return most;
}

}  // namespace

Time AdditivePrices::op_time(OpId id, const OpLayouts& layouts) {
    const Op& op = problem_.graph().op(id);
    if (op.kind != OpKind::compute && op.kind != OpKind::output) return Time{0};
    Time time;
    if (op.kind == OpKind::compute) time += slowest(problem_.prices(), layouts, layouts.forward);
    if (problem_.facts().has_backward(id)) {
        time += slowest(problem_.prices(), layouts, layouts.backward);
        if (problem_.facts().splits_backward(id)) {
            time += slowest(problem_.prices(), layouts, layouts.weights);
        }
        const graph::OpRule& rule = problem_.facts().rule(id);
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            if (rule.saves_result(i)) {
                time += time_of(t, Way::value, layouts.results[i], layouts.result_gradients[i]);
            }
            const std::int64_t gradients = gradient_count(t);
            if (gradients > 1) {
                time += (gradients - 1) * addition(t, layouts.result_gradients[i]);
            }
        }
    }
    return times(problem_.facts().is_batched(id)) * time;
}

Time AdditivePrices::use_time(TensorId t, graph::Use use, const OpLayouts& home,
                              const OpLayouts& reader) {
    if (problem_.facts().is_resident(t)) return Time{0};
    const std::size_t result = result_of(t);
    Time time = time_of(t, Way::value, home.results[result], reader.operands[use.operand]);
    const OpKind kind = problem_.graph().op(problem_.graph().tensor(t).producer).kind;
    if (kind == OpKind::compute && problem_.facts().has_gradient(t) &&
        problem_.facts().has_backward(use.op)) {
        time += time_of(t, Way::gradient, reader.operand_gradients[use.operand],
                        home.result_gradients[result]);
    }
    return times(problem_.facts().is_batched(t)) * time;
}

Time AdditivePrices::parameter_use_time(TensorId t, graph::Use use, const OpLayouts& home,
                                        const OpLayouts& updated, bool refetch,
                                        const OpLayouts& reader) {
    const std::int64_t fetches = refetch && problem_.facts().has_backward(use.op) ? 2 : 1;
    Time time = fetches * time_of(t, Way::value, home.results[0], reader.operands[use.operand]);
    if (problem_.facts().has_backward(use.op)) {
        time +=
            time_of(t, Way::gradient, reader.operand_gradients[use.operand], updated.results[0]);
    }
    const auto uses = static_cast<std::int64_t>(problem_.graph().uses(t).size());
    return Time{(time.raw() + uses - 1) / uses};
}

Time AdditivePrices::update_time(TensorId t, const OpLayouts& home, const OpLayouts& updated) {
    Time time = time_of(t, Way::update, home.results[0], updated.results[0]);
    std::int64_t gradients = 0;
    for (const graph::Use& use : problem_.graph().uses(t)) {
        if (problem_.facts().has_backward(use.op))
            gradients += times(problem_.facts().is_batched(use.op));
    }
    if (gradients > 1) time += (gradients - 1) * addition(t, updated.results[0]);
    return time;
}

Time AdditivePrices::time_of(TensorId t, Way way, std::int32_t from, std::int32_t to) {
    if (from == to && way != Way::update) return Time{0};
    Hash hash;
    hash.add((std::int64_t{from} << 32U) | to);
    hash.add((std::int64_t{alike(t)} << 2U) | static_cast<std::int64_t>(way));
    const std::int32_t known = index_.find(hash.value(), [&](std::int32_t i) {
        const Known& of = known_[static_cast<std::size_t>(i)];
        return of.from == from && of.to == to && of.alike == alike(t) && of.way == way;
    });
    if (known >= 0) return known_[static_cast<std::size_t>(known)].time;
    const Time time = find_time(t, way, from, to);
    index_.add(hash.value(), static_cast<std::int32_t>(known_.size()));
    known_.push_back({alike(t), from, to, way, time});
    return time;
}

/// Lowers the tensor as if nothing else happened to it.
Time AdditivePrices::find_time(TensorId t, Way way, std::int32_t from, std::int32_t to) {
    if (way == Way::value && cache_.layouts().is_local(from, to, *cache_.regions())) return Time{0};
    const OpId producer = problem_.graph().tensor(t).producer;
    const auto event = [&](Kind kind, std::int32_t block) {
        return TensorEvent{.kind = kind, .block = block, .operand = 0, .op = producer};
    };
    events_.tensor = t;
    switch (way) {
    case Way::value:
        events_.events = {event(Kind::produce, 0), event(Kind::forward_use, 1)};
        key_.layouts = {from, to};
        break;
    case Way::gradient:
        events_.events = {event(Kind::contribute, 0), event(Kind::collect, 1)};
        key_.layouts = {from, to};
        break;
    case Way::update:
        events_.events = {event(Kind::produce, -1), event(Kind::contribute, 0),
                          event(Kind::update, -1)};
        key_.layouts = {from, to, to};
        break;
    }
    return time_in_rounds(lowering_->run(events_, key_));
}

/// Event by event, round by round.
Time AdditivePrices::time_in_rounds(const TensorTasks& tasks) {
    const Csr<std::int32_t>& resource_sets = cache_.resource_sets().resources();
    loads_.resize(static_cast<std::size_t>(resource_count_of(problem_)), 0);
    rounds_.assign(tasks.tasks.size(), 0);
    std::int64_t time = 0;
    std::size_t begin = 0;
    for (const TensorStep& step : tasks.steps) {
        const std::size_t end = step.tasks;
        std::int32_t last = -1;
        for (std::size_t i = begin; i < end; ++i) {
            for (const TaskRef before : tasks.predecessors[i]) {
                if (is_part(before) || before < static_cast<TaskRef>(begin)) continue;
                rounds_[i] = std::max(rounds_[i], rounds_[static_cast<std::size_t>(before)] + 1);
            }
            last = std::max(last, rounds_[i]);
        }
        for (std::int32_t round = 0; round <= last; ++round) {
            std::int64_t busiest = 0;
            for (std::size_t i = begin; i < end; ++i) {
                if (rounds_[i] != round) continue;
                const Task& task = tasks.tasks[i];
                for (const std::int32_t r :
                     resource_sets[static_cast<std::size_t>(task.resource_set)]) {
                    std::int64_t& load = loads_[static_cast<std::size_t>(r)];
                    load += task.duration.raw();
                    busiest = std::max(busiest, load);
                }
            }
            time += busiest;
            for (std::size_t i = begin; i < end; ++i) {
                if (rounds_[i] != round) continue;
                const auto resource_set = static_cast<std::size_t>(tasks.tasks[i].resource_set);
                for (const std::int32_t r : resource_sets[resource_set])
                    loads_[static_cast<std::size_t>(r)] = 0;
            }
        }
        begin = end;
    }
    return Time{time};
}

Time additive_time(const Problem& problem, const Strategy& strategy, LoweringCache& cache) {
    AdditivePrices prices(problem, strategy.policy, cache);
    const int micro_batches = strategy.policy.micro_batches;
    const auto layouts = [&](OpId op, const OpConfig& config) -> const OpLayouts& {
        return cache.of(op, config, micro_batches, 0);
    };
    const graph::OpGraph& graph = problem.graph();
    Time sum;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId op(i);
        const OpLayouts& home = layouts(op, strategy.config(op));
        sum += prices.op_time(op, home);
        for (const TensorId t : graph.op(op).outputs) {
            if (!prices.is_trained(t)) {
                for (const graph::Use& use : graph.uses(t)) {
                    sum += prices.use_time(t, use, home, layouts(use.op, strategy.config(use.op)));
                }
                continue;
            }
            const UpdateConfig& update = strategy.update(op);
            const OpLayouts& updated =
                update.update.devices.empty() ? home : layouts(op, update.update);
            sum += prices.update_time(t, home, updated);
            for (const graph::Use& use : graph.uses(t)) {
                sum += prices.parameter_use_time(t, use, home, updated, update.refetch,
                                                 layouts(use.op, strategy.config(use.op)));
            }
        }
    }
    return sum;
}

}  // namespace partita::plan
