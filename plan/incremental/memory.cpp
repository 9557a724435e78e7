// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/memory.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using Kind = TensorEvent::Kind;

namespace {

constexpr std::int32_t kAhead = 12;  // tasks

}  // namespace

IncrementalMemory::IncrementalMemory(const Problem& problem, const IncrementalLowering& lowering,
                                     std::vector<Bytes> capacities)
    : problem_(problem),
      lowering_(lowering),
      capacities_(std::move(capacities)),
      rows_(lowering.layouts().events().size()),
      persistent_(capacities_.size()) {
    number_rows();
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const Op& op = problem.graph().op(OpId(i));
        if (op.kind == OpKind::compute && op.given) given_.emplace_back(i);
    }
}

void IncrementalMemory::number_rows() {
    const graph::OpGraph& graph = problem_.graph();
    const MicroBatchRows& rows = lowering_.layouts().rows();
    for (std::size_t i = graph.op_count(); i-- > 0;) {
        for (int m = 0; m < rows.micro_batches() && rows.runs_in(OpId(i), m); ++m) {
            for (const TensorId t : graph.op(OpId(i)).outputs) {
                backwards_.push_back(view_of(OpId(i), t, m));
            }
        }
    }
}

IncrementalMemory::View IncrementalMemory::view_of(OpId id, TensorId result,
                                                   int micro_batch) const {
    const Op& op = problem_.graph().op(id);
    const MicroBatchRows& rows = lowering_.layouts().rows();
    View view{.row = rows.row(result, micro_batch), .viewed = 0, .made = {}};
    const bool views = op.kind == OpKind::compute && problem_.facts().rule(id).alias &&
                       !op.inputs.empty() && op.inputs[0].valid();
    if (!views) return view;
    view.viewed = rows.row(op.inputs[0], micro_batch);
    const std::vector<TensorEvent>& events = lowering_.layouts().events()[view.row].events;
    for (std::size_t e = 0; e < events.size(); ++e) {
        if (events[e].kind != Kind::produce && events[e].kind != Kind::reproduce) continue;
        view.made.push_back({.event = e, .found = event_of_use(view.viewed, events[e])});
    }
    return view;
}

/// Which event of a row finds the operand 0 of what is made?
std::size_t IncrementalMemory::event_of_use(std::size_t row, const TensorEvent& made) const {
    const Kind use = made.kind == Kind::produce ? Kind::forward_use : Kind::recompute_use;
    const std::vector<TensorEvent>& events = lowering_.layouts().events()[row].events;
    const auto found = std::find_if(events.begin(), events.end(), [&](const TensorEvent& event) {
        return event.kind == use && event.op == made.op && event.operand == 0 &&
               event.micro_batch == made.micro_batch && event.choice == made.choice;
    });
    assert(found != events.end());
    return at(found - events.begin());
}

bool IncrementalMemory::surely_fits() const {
    const auto most = lowering_.most_bytes();
    return std::equal(most.begin(), most.end(), capacities_.begin(),
                      [](Bytes bytes, Bytes capacity) { return bytes <= capacity; });
}

std::span<const Bytes> IncrementalMemory::peaks(const SlotGraph& graph,
                                                std::span<const Slot> order) {
    const auto most = lowering_.most_bytes();
    in_doubt_.resize(most.size());
    for (std::size_t d = 0; d < most.size(); ++d) in_doubt_[d] = most[d] > capacities_[d] ? 1 : 0;
    find_spans(graph, order);
    for (const View& of : backwards_) {
        if (rows_[of.row].tasks != lowering_.tasks_of(of.row)) renew(of.row);
    }
    lives_.clear();
    stretches_.clear();
    bulks_.assign(((order.size() >> kStretch) + 1) * most.size(), {});
    for (const View& of : backwards_) add_lives(of);
    peaks_ = persistent_;
    add_given();
    sweep();
    for (std::size_t d = 0; d < most.size(); ++d) {
        if (in_doubt_[d] == 0) peaks_[d] = most[d];
    }
    return peaks_;
}

Bytes IncrementalMemory::overflow() const {
    Bytes overflow;
    for (std::size_t d = 0; d < peaks_.size(); ++d) {
        overflow += std::max(Bytes{0}, peaks_[d] - capacities_[d]);
    }
    return overflow;
}

/// Takes note of a tensor's buffers, whose tasks are others.
void IncrementalMemory::renew(std::size_t row) {
    const TensorTasks* tasks = lowering_.tasks_of(row);
    if (rows_[row].tasks != nullptr) add_persistent(*rows_[row].tasks, -1);
    if (tasks != nullptr) add_persistent(*tasks, 1);
    rows_[row].tasks = tasks;
    rows_[row].values.clear();
    rows_[row].users.clear();
    rows_[row].value_of.clear();
    if (tasks == nullptr) return;
    add_values(row, *tasks);
    add_users(row, *tasks);
}

/// What parts make stays though it has no bytes: it may be a view.
void IncrementalMemory::add_values(std::size_t row, const TensorTasks& tasks) {
    Row& of = rows_[row];
    const std::vector<TensorEvent>& events = lowering_.layouts().events()[row].events;
    std::size_t e = 0;
    for (std::size_t b = 0; b < tasks.buffers.size(); ++b) {
        while (tasks.steps[e].buffers <= b) ++e;
        const bool made = events[e].kind == Kind::produce || events[e].kind == Kind::reproduce;
        const TensorBuffer& buffer = tasks.buffers[b];
        std::int32_t value = -1;
        if (buffer.root >= 0) {
            value = of.value_of[at(buffer.root)];
        } else if (buffer.writer != -1 && (made || buffer.bytes != Bytes{0})) {
            value = static_cast<std::int32_t>(of.values.size());
            of.values.push_back({.bytes = buffer.bytes, .device = buffer.device});
        }
        of.value_of.push_back(value);
    }
}

void IncrementalMemory::add_users(std::size_t row, const TensorTasks& tasks) {
    Row& of = rows_[row];
    const auto user_of = [&](TaskRef ref) {
        return is_part(ref) ? ~lowering_.slot_of(row, ref) : ref;
    };
    uses_.clear();
    const auto add = [&](std::int32_t buffer, User user) {
        if (buffer < 0) return;
        const std::int32_t value = of.value_of[at(buffer)];
        if (value >= 0) uses_.emplace_back(value, user);
    };
    for (std::size_t b = 0; b < tasks.buffers.size(); ++b) {
        const TensorBuffer& buffer = tasks.buffers[b];
        if (buffer.root < 0) add(static_cast<std::int32_t>(b), user_of(buffer.writer));
    }
    for (std::size_t i = 0; i < tasks.tasks.size(); ++i) {
        for (const std::int32_t buffer : tasks.reads[i]) add(buffer, static_cast<User>(i));
    }
    const std::vector<TensorEvent>& events = lowering_.layouts().events()[row].events;
    for (std::size_t e = 0; e < events.size(); ++e) {
        if (!is_for_parts(events[e])) continue;
        const TensorStep& step = tasks.steps[e];
        for (std::uint32_t part = 0; part < step.parts; ++part) {
            const User user = user_of(part_ref(events[e].block, static_cast<int>(part)));
            for (const Source& source : sources_of(tasks, step, part)) add(source.buffer, user);
        }
    }
    // Into the rows of values.
    ends_.assign(of.values.size() + 1, 0);
    for (const auto& [value, user] : uses_) ++ends_[at(value) + 1];
    for (std::size_t v = 0; v < of.values.size(); ++v) {
        ends_[v + 1] += ends_[v];
        of.values[v].users = ends_[v + 1];
    }
    of.users.resize(uses_.size());
    for (const auto& [value, user] : uses_) of.users[ends_[at(value)]++] = user;
}

/// Backwards, so that the next commit on a resource is known.
void IncrementalMemory::find_spans(const SlotGraph& graph, std::span<const Slot> order) {
    const auto count = static_cast<std::int32_t>(order.size());
    spans_.resize(graph.slots());
    next_.assign(graph.resource_count(), count);
    for (std::int32_t i = count; i-- > 0;) {
        if (i >= kAhead) __builtin_prefetch(&graph[order[at(i - kAhead)]]);  // scattered in memory
        const Slot slot = order[at(i)];
        std::int32_t end = count;
        for (const std::int32_t r : graph.resources(graph[slot].resource_set)) {
            end = std::min(end, next_[at(r)]);
            next_[at(r)] = i;
        }
        spans_[at(slot)] = {i, end};
    }
}

void IncrementalMemory::add_persistent(const TensorTasks& tasks, std::int64_t sign) {
    for (const PersistentBytes& kept : tasks.persistent) {
        persistent_[at(kept.device)] += sign * kept.bytes;
    }
}

void IncrementalMemory::add_given() {
    const StrategyTensors& layouts = lowering_.layouts();
    for (const OpId op : given_) {
        for (int m = 0; m < layouts.rows().micro_batches() && layouts.rows().runs_in(op, m); ++m) {
            for (const std::int32_t device : layouts.of(op, m).devices) {
                peaks_[at(device)] += problem_.graph().op(op).given->memory;
            }
        }
    }
}

/// Each of these values is a part's; empty where the event does not happen.
IncrementalMemory::MadeValues IncrementalMemory::values_of(const View& view,
                                                           const Made& made) const {
    const Row& row = rows_[view.row];
    if (row.tasks == nullptr) return {};
    const std::size_t first = made.event == 0 ? 0 : row.tasks->steps[made.event - 1].buffers;
    const std::size_t count = row.tasks->steps[made.event].buffers - first;
    if (count == 0 || row.value_of[first] < 0) return {};
    const std::size_t begin = at(row.value_of[first]);
    return {.begin = begin, .end = begin + count, .found = made.found};
}

/// Does this value of a result lie in what its operand holds? `root`: where, null if that has no
/// bytes.
bool IncrementalMemory::is_viewing(const View& view, std::size_t v, Value*& root) {
    const auto made = std::find_if(made_.begin(), made_.end(), [&](const MadeValues& values) {
        return v >= values.begin && v < values.end;
    });
    if (made == made_.end()) return false;
    const TensorTasks& viewed = *lowering_.tasks_of(view.viewed);
    const TensorStep& step = viewed.steps[made->found];
    const std::size_t part = v - made->begin;
    if (part >= step.parts) return false;
    const auto sources = sources_of(viewed, step, part);
    if (sources.size() != 1 || sources[0].buffer < 0) return false;
    if (viewed.buffers[at(sources[0].buffer)].writer == -1) return false;
    Row& of = rows_[view.viewed];
    const std::int32_t value = of.value_of[at(sources[0].buffer)];
    root = value < 0 ? nullptr : &of.values[at(value)];
    return true;
}

/// From when until when does each value of the tensor lie on its device?
void IncrementalMemory::add_lives(const View& view) {
    Row& row = rows_[view.row];
    const std::span<const Slot> slots = lowering_.slots_of(view.row);
    made_.clear();
    for (const Made& made : view.made) made_.push_back(values_of(view, made));
    const User* user = row.users.data();
    for (std::size_t v = 0; v < row.values.size(); ++v) {
        Value& value = row.values[v];
        const User* const last = row.users.data() + value.users;
        const User* const first = std::exchange(user, last);
        if (in_doubt_[at(value.device)] == 0) continue;
        const Span writer = span_of(*first, slots);
        std::int32_t end = std::max(std::exchange(value.kept_until, 0), writer.end);
        for (const User* other = first + 1; other < last; ++other) {
            end = std::max(end, span_of(*other, slots).end);
        }
        Value* root = nullptr;
        if (!made_.empty() && is_viewing(view, v, root)) {
            if (root != nullptr) root->kept_until = std::max(root->kept_until, end);
            continue;
        }
        if (value.bytes != Bytes{0}) add_life(value, writer.begin, end);
    }
}

}  // namespace partita::plan
