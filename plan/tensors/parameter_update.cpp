// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/parameter_update.h"

#include <cstddef>
#include <span>

#include "plan/problem/op_costs.h"

namespace partita::plan {

void ParameterUpdate::update(const Instance& gradient) {
    const Instance updated = values_.next_instance(gradient.layout);
    const std::span<const Piece> pieces = tensor_.pieces(gradient.layout);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const std::int32_t part = pieces.size() > 1 ? static_cast<std::int32_t>(i) : -1;
        const Location location = update_piece(pieces[i], part, values_.piece(gradient, i));
        values_.add_piece(values_.add_location(location));
    }
    const Instance distributed =
        reshards_.reshard(updated, instances_.produced().layout, {.updated = true});
    const std::size_t count = tensor_.pieces(distributed.layout).size();
    for (std::size_t i = 0; i < count; ++i) {
        for (const Location& location : values_[values_.piece(distributed, i)]) {
            emitter_.wait_for_readers(location.task, location.device);
        }
    }
}

Location ParameterUpdate::update_piece(const Piece& piece, std::int32_t part, Locations gradient) {
    Task task{
        .kind = TaskKind::update, .op = {}, .tensor = {}, .device = piece.device, .part = part};
    set_price(task, update_price(piece));
    const TaskRef id = emitter_.add_task(task);
    emitter_.add_inputs(id, values_[gradient]);
    // In place, so every reader of the old value comes first.
    emitter_.wait_for_readers(id, piece.device);
    Location location{.device = piece.device, .task = id};
    location.buffer = emitter_.add_buffer(buffer_of({.updated = true}, location, piece, Bytes{0}));
    const TensorKey& key = tensor_.key();
    if (!key.accumulate_locally) {
        emitter_.add_persistent(piece.device, MemoryKind::gradients,
                                tensor_.buffer_bytes(piece.region, /*gradient=*/true));
    }
    emitter_.add_persistent(piece.device, MemoryKind::optimizer,
                            optimizer_state_bytes(problem_.graph().tensor(tensor_.id()),
                                                  tensor_.elements(piece.region), key.optimizer));
    return location;
}

cost::Price ParameterUpdate::update_price(const Piece& piece) {
    const std::int64_t elements = tensor_.elements(piece.region);
    const int device_class = problem_.prices().device_class(piece.device);
    return prices_.of(TaskKind::update, elements, device_class, [&] {
        return elements == problem_.graph().tensor(tensor_.id()).elements()
                   ? problem_.prices().update_price(tensor_.producer(), piece.device)
                   : problem_.prices().update_price(tensor_.producer(), elements, piece.device);
    });
}

}  // namespace partita::plan
