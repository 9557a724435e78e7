// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/send_work.h"

#include <utility>

#include <ATen/Functions.h>

namespace partita::runtime {

SendWork::SendWork(Exchange& exchange, const plan::TaskGraph& tasks,
                   std::span<const std::int32_t> letters)
    : exchange_(exchange) {
    for (const std::int32_t place : letters) {
        const Letter& letter = exchange.mail().out[static_cast<std::size_t>(place)];
        const plan::Buffer& buffer = tasks.buffers[static_cast<std::size_t>(letter.buffer)];
        const graph::Region& held = (*tasks.regions)[buffer.region];
        Piece piece{.letter = place, .buffer = letter.buffer, .whole = held == letter.region};
        if (!piece.whole) {
            piece.extents = extents_of(letter.region);
            piece.patch = Patch(held, letter.region);
        }
        pieces_.push_back(std::move(piece));
    }
}

void SendWork::run(Store& store) {
    for (const Piece& piece : pieces_) {
        const at::Tensor& all = store[piece.buffer];
        if (piece.whole) {
            exchange_.post(piece.letter, all);
        } else if (piece.patch.is_box()) {
            exchange_.post(piece.letter, piece.patch.view_of(all));
        } else {
            const at::Tensor packed = at::empty(piece.extents, all.options());
            piece.patch.copy(packed, all);
            exchange_.post(piece.letter, packed);
        }
    }
}

}  // namespace partita::runtime
