// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/combine_work.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/Functions.h>

#include "runtime/execute/exchange.h"
#include "runtime/execute/messages.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::Combine;
using plan::TaskGraph;

namespace {

/// What changes nothing when it is combined with something.
double neutral(Combine combine) {
    switch (combine) {
    case Combine::none:
    case Combine::sum: return 0.0;
    case Combine::log_sum_exp:
    case Combine::max: return -std::numeric_limits<double>::infinity();
    case Combine::min: return std::numeric_limits<double>::infinity();
    case Combine::product: return 1.0;
    }
    return 0.0;
}

/// Does no other tensor lie in its memory?
bool is_alone(const at::Tensor& tensor) {
    return tensor.is_contiguous() && tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

}  // namespace

CombineWork::CombineWork(const graph::OpGraph& graph, const TaskGraph& tasks, plan::TaskId task,
                         const std::vector<plan::BufferId>& results,
                         std::vector<std::vector<Resident>> residents, at::Device device,
                         const Exchange* exchange)
    : combine_(tasks.tasks[task.index()].combine) {
    static const Ownership kAlone;
    const Ownership& ownership = exchange == nullptr ? kAlone : exchange->peers().ownership;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const plan::Buffer& made = tasks.buffers[results[i].index()];
        const graph::Region& region = (*tasks.regions)[made.region];
        const auto type =
            scalar_type_of(graph.tensor(made.tensor).type_of(made.gradient)).value_or(at::kFloat);
        Result result{.buffer = results[i],
                      .root = made.root,
                      .residents = std::move(residents[i]),
                      .extents = extents_of(region),
                      .as = at::TensorOptions().dtype(type).device(device)};
        std::int64_t found = 0;
        for (const Ingredient& each : ingredients_of(tasks, task, made, ownership)) {
            Patch patch(each.region, region);
            found += patch.volume();
            plan::BufferId at = each.buffer;
            if (each.is_message) {
                messages_.push_back(exchange->messages().find_in(task, each));
                at = exchange->slot_of(messages_.back());
            }
            result.sources.push_back(
                {at, each.region == region, each.is_message, std::move(patch)});
            if (combine_ != Combine::none) continue;
            result.into_residents.resize(result.residents.size());
            for (std::size_t h = 0; h < result.residents.size(); ++h) {
                const std::size_t resident = result.residents[h].buffer.index();
                result.into_residents[h].emplace_back(
                    each.region, (*tasks.regions)[tasks.buffers[resident].region]);
            }
        }
        result.has_gaps = found < region.volume();
        results_.push_back(std::move(result));
    }
}

at::Tensor CombineWork::copied(const Result& result, const Store& store) const {
    for (const Source& source : result.sources) {
        if (source.same) {
            const bool own = source.is_message;  // nobody changes it while the message is there
            return store[source.buffer]
                .to(result.as, /*non_blocking=*/false, /*copy=*/!own)
                .contiguous();
        }
    }
    const at::Tensor whole = result.has_gaps ? at::zeros(result.extents, result.as)
                                             : at::empty(result.extents, result.as);
    for (const Source& source : result.sources) source.patch.copy(whole, store[source.buffer]);
    return whole;
}

at::Tensor CombineWork::combined(const Result& result, const Store& store) const {
    const auto& sources = result.sources;
    if (sources.size() == 2 && sources[0].same && sources[1].same && !result.root.valid() &&
        combine_ == Combine::sum) {
        const at::Tensor& a = store[sources[0].buffer];
        const bool is_here = a.device() == result.as.device();
        return at::add(is_here ? a : a.to(result.as), store[sources[1].buffer].to(result.as));
    }
    // What the first one holds needs no neutral element.
    const auto first = std::ranges::find_if(sources, [](const Source& each) { return each.same; });
    at::Tensor whole;
    if (first == sources.end()) {
        whole = result.has_gaps || combine_ == Combine::sum
                    ? at::zeros(result.extents, result.as)
                    : at::full(result.extents, neutral(combine_), result.as);
    } else if (result.root == first->buffer && is_alone(store[first->buffer])) {
        whole = store[first->buffer];
    } else {
        whole = store[first->buffer].to(result.as, /*non_blocking=*/false, /*copy=*/true);
    }
    for (auto source = sources.begin(); source != sources.end(); ++source) {
        if (source == first) continue;
        source->patch.combine(whole, store[source->buffer], combine_);
    }
    return whole;
}

/// What lies there already stays: somebody else may be reading it.
void CombineWork::write_back(const Result& result, const at::Tensor& made, Store& store) const {
    for (std::size_t h = 0; h < result.residents.size(); ++h) {
        const Resident& resident = result.residents[h];
        const at::Tensor& target = store[resident.buffer];
        if (combine_ != Combine::none) {
            resident.patch.copy(target, made);
            continue;
        }
        for (std::size_t s = 0; s < result.sources.size(); ++s) {
            const at::Tensor& source = store[result.sources[s].buffer];
            if (!source.is_alias_of(target)) result.into_residents[h][s].copy(target, source);
        }
    }
}

void CombineWork::run(Store& store) {
    for (const Result& result : results_) {
        at::Tensor made =
            combine_ == Combine::none ? copied(result, store) : combined(result, store);
        write_back(result, made, store);
        store[result.buffer] = std::move(made);
    }
}

}  // namespace partita::runtime
