// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_lowering.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "graph/error.h"
#include "plan/to_csr.h"

namespace partita::plan {

using graph::OpKind;
using Kind = TensorEvent::Kind;

TensorLowering::TensorLowering(const Problem& problem, LayoutTable& layouts, RegionTable& regions,
                               Lanes& lanes, const TensorEvents& events, const TensorKey& key)
    : problem_(problem),
      layouts_(layouts),
      regions_(regions),
      lanes_(lanes),
      events_(events),
      key_(key),
      tensor_(events.tensor),
      producer_(problem.graph().tensor(events.tensor).producer) {}

TensorTasks TensorLowering::run() {
    given_.steps.reserve(events_.events.size());
    for (std::size_t i = 0; i < events_.events.size(); ++i) {
        given_.steps.emplace_back();
        lower(events_.events[i], key_.layouts[i]);
        given_.steps.back().tasks = static_cast<std::uint32_t>(given_.tasks.size());
        given_.steps.back().buffers = static_cast<std::uint32_t>(given_.buffers.size());
    }
    finish();
    return std::move(given_);
}

void TensorLowering::lower(const TensorEvent& event, std::int32_t layout) {
    switch (event.kind) {
    case Kind::home: add_home(event, layout); break;
    case Kind::forward_use:
    case Kind::backward_use:
    case Kind::result_use: add_use(event, layout); break;
    case Kind::give: give(event, layout); break;
    case Kind::fold: fold_pending(event.micro_batch, false); break;
    case Kind::take:
        given_.steps.back().waits = true;
        hold(take_gradient(layout, false).pieces);
        break;
    case Kind::parameter: lower_parameter(event, layout); break;
    case Kind::update: lower_update(take_gradient(layout, true)); break;
    }
}

/// What a producer leaves: parts of an op their results, a source what lies there at time 0.
void TensorLowering::add_home(const TensorEvent& event, std::int32_t layout) {
    if (problem_.is_resident(tensor_)) return;  // lies wherever it is used
    Form home{.layout = layout, .pieces = {}};
    const bool source = event.block < 0;
    const std::vector<Piece> pieces = layouts_[layout].pieces;
    for (std::size_t part = 0; part < pieces.size(); ++part) {
        const Piece& piece = pieces[part];
        Place place{.device = piece.device};
        if (!source) place.task = part_ref(event.block, static_cast<int>(part));
        const Bytes bytes = source ? Bytes{0} : buffer_bytes(piece.region);
        place.buffer = add_value({.micro_batch = label()}, place, piece, bytes);
        if (source) {
            const graph::Tensor& tensor = problem_.graph().tensor(tensor_);
            add_persistent(piece.device, bytes_of(tensor, regions_.volume(piece.region)));
        }
        home.pieces.push_back({place});
    }
    if (problem_.graph().op(producer_).kind == OpKind::parameter) readers_.resize(pieces.size());
    forms_.push_back(std::move(home));
}

void TensorLowering::add_use(const TensorEvent& event, std::int32_t layout) {
    const Pieces pieces = form(event, layout).pieces;
    if (event.block < 0) return;  // nobody reads it
    const bool operand = event.kind == Kind::backward_use;
    const bool loss = problem_.graph().op(event.op).kind == OpKind::output;
    // What the forward had is there: the backward comes after it.
    given_.steps.back().waits = !operand || loss || key_.refetch;
    for (std::size_t part = 0; part < pieces.size(); ++part) {
        for (const Place& place : pieces[part]) {
            const TaskRef reader = part_ref(event.block, static_cast<int>(part));
            // The buffers of a parameter's home come first.
            if (static_cast<std::size_t>(place.buffer) < readers_.size()) {
                readers_[static_cast<std::size_t>(place.buffer)].push_back(reader);
            }
            for (auto b = place.buffer; b >= 0; b = buffer(b).root) {
                is_read_[static_cast<std::size_t>(b)] = 1;
            }
        }
    }
    hold(pieces);
}

void TensorLowering::give(const TensorEvent& event, std::int32_t layout) {
    Form form{.layout = layout, .pieces = {}, .operand = event.operand};
    const Layout& given = layouts_[layout];
    for (std::size_t part = 0; part < given.pieces.size(); ++part) {
        form.pieces.emplace_back();
        if (given.pieces[part].region < 0) continue;
        form.pieces.back().push_back({.device = given.pieces[part].device,
                                      .task = part_ref(event.block, static_cast<int>(part))});
    }
    pending_.push_back(std::move(form));
}

void TensorLowering::hold(const Pieces& pieces) {
    Csr<Held>& held = given_.steps.back().held;
    for (const Places& places : pieces) {
        for (const Place& place : places) held.items.push_back({place.task, place.buffer});
        held.offsets.push_back(static_cast<std::uint32_t>(held.items.size()));
    }
}

/// What never changes lies wherever it is read: the regions that are read, each once.
void TensorLowering::add_resident_memory() {
    std::map<int, std::vector<std::int32_t>> held;
    for (const Form& form : forms_) {
        for (const Piece& piece : layouts_[form.layout].pieces) {
            if (piece.region >= 0) held[piece.device].push_back(piece.region);
        }
    }
    for (auto& [device, regions] : held) {
        std::stable_sort(regions.begin(), regions.end(), [&](std::int32_t a, std::int32_t b) {
            return regions_.volume(a) > regions_.volume(b);
        });
        std::vector<std::int32_t> kept;
        for (const std::int32_t region : regions) {
            const bool inside = std::any_of(kept.begin(), kept.end(), [&](std::int32_t other) {
                return contains(regions_[other], regions_[region]);
            });
            if (inside) continue;
            kept.push_back(region);
            add_persistent(device,
                           bytes_of(problem_.graph().tensor(tensor_), regions_.volume(region)));
        }
    }
}

void TensorLowering::finish() {
    if (problem_.is_resident(tensor_)) add_resident_memory();
    given_.predecessors = to_csr(edges_, given_.tasks.size());
    given_.reads = to_csr(reads_, given_.tasks.size());
    given_.joins = joinable();
    for (std::uint32_t i = 0; i < given_.joins.size(); ++i) {
        if (given_.joins[i] >= 0) given_.joinable.push_back(i);
    }
    add_loads();
    std::map<int, Bytes> most;
    for (const Buffer& buffer : given_.buffers) most[buffer.device] += buffer.bytes;
    for (const auto& [device, bytes] : given_.persistent) most[device] += bytes;
    given_.most_bytes.assign(most.begin(), most.end());
}

void TensorLowering::add_loads() {
    std::map<std::int32_t, std::int64_t> loads;
    for (std::size_t i = 0; i < given_.tasks.size(); ++i) {
        if (given_.joins[i] >= 0) continue;
        const Task& task = given_.tasks[i];
        for (const std::int32_t r : lanes_.resources()[static_cast<std::size_t>(task.lane)]) {
            loads[r] += task.duration.raw();
        }
    }
    given_.loads.assign(loads.begin(), loads.end());
}

/// The one block of parts before a collective that moves a gradient, after one that moves a value.
std::vector<std::int32_t> TensorLowering::joinable() const {
    constexpr std::int32_t kUnknown = -2;
    std::vector<std::int32_t> before(given_.tasks.size(), kUnknown);
    std::vector<std::int32_t> after(given_.tasks.size(), kUnknown);
    const auto meet = [](std::int32_t& block, std::int32_t other) {
        block = block == kUnknown || block == other ? other : -1;
    };
    for (std::size_t e = 0; e < given_.steps.size(); ++e) {
        if (!given_.steps[e].waits) continue;
        for (const Held& held : given_.steps[e].held.items) {
            if (held.task < 0) continue;
            meet(after[static_cast<std::size_t>(held.task)], events_.events[e].block);
        }
    }
    for (std::size_t i = 0; i < given_.tasks.size(); ++i) {
        for (const TaskRef ref : given_.predecessors[i]) {
            meet(before[i], is_part(ref) ? block_of(ref) : -1);
            if (!is_part(ref)) meet(after[static_cast<std::size_t>(ref)], -1);
        }
    }
    std::vector<std::int32_t> joins(given_.tasks.size(), -1);
    for (std::size_t i = 0; i < given_.tasks.size(); ++i) {
        const Task& task = given_.tasks[i];
        if (task.kind != TaskKind::collective || task.updated) continue;
        joins[i] = std::max(-1, task.gradient ? before[i] : after[i]);
    }
    return joins;
}

Task TensorLowering::task_of(TaskKind kind, const Subject& subject) const {
    return {.kind = kind,
            .gradient = subject.gradient,
            .updated = subject.updated,
            .micro_batch = subject.micro_batch};
}

TaskRef TensorLowering::add_task(Task task, const std::vector<int>& devices) {
    task.lane = task.kind == TaskKind::copy ? lanes_.of_copy(task.device, task.to) : task.device;
    if (!devices.empty()) {
        task.lane = lanes_.of_ranks(devices).lane;
        auto group = std::find(given_.groups.begin(), given_.groups.end(), devices);
        if (group == given_.groups.end()) group = given_.groups.insert(group, devices);
        task.ranks = static_cast<std::int32_t>(group - given_.groups.begin());
    }
    number(task);
    given_.tasks.push_back(task);
    given_.in_block.push_back(0);
    return static_cast<TaskRef>(given_.tasks.size()) - 1;
}

/// Only what belongs to reshards and sums can happen several times to one tensor on one device.
void TensorLowering::number(Task& task) const {
    if (!is_communication(task.kind) && !is_local_move(task.kind)) return;
    task.ordinal = static_cast<std::int32_t>(
        std::count_if(given_.tasks.begin(), given_.tasks.end(),
                      [&](const Task& other) { return have_one_name(task, other); }));
}

void TensorLowering::add_edge(TaskRef before, TaskRef after) {
    if (before != -1) edges_.emplace_back(after, before);
}

/// The task comes after the places' tasks and reads what lies there.
void TensorLowering::add_work(TaskRef task, const Places& places) {
    for (const Place& place : places) {
        add_edge(place.task, task);
        add_read(task, place.buffer);
        if (place.buffer >= 0 && static_cast<std::size_t>(place.buffer) < readers_.size()) {
            readers_[static_cast<std::size_t>(place.buffer)].push_back(task);
        }
    }
}

/// Reading a view keeps its root alive.
void TensorLowering::add_read(TaskRef task, std::int32_t id) {
    if (id >= 0) reads_.emplace_back(task, id);
    for (; id >= 0; id = buffer(id).root) is_read_[static_cast<std::size_t>(id)] = 1;
}

std::int32_t TensorLowering::add_value(const Subject& subject, const Place& place,
                                       const Piece& piece, Bytes bytes, std::int32_t root,
                                       bool message) {
    given_.buffers.push_back({.device = place.device,
                              .writer = place.task,
                              .bytes = bytes,
                              .tensor = {},
                              .gradient = subject.gradient,
                              .message = message,
                              .micro_batch = subject.micro_batch,
                              .region = piece.region,
                              .summand = piece.summand,
                              .operand = subject.operand,
                              .root = root});
    is_read_.push_back(0);
    return static_cast<std::int32_t>(given_.buffers.size()) - 1;
}

/// Buffers of a workload are part of the memory it gives for the node.
Bytes TensorLowering::buffer_bytes(std::int32_t region) const {
    if (problem_.graph().op(producer_).given || region < 0) return Bytes{0};
    return bytes_of(problem_.graph().tensor(tensor_), regions_.volume(region));
}

}  // namespace partita::plan
