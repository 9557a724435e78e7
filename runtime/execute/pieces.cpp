// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/Functions.h>

#include "runtime/execute/patch.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::TensorId;

namespace {

/// What is said of a piece before it is sent: tensor, region, place, type and number of extents.
constexpr std::int64_t kFacts = 5;

at::Tensor longs(const std::vector<std::int64_t>& numbers) {
    const at::Tensor tensor = at::empty({std::ssize(numbers)}, at::kLong);
    std::ranges::copy(numbers, tensor.mutable_data_ptr<std::int64_t>());
    return tensor;
}

std::vector<std::int64_t> received_longs(Communicator& world, int from, std::int64_t count) {
    const at::Tensor tensor = at::empty({count}, at::kLong);
    world.receive(tensor, from);
    const auto* const first = tensor.const_data_ptr<std::int64_t>();
    return {first, first + count};
}

void send_pieces(Communicator& world, const std::vector<Piece>& pieces) {
    world.send(longs({std::ssize(pieces)}), 0);
    for (const Piece& piece : pieces) {
        const at::Tensor value = piece.value.detach().to(at::kCPU).contiguous();
        world.send(longs({static_cast<std::int64_t>(piece.tensor.value), piece.region, piece.place,
                          static_cast<std::int64_t>(value.scalar_type()), value.dim()}),
                   0);
        world.send(longs(value.sizes().vec()), 0);
        world.send(value, 0);
    }
}

Piece received_piece(Communicator& world, int from) {
    const auto facts = received_longs(world, from, kFacts);
    Piece piece{.tensor = TensorId{static_cast<std::uint32_t>(facts[0])},
                .region = static_cast<std::int32_t>(facts[1]),
                .place = facts[2],
                .value = {}};
    const auto extents = received_longs(world, from, facts[4]);
    piece.value = at::empty(extents, static_cast<at::ScalarType>(facts[3]));
    world.receive(piece.value, from);
    return piece;
}

}  // namespace

std::vector<graph::HostTensor> assembled(const graph::OpGraph& graph,
                                         const plan::RegionTable& regions,
                                         std::vector<Piece> pieces) {
    std::ranges::stable_sort(pieces, {}, &Piece::place);
    std::map<std::uint32_t, at::Tensor> wholes;
    for (const Piece& piece : pieces) {
        const graph::Tensor& tensor = graph.tensor(piece.tensor);
        at::Tensor& whole = wholes[piece.tensor.value];
        const graph::Region all = graph::whole_region(tensor.shape);
        if (regions[piece.region] == all) {  // may be smaller: an extent that depends on data
            whole = piece.value.detach().to(at::kCPU);
            continue;
        }
        if (!whole.defined()) {
            whole = at::zeros(tensor.shape, piece.value.options().device(at::kCPU));
        }
        Patch(regions[piece.region], all).copy(whole, piece.value);
    }
    std::vector<graph::HostTensor> tensors;
    for (const auto& [id, whole] : wholes) {
        const graph::Tensor& tensor = graph.tensor(TensorId{id});
        // A gradient may be of another type.
        const bool own = scalar_type_of(tensor.dtype) == whole.scalar_type();
        tensors.push_back(to_host(whole, own ? tensor.dtype : dtype_of(whole.scalar_type())));
        tensors.back().name = tensor.name;
    }
    return tensors;
}

std::vector<Piece> gathered(Communicator& world, std::vector<Piece> mine) {
    world.set_label("results");
    if (world.rank() != 0) {
        send_pieces(world, mine);
        return {};
    }
    for (int from = 1; from < world.size(); ++from) {
        const auto count = received_longs(world, from, 1)[0];
        for (std::int64_t i = 0; i < count; ++i) mine.push_back(received_piece(world, from));
    }
    return mine;
}

}  // namespace partita::runtime
