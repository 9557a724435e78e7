// SPDX-License-Identifier: Apache-2.0
#include "plan/lower.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "plan/batch.h"
#include "plan/lowering.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

Lowering::Lowering(const Problem& problem, const Strategy& strategy, LayoutCache& cache)
    : problem_(problem),
      graph_(problem.graph()),
      strategy_(strategy),
      micro_batches_(strategy.policy.micro_batches),
      turns_(problem, strategy),
      cache_(cache),
      layouts_(cache.layouts()),
      build_(problem, cache.regions()),
      states_(graph_.tensor_count() * static_cast<std::size_t>(micro_batches_)),
      forward_(graph_.op_count() * static_cast<std::size_t>(micro_batches_)) {}

TaskGraph Lowering::run() {
    for (int m = 0; m < micro_batches_; ++m) {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            if (runs_in(OpId(i), m)) lower_forward(OpId(i), m);
        }
    }
    for (int m = 0; m < micro_batches_ && problem_.mode() == Mode::training; ++m) {
        for (std::size_t i = graph_.op_count(); i-- > 0;) lower_backward(OpId(i), m);
    }
    limit_fetches();
    add_resident_memory();
    return build_.finish();
}

/// The task comes after the places' tasks and reads what lies there.
void Lowering::add_work(TaskId task, const Places& places) {
    for (const Place& place : places) build_.add_edge(place.task, task);
    add_reads(task, places);
}

void Lowering::add_reads(TaskId task, const Places& places) {
    for (const Place& place : places) {
        build_.add_read(task, place.buffer);
        const auto readers = readers_.find(place.buffer);
        if (readers != readers_.end()) readers->second.push_back(task);
    }
}

void Lowering::lower_source(OpId id, int micro_batch) {
    const Op& op = graph_.op(id);
    const TensorId t = op.outputs[0];
    if (problem_.is_resident(t)) return;  // see resident()
    Form home{.layout = layouts_of(id, micro_batch).results[0], .pieces = {}};
    const bool trained = op.kind == OpKind::parameter;
    for (const Piece& piece : layouts_[home.layout].pieces) {
        Place place{.device = piece.device};
        place.buffer =
            add_value({.tensor = t, .micro_batch = label(t, micro_batch)}, place, piece, Bytes{0});
        build_.add_persistent(piece.device,
                              bytes_of(graph_.tensor(t), build_.regions().volume(piece.region)));
        if (trained) readers_[place.buffer];
        home.pieces.push_back({place});
    }
    state(t, micro_batch).forms.push_back(std::move(home));
}

void Lowering::lower_forward(OpId id, int micro_batch) {
    const Op& op = graph_.op(id);
    if (op.kind != OpKind::compute && op.kind != OpKind::output) {
        lower_source(id, micro_batch);
        return;
    }
    const OpLayouts& own = layouts_of(id, micro_batch);
    std::vector<const Pieces*> operands(op.inputs.size(), nullptr);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i].valid()) form(op.inputs[i], micro_batch, own.operands[i], false);
    }
    if (op.kind == OpKind::output) return;
    // Asked for again: one operand's reshard may move another form of the same tensor.
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid()) continue;
        operands[i] = &form(op.inputs[i], micro_batch, own.operands[i], false).pieces;
    }
    const DeviceSet& devices = strategy_.config(id).devices;
    std::vector<TaskId> tasks;
    for (int part = 0; part < own.parts; ++part) {
        const int device = devices[part];
        const auto device_class = static_cast<std::size_t>(problem_.device_class(device));
        const TaskId task = build_.add_task({.kind = TaskKind::forward,
                                             .op = id,
                                             .tensor = {},
                                             .device = device,
                                             .part = own.parts > 1 ? part : -1,
                                             .micro_batch = label(id, micro_batch),
                                             .turn = turns_.of(id, micro_batch, false),
                                             .duration = own.forward[device_class]});
        for (const Pieces* pieces : operands) {
            if (pieces != nullptr) add_work(task, (*pieces)[static_cast<std::size_t>(part)]);
        }
        if (op.given) build_.add_persistent(device, op.given->memory);
        tasks.push_back(task);
    }
    note_readers(tasks);
    const bool views = problem_.rule(id).alias && !operands.empty() && operands[0] != nullptr;
    add_results(id, micro_batch, tasks, views ? *operands[0] : Pieces{});
    forward_[id.index() * static_cast<std::size_t>(micro_batches_) +
             static_cast<std::size_t>(micro_batch)] = std::move(tasks);
}

/// A view keeps its operand's buffer alive instead of allocating one of its own.
void Lowering::add_results(OpId id, int micro_batch, const std::vector<TaskId>& tasks,
                           const Pieces& viewed) {
    const Op& op = graph_.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const TensorId t = op.outputs[i];
        Form home{.layout = layouts_of(id, micro_batch).results[i], .pieces = {}};
        for (std::size_t part = 0; part < tasks.size(); ++part) {
            const Piece& piece = layouts_[home.layout].pieces[part];
            std::int32_t root = -1;
            if (!viewed.empty() && viewed[part].size() == 1) {
                const std::int32_t operand = viewed[part][0].buffer;
                if (build_.buffer(operand).writer >= 0) root = operand;
            }
            Place place{.device = piece.device, .task = tasks[part]};
            const Bytes bytes = root >= 0 ? Bytes{0} : buffer_bytes(t, piece.region);
            place.buffer = add_value({.tensor = t, .micro_batch = label(t, micro_batch)}, place,
                                     piece, bytes, root);
            home.pieces.push_back({place});
        }
        state(t, micro_batch).forms.push_back(std::move(home));
    }
}

/// What never changes lies wherever it is read: the regions that are read, each once.
void Lowering::add_resident_memory() {
    for (std::size_t i = 0; i < graph_.tensor_count(); ++i) {
        const TensorId t(i);
        if (!problem_.is_resident(t)) continue;
        std::map<int, std::vector<std::int32_t>> held;
        for (const Form& form : state(t, 0).forms) {
            for (const Piece& piece : layouts_[form.layout].pieces) {
                if (piece.region >= 0) held[piece.device].push_back(piece.region);
            }
        }
        for (auto& [device, regions] : held) {
            std::stable_sort(regions.begin(), regions.end(), [&](std::int32_t a, std::int32_t b) {
                return build_.regions().volume(a) > build_.regions().volume(b);
            });
            std::vector<std::int32_t> kept;
            for (const std::int32_t region : regions) {
                const bool inside = std::any_of(kept.begin(), kept.end(), [&](std::int32_t other) {
                    return contains(build_.regions()[other], build_.regions()[region]);
                });
                if (inside) continue;
                kept.push_back(region);
                build_.add_persistent(device,
                                      bytes_of(graph_.tensor(t), build_.regions().volume(region)));
            }
        }
    }
}

TaskGraph lower(const Problem& problem, const Strategy& strategy, LayoutCache& cache) {
    assert(strategy.configs.size() == problem.graph().op_count());
    cache.forget_if_large();
    return Lowering(problem, strategy, cache).run();
}

TaskGraph lower(const Problem& problem, const Strategy& strategy) {
    assert(strategy.configs.size() == problem.graph().op_count());
    LayoutCache cache(problem);
    return Lowering(problem, strategy, cache).run();
}

}  // namespace partita::plan
