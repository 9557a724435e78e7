// SPDX-License-Identifier: Apache-2.0
//
// Gradients by duality: the layouts of gradients follow from those of the operands and results
// (layout.h), so this file knows neither data nor tensor parallelism. Contributions of several
// consumers are added where they arise only if their layouts are equal; the others are resharded to
// the layout that is wanted first (RULES.md 13).
#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/lowering.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

/// Notes what the parts of an op give to the gradient of an operand.
void Lowering::give(OpId by, std::size_t operand, int micro_batch, std::int32_t layout,
                    const std::vector<TaskId>& tasks) {
    Form form{.layout = layout, .pieces = {}, .operand = static_cast<int>(operand)};
    const Layout& given = layouts_[layout];
    for (std::size_t part = 0; part < tasks.size(); ++part) {
        form.pieces.emplace_back();
        if (given.pieces[part].region < 0) continue;
        form.pieces.back().push_back({.device = given.pieces[part].device, .task = tasks[part]});
    }
    state(graph_.op(by).inputs[operand], micro_batch).pending.push_back(std::move(form));
}

/// Buffers for contributions that have none yet.
void Lowering::allocate(Form& form, const Subject& subject, bool persistent) {
    const Layout& layout = layouts_[form.layout];
    for (std::size_t i = 0; i < form.pieces.size(); ++i) {
        for (Place& place : form.pieces[i]) {
            if (place.buffer >= 0) continue;
            const Piece& piece = layout.pieces[i];
            const Bytes bytes = persistent ? Bytes{0} : buffer_bytes(subject.tensor, piece.region);
            Subject of = subject;
            of.operand = form.operand;
            place.buffer = add_value(of, place, piece, bytes);
        }
    }
}

/// A sum of what blocks of this device give belongs to the last of these blocks; any other to none.
std::int32_t Lowering::turn_of_sum(const Places& places, int device) const {
    std::int32_t turn = -1;
    for (const Place& place : places) {
        if (place.task < 0) return -1;
        const Task& task = build_.task(place.task);
        if (task.device != device || task.turn < 0) return -1;
        turn = std::max(turn, task.turn);
    }
    return turn;
}

/// Adds values that lie on one device, in place where the first of them covers the piece and nobody
/// else reads it.
Places Lowering::sum_of_places(Places places, const Subject& subject, const Piece& piece,
                               graph::Combine combine, bool persistent) {
    const int device = places[0].device;
    const bool in_place =
        build_.buffer(places[0].buffer).region == piece.region && !build_.is_read(places[0].buffer);
    const std::int64_t volume = build_.regions().volume(piece.region);
    const auto adds = static_cast<std::int64_t>(places.size()) - 1;
    const TaskId task = build_.add_task(
        {.kind = TaskKind::accumulate,
         .gradient = subject.gradient,
         .op = graph_.tensor(subject.tensor).producer,
         .tensor = subject.tensor,
         .device = device,
         .micro_batch = subject.micro_batch,
         .turn = turn_of_sum(places, device),
         .duration = adds * problem_.accumulate_time(subject.tensor, volume, device),
         .combine = combine});
    for (const Place& place : places) {
        build_.add_edge(place.task, task);
        build_.add_read(task, place.buffer);
    }
    const bool allocates = !persistent && !in_place;
    Place sum{.device = device, .task = task};
    sum.buffer = add_value(subject, sum, piece,
                           allocates ? buffer_bytes(subject.tensor, piece.region) : Bytes{0},
                           persistent || !in_place ? -1 : places[0].buffer);
    return {sum};
}

/// Forms of equal layout, added piece by piece.
Form Lowering::sum_of(const std::vector<Form>& forms, const Subject& subject, bool persistent) {
    Form sum{.layout = forms[0].layout, .pieces = {}};
    const Layout& layout = layouts_[sum.layout];
    for (std::size_t i = 0; i < layout.pieces.size(); ++i) {
        Places places;
        for (const Form& form : forms) {
            places.insert(places.end(), form.pieces[i].begin(), form.pieces[i].end());
        }
        const bool alone = forms.size() == 1 || places.size() < 2;
        sum.pieces.push_back(alone ? std::move(places)
                                   : sum_of_places(std::move(places), subject, layout.pieces[i],
                                                   graph::Combine::sum, persistent));
    }
    return sum;
}

namespace {

/// Forms of equal layout together, in order of appearance.
std::vector<std::vector<Form>> by_layout(std::vector<Form> forms) {
    std::vector<std::vector<Form>> groups;
    for (Form& form : forms) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
            return group[0].layout == form.layout;
        });
        if (same == groups.end()) {
            groups.push_back({std::move(form)});
        } else {
            same->push_back(std::move(form));
        }
    }
    return groups;
}

}  // namespace

/// The gradient in that layout: what lies so already and what is resharded to it, added.
Form Lowering::take_gradient(TensorId t, int micro_batch, std::int32_t layout, bool persistent) {
    const Subject subject{.tensor = t, .micro_batch = label(t, micro_batch), .gradient = true};
    std::vector<Form> pending = std::exchange(state(t, micro_batch).pending, {});
    assert(!pending.empty());
    const bool lone = pending.size() == 1;
    std::vector<Form> arrived;
    std::vector<Form> others;
    for (Form& form : pending) {
        const bool here = form.layout == layout;
        allocate(form, subject, here && persistent && lone);
        (here ? arrived : others).push_back(std::move(form));
    }
    for (const std::vector<Form>& group : by_layout(std::move(others))) {
        arrived.push_back(reshard(sum_of(group, subject, false), layout, subject));
    }
    return sum_of(arrived, subject, persistent);
}

/// Adds up what lies in equal layouts, between two micro-batches. What comes first in a layout is the
/// accumulator, whose bytes may be persistent.
void Lowering::fold_pending(TensorId t, int micro_batch, bool persistent) {
    TensorState& tensor = state(t, micro_batch);
    // Each micro-batch gives its own, to a tensor too that is the same for all.
    const int m = micro_batches_ > 1 ? micro_batch : -1;
    const Subject subject{.tensor = t, .micro_batch = m, .gradient = true};
    for (std::size_t i = 0; i < tensor.pending.size(); ++i) {
        Form& form = tensor.pending[i];
        const auto end = tensor.pending.begin() + static_cast<std::ptrdiff_t>(i);
        const bool first = std::none_of(tensor.pending.begin(), end, [&](const Form& other) {
            return other.layout == form.layout;
        });
        allocate(form, subject, persistent && first);
    }
    for (const std::vector<Form>& group : by_layout(std::exchange(tensor.pending, {}))) {
        tensor.pending.push_back(sum_of(group, subject, false));
    }
}

void Lowering::lower_backward(OpId id, int micro_batch) {
    const Op& op = graph_.op(id);
    if (op.kind == OpKind::parameter) {
        lower_parameter(id, micro_batch);
        return;
    }
    if (!problem_.has_backward(id)) return;
    if (!ends_in(id, micro_batch)) {
        for (const TensorId t : op.outputs) {
            if (problem_.has_gradient(t)) fold_pending(t, micro_batch, false);
        }
        return;
    }
    if (op.kind == OpKind::output) {
        lower_loss(id, micro_batch);
        return;
    }
    const int own = problem_.is_batched(id) ? micro_batch : 0;
    const OpLayouts& layouts = layouts_of(id, own);
    const graph::OpRule& rule = problem_.rule(id);
    std::vector<Form> gradients;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (!problem_.has_gradient(op.outputs[i])) continue;
        const std::int32_t wanted = layouts.result_gradients[i];
        gradients.push_back(take_gradient(op.outputs[i], own, wanted, false));
    }
    std::vector<Pieces> saved;
    std::vector<Pieces> fetched;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const bool is_saved = i >= 64 || ((rule.saves_operands >> i) & 1U) != 0;
        if (!op.inputs[i].valid() || !is_saved) continue;
        const bool again = strategy_.update(graph_.tensor(op.inputs[i]).producer).refetch;
        (again ? fetched : saved)
            .push_back(form(op.inputs[i], own, layouts.operands[i], true).pieces);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const bool is_saved = i >= 64 || ((rule.saves_results >> i) & 1U) != 0;
        if (!is_saved) continue;
        // Combined, where the parts' results are partial: RULES.md 12.
        const std::int32_t whole = layouts.result_gradients[i];
        fetched.push_back(form(op.outputs[i], own, whole, true).pieces);
    }
    const DeviceSet& devices = strategy_.config(id).devices;
    const auto& forward = forward_[id.index() * static_cast<std::size_t>(micro_batches_) +
                                   static_cast<std::size_t>(own)];
    std::vector<TaskId> tasks;
    for (std::size_t part = 0; part < forward.size(); ++part) {
        const int device = devices[static_cast<int>(part)];
        const auto device_class = static_cast<std::size_t>(problem_.device_class(device));
        const TaskId task = build_.add_task({.kind = TaskKind::backward,
                                             .op = id,
                                             .tensor = {},
                                             .device = device,
                                             .part = build_.task(forward[part]).part,
                                             .micro_batch = build_.task(forward[part]).micro_batch,
                                             .turn = turns_.of(id, own, true),
                                             .duration = layouts.backward[device_class]});
        build_.add_edge(forward[part], task);
        for (const Form& gradient : gradients) add_work(task, gradient.pieces[part]);
        for (const Pieces& pieces : fetched) add_work(task, pieces[part]);
        // What the forward had is there: the backward comes after it.
        for (const Pieces& pieces : saved) add_reads(task, pieces[part]);
        tasks.push_back(task);
    }
    note_readers(tasks);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid() || !problem_.has_gradient(op.inputs[i])) continue;
        give(id, i, own, layouts.operand_gradients[i], tasks);
    }
}

void Lowering::lower_loss(OpId id, int micro_batch) {
    const Op& op = graph_.op(id);
    const OpLayouts& layouts = layouts_of(id, micro_batch);
    const Pieces value = form(op.inputs[0], micro_batch, layouts.operands[0], true).pieces;
    std::vector<TaskId> tasks;
    for (int part = 0; part < layouts.parts; ++part) {
        const int device = strategy_.config(id).devices[part];
        const auto device_class = static_cast<std::size_t>(problem_.device_class(device));
        tasks.push_back(build_.add_task({.kind = TaskKind::loss,
                                         .op = id,
                                         .tensor = {},
                                         .device = device,
                                         .part = layouts.parts > 1 ? part : -1,
                                         .micro_batch = label(id, micro_batch),
                                         .turn = turns_.of(id, micro_batch, true),
                                         .duration = layouts.backward[device_class]}));
        add_work(tasks.back(), value[static_cast<std::size_t>(part)]);
    }
    give(id, 0, micro_batch, layouts.operand_gradients[0], tasks);
}

/// What a micro-batch adds to the accumulator of a parameter; after the last one its update.
void Lowering::lower_parameter(OpId id, int micro_batch) {
    const TensorId t = graph_.op(id).outputs[0];
    if (!problem_.has_gradient(t)) return;
    const UpdateConfig& update = strategy_.update(id);
    const OpConfig& config = update.update.devices.empty() ? strategy_.config(id) : update.update;
    const std::int32_t updated = cache_.of(id, config, micro_batches_, micro_batch).results[0];
    const TaskId begin = build_.task_count();
    if (update.accumulate_locally) {
        fold_pending(t, micro_batch, true);
    } else if (!state(t, micro_batch).pending.empty()) {
        // Readers that do not depend on the batch give nothing before the last micro-batch.
        state(t, micro_batch).pending = {take_gradient(t, micro_batch, updated, true)};
    }
    if (update.refetch) note_gradient(t, {begin, build_.task_count()});
    if (micro_batch + 1 < micro_batches_) return;
    if (update.accumulate_locally) {
        for (const Form& form : state(t, 0).pending) {
            for (const Piece& piece : layouts_[form.layout].pieces) {
                if (piece.region < 0) continue;
                build_.add_persistent(piece.device, buffer_bytes(t, piece.region));
            }
        }
    }
    lower_update(id, take_gradient(t, micro_batch, updated, true));
}

void Lowering::lower_update(OpId id, const Form& gradient) {
    const TensorId t = graph_.op(id).outputs[0];
    const Subject subject{.tensor = t, .updated = true};
    const Form& home = state(t, 0).forms.front();
    const bool local = strategy_.update(id).accumulate_locally;
    Form updated{.layout = gradient.layout, .pieces = {}};
    const auto wait_for_readers = [&](TaskId task, int device) {
        for (const auto& places : home.pieces) {
            if (places[0].device != device) continue;
            for (const TaskId reader : readers_[places[0].buffer]) {
                if (reader != task) build_.add_edge(reader, task);
            }
        }
    };
    for (std::size_t i = 0; i < gradient.pieces.size(); ++i) {
        const Piece& piece = layouts_[gradient.layout].pieces[i];
        const std::int64_t elements = build_.regions().volume(piece.region);
        const bool whole = elements == graph_.tensor(t).elements();
        const TaskId task =
            build_.add_task({.kind = TaskKind::update,
                             .op = id,
                             .tensor = t,
                             .device = piece.device,
                             .part = gradient.pieces.size() > 1 ? static_cast<std::int32_t>(i) : -1,
                             .duration = whole ? problem_.update_time(id, piece.device)
                                               : problem_.update_time(id, elements, piece.device)});
        for (const Place& place : gradient.pieces[i]) {
            build_.add_edge(place.task, task);
            build_.add_read(task, place.buffer);
        }
        // In place, so every reader of the old value comes first.
        wait_for_readers(task, piece.device);
        Place place{.device = piece.device, .task = task};
        place.buffer = add_value(subject, place, piece, Bytes{0});
        updated.pieces.push_back({place});
        if (!local) build_.add_persistent(piece.device, buffer_bytes(t, piece.region));
        build_.add_persistent(piece.device,
                              optimizer_state_bytes(graph_.tensor(t), elements, strategy_.policy));
    }
    const Form everywhere = reshard(updated, home.layout, subject);
    for (const auto& places : everywhere.pieces) {
        for (const Place& place : places) wait_for_readers(place.task, place.device);
    }
}

}  // namespace partita::plan
