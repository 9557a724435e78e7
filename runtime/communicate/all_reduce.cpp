// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/all_reduce.h"

#include <algorithm>
#include <array>
#include <bit>

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>

#include "runtime/communicate/combine.h"

namespace partita::runtime {
namespace {

using graph::Combine;

struct Window {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    [[nodiscard]] at::Tensor of(const at::Tensor& tensor) const {
        return tensor.narrow(0, begin, end - begin);
    }
};

// `sum` combined with what the peer has in the same place, while it gets `out`.
void exchange_and_combine(Communicator& communicator, int peer, const at::Tensor& out,
                          const at::Tensor& sum, Combine how) {
    const at::Tensor received = at::empty_like(sum);
    communicator.exchange(out, peer, received, peer);
    combine_with(sum, received, how);
}

void ring(Communicator& communicator, const at::Tensor& sum, Combine how) {
    const int ranks = communicator.size();
    const int rank = communicator.rank();
    const int next = (rank + 1) % ranks;
    const int before = (rank + ranks - 1) % ranks;
    const std::int64_t length = (sum.numel() + ranks - 1) / ranks;
    const auto part = [&](int index) {
        const std::int64_t begin = (index + 2 * ranks) % ranks * length;
        return Window{std::min(begin, sum.numel()), std::min(begin + length, sum.numel())}.of(sum);
    };
    const at::Tensor scratch = at::empty({length}, sum.options());
    for (int step = 0; step < ranks - 1; ++step) {  // reduce-scatter: part rank + 1 becomes whole
        const at::Tensor mine = part(rank - step - 1);
        const at::Tensor received = scratch.narrow(0, 0, mine.numel());
        communicator.exchange(part(rank - step), next, received, before);
        combine_with(mine, received, how);
    }
    for (int step = 0; step < ranks - 1; ++step) {  // all-gather
        communicator.exchange(part(rank + 1 - step), next, part(rank - step), before);
    }
}

// In round k ranks whose lowest set bit is k send to the rank without it; then the same way back.
void tree(Communicator& communicator, const at::Tensor& sum, Combine how) {
    const int rank = communicator.rank();
    const int ranks = communicator.size();
    const int lowest =
        rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
    for (int bit = 1; bit < lowest; bit *= 2) {
        if (rank + bit >= ranks) break;
        const at::Tensor received = at::empty_like(sum);
        communicator.receive(received, rank + bit);
        combine_with(sum, received, how);
    }
    if (rank != 0) {
        communicator.send(sum, rank - lowest);
        communicator.receive(sum, rank - lowest);
    }
    for (int bit = lowest / 2; bit > 0; bit /= 2) {
        if (rank + bit < ranks) communicator.send(sum, rank + bit);
    }
}

// Lets `work` run on 2^k ranks: those beyond give their values to a partner, and get the result.
template <class Work>
void folded(Communicator& communicator, const at::Tensor& sum, Combine how, const Work& work) {
    const int rank = communicator.rank();
    const int ranks = static_cast<int>(std::bit_floor(static_cast<unsigned>(communicator.size())));
    if (rank >= ranks) {
        communicator.send(sum, rank - ranks);
        communicator.receive(sum, rank - ranks);
        return;
    }
    const bool has_partner = rank + ranks < communicator.size();
    if (has_partner) {
        const at::Tensor received = at::empty_like(sum);
        communicator.receive(received, rank + ranks);
        combine_with(sum, received, how);
    }
    work(ranks);
    if (has_partner) communicator.send(sum, rank + ranks);
}

void butterfly(Communicator& communicator, const at::Tensor& sum, Combine how) {
    folded(communicator, sum, how, [&](int ranks) {
        for (int bit = 1; bit < ranks; bit *= 2) {
            exchange_and_combine(communicator, communicator.rank() ^ bit, sum, sum, how);
        }
    });
}

void halving_doubling(Communicator& communicator, const at::Tensor& sum, Combine how) {
    folded(communicator, sum, how, [&](int ranks) {
        struct Round {
            int peer = 0;
            Window kept;
            Window given;
        };
        c10::SmallVector<Round, 16> rounds;
        Window window{0, sum.numel()};
        for (int bit = ranks / 2; bit > 0; bit /= 2) {
            const std::int64_t middle = window.begin + (window.end - window.begin + 1) / 2;
            Window kept{window.begin, middle};
            Window given{middle, window.end};
            if ((communicator.rank() & bit) != 0) std::swap(kept, given);
            const int peer = communicator.rank() ^ bit;
            exchange_and_combine(communicator, peer, given.of(sum), kept.of(sum), how);
            rounds.push_back({peer, kept, given});
            window = kept;
        }
        for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
            communicator.exchange(round->kept.of(sum), round->peer, round->given.of(sum),
                                  round->peer);
        }
    });
}

constexpr std::array kAlgorithms = {
    AllReduceRow{cost::Algorithm::ring, ring},
    AllReduceRow{cost::Algorithm::tree, tree},
    AllReduceRow{cost::Algorithm::butterfly, butterfly},
    AllReduceRow{cost::Algorithm::halving_doubling, halving_doubling},
};

}  // namespace

std::span<const AllReduceRow> all_reduce_algorithms() {
    return kAlgorithms;
}

void all_reduce(Communicator& communicator, const at::Tensor& tensor, Combine how,
                cost::Algorithm algorithm) {
    const auto* const row = std::ranges::find(kAlgorithms, algorithm, &AllReduceRow::algorithm);
    if (row == kAlgorithms.end() || communicator.size() == 1) {
        return communicator.all_reduce(tensor, how);
    }
    const at::Tensor sum = start_combining(tensor, how, tensor.device());
    row->run(communicator, sum, how);
    finish_combining(tensor, sum, how);
}

at::Tensor all_reduced(Communicator& communicator, const at::Tensor& tensor, Combine how,
                       cost::Algorithm algorithm) {
    at::Tensor result = tensor.clone(at::MemoryFormat::Contiguous);
    all_reduce(communicator, result, how, algorithm);
    return result;
}

}  // namespace partita::runtime
