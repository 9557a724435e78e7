// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/send_work.h"

#include <utility>

#include <ATen/Functions.h>

namespace partita::runtime {

SendWork::SendWork(Exchange& exchange, const plan::TaskGraph& tasks,
                   std::span<const std::int32_t> messages)
    : exchange_(exchange) {
    for (const std::int32_t place : messages) {
        const TaskMessage& message = exchange.messages().out[static_cast<std::size_t>(place)];
        const plan::Buffer& buffer = tasks.buffers[message.buffer.index()];
        const graph::Region& held = (*tasks.regions)[buffer.region];
        Piece piece{.message = place, .buffer = message.buffer, .whole = held == message.region};
        if (!piece.whole) {
            piece.extents = extents_of(message.region);
            piece.patch = Patch(held, message.region);
        }
        pieces_.push_back(std::move(piece));
    }
}

void SendWork::run(Store& store) {
    for (const Piece& piece : pieces_) {
        const at::Tensor& all = store[piece.buffer];
        if (piece.whole) {
            exchange_.send(piece.message, all);
        } else if (piece.patch.is_box()) {
            exchange_.send(piece.message, piece.patch.view_of(all));
        } else {
            const at::Tensor packed = at::empty(piece.extents, all.options());
            piece.patch.copy(packed, all);
            exchange_.send(piece.message, packed);
        }
    }
}

}  // namespace partita::runtime
