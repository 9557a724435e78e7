// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/communicator.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>
#include <numeric>

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>

#include "base/error.h"
#include "runtime/communicate/combine.h"

namespace partita::runtime {
namespace {

using Messages = c10::SmallVector<Message, 16>;

// Part of a tensor in the order of its elements.
at::Tensor slice(const at::Tensor& tensor, std::int64_t begin, std::int64_t count) {
    return tensor.view(-1).narrow(0, begin, count);
}

std::int64_t begin_of(Counts counts, int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

at::Tensor part_of(const at::Tensor& tensor, Counts counts, int rank) {
    return slice(tensor, begin_of(counts, rank), counts[rank]);
}

[[maybe_unused]] bool fits(const at::Tensor& tensor, std::int64_t count) {
    return tensor.defined() && tensor.is_contiguous() && tensor.numel() == count;
}

[[maybe_unused]] bool fits(const at::Tensor& whole, Counts counts, int ranks) {
    return std::ssize(counts) == ranks && fits(whole, begin_of(counts, ranks));
}

}  // namespace

std::string text_of(std::chrono::nanoseconds time) {
    std::array<char, 32> text{};
    const double value = std::chrono::duration<double>(time).count();
    return {text.data(),
            static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.3g s", value))};
}

std::vector<std::int64_t> even_counts(std::int64_t count, int ranks) {
    std::vector<std::int64_t> counts;
    const std::int64_t part = (count + ranks - 1) / ranks;
    for (int rank = 0; rank < ranks; ++rank) {
        counts.push_back(std::clamp(count - rank * part, std::int64_t{0}, part));
    }
    return counts;
}

Communicator::Communicator(int rank, int size, CommunicatorOptions options)
    : rank_(rank), size_(size), options_(std::move(options)) {
    assert(0 <= rank && rank < size && options_.timeout > std::chrono::nanoseconds{0});
    if (!options_.abort) options_.abort = std::make_shared<Abort>();
}

// What c10 throws inside has to stop the others as well.
template <class Work>
void Communicator::run(std::string_view operation, const Work& work) {
    operation_ = operation;
    deadline_ = std::chrono::steady_clock::now() + options_.timeout;
    stop_if_aborted();
    try {
        work();
    } catch (const c10::Error& error) {
        fail(error.what_without_backtrace());
    }
}

void Communicator::transfer(std::span<const Message> sends, std::span<const Message> receives) {
    assert(std::ranges::all_of(sends, [&](const Message& m) {
        return m.peer != rank_ && 0 <= m.peer && m.peer < size_ && m.tensor.is_contiguous();
    }));
    run("transfer", [&] { do_transfer(sends, receives); });
}

void Communicator::send(const at::Tensor& tensor, int to) {
    const Message message{.tensor = tensor, .peer = to};
    run("send", [&] { do_transfer({&message, 1}, {}); });
}

void Communicator::receive(const at::Tensor& tensor, int from) {
    const Message message{.tensor = tensor, .peer = from};
    run("receive", [&] { do_transfer({}, {&message, 1}); });
}

void Communicator::exchange(const at::Tensor& out, int to, const at::Tensor& in, int from) {
    const Message send{.tensor = out, .peer = to};
    const Message receive{.tensor = in, .peer = from};
    run("exchange", [&] { do_transfer({&send, 1}, {&receive, 1}); });
}

void Communicator::broadcast(const at::Tensor& tensor, int root) {
    assert(fits(tensor, tensor.numel()) && 0 <= root && root < size_);
    run("broadcast", [&] {
        if (size_ > 1) do_broadcast(tensor, root);
    });
}

void Communicator::scatter(const at::Tensor& out, const at::Tensor& in, Counts counts, int root) {
    assert(fits(out, counts[rank_]) && (rank_ != root || fits(in, counts, size_)));
    run("scatter", [&] {
        if (rank_ != root) {
            const Message message{.tensor = out, .peer = root};
            return do_transfer({}, {&message, 1});
        }
        Messages sends;
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != root) sends.push_back({part_of(in, counts, peer), peer});
        }
        copy_tensor(out, part_of(in, counts, root));
        do_transfer(sends, {});
    });
}

void Communicator::gather(const at::Tensor& out, const at::Tensor& in, Counts counts, int root) {
    assert(fits(in, counts[rank_]) && (rank_ != root || fits(out, counts, size_)));
    run("gather", [&] {
        if (rank_ != root) {
            const Message message{.tensor = in, .peer = root};
            return do_transfer({&message, 1}, {});
        }
        Messages receives;
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != root) receives.push_back({part_of(out, counts, peer), peer});
        }
        copy_tensor(part_of(out, counts, root), in);
        do_transfer({}, receives);
    });
}

void Communicator::all_gather(const at::Tensor& out, const at::Tensor& in, Counts counts) {
    assert(fits(out, counts, size_) && fits(in, counts[rank_]));
    run("all-gather", [&] {
        copy_tensor(part_of(out, counts, rank_), in);
        if (size_ > 1) do_all_gather(out, counts);
    });
}

void Communicator::all_to_all(const at::Tensor& out, Counts out_counts, const at::Tensor& in,
                              Counts in_counts) {
    assert(fits(out, out_counts, size_) && fits(in, in_counts, size_));
    run("all-to-all", [&] {
        Messages sends;
        Messages receives;
        for (int step = 1; step < size_; ++step) {  // each rank begins with its neighbour
            const int to = (rank_ + step) % size_;
            const int from = (rank_ + size_ - step) % size_;
            sends.push_back({part_of(in, in_counts, to), to});
            receives.push_back({part_of(out, out_counts, from), from});
        }
        copy_tensor(part_of(out, out_counts, rank_), part_of(in, in_counts, rank_));
        do_transfer(sends, receives);
    });
}

void Communicator::all_reduce(const at::Tensor& tensor, graph::Combine how) {
    assert(fits(tensor, tensor.numel()));
    run("all-reduce", [&] {
        if (size_ > 1) do_all_reduce(tensor, how);
    });
}

void Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                                  graph::Combine how) {
    assert(fits(out, counts[rank_]) && fits(in, counts, size_));
    run("reduce-scatter", [&] {
        if (size_ > 1) return do_reduce_scatter(out, in, counts, how);
        copy_tensor(out, in);
    });
}

void Communicator::reduce(const at::Tensor& tensor, graph::Combine how, int root) {
    assert(fits(tensor, tensor.numel()) && 0 <= root && root < size_);
    run("reduce", [&] {
        if (size_ > 1) do_reduce(tensor, how, root);
    });
}

void Communicator::barrier() {
    run("barrier", [&] {
        if (size_ > 1) do_barrier();
    });
}

void Communicator::wait() {
    run("wait", [&] {
        if (size_ > 1) do_wait();
    });
}

void Communicator::abort(std::string_view reason) {
    options_.abort->raise(std::string(reason));
}

// Scatter, then all-gather: 2 (n - 1) / n of the tensor for every rank, the root included.
void Communicator::do_broadcast(const at::Tensor& tensor, int root) {
    const std::vector<std::int64_t> counts = even_counts(tensor.numel(), size_);
    const at::Tensor own = part_of(tensor, counts, rank_);
    if (rank_ == root) {
        Messages sends;
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != root) sends.push_back({part_of(tensor, counts, peer), peer});
        }
        do_transfer(sends, {});
    } else {
        const Message message{.tensor = own, .peer = root};
        do_transfer({}, {&message, 1});
    }
    do_all_gather(tensor, counts);
}

void Communicator::do_all_gather(const at::Tensor& out, Counts counts) {
    const at::Tensor own = part_of(out, counts, rank_);
    Messages sends;
    Messages receives;
    for (int step = 1; step < size_; ++step) {
        const int from = (rank_ + size_ - step) % size_;
        sends.push_back({own, (rank_ + step) % size_});
        receives.push_back({part_of(out, counts, from), from});
    }
    do_transfer(sends, receives);
}

void Communicator::do_all_reduce(const at::Tensor& tensor, graph::Combine how) {
    const std::vector<std::int64_t> counts = even_counts(tensor.numel(), size_);
    const at::Tensor own = part_of(tensor, counts, rank_);
    do_reduce_scatter(own, tensor, counts, how);
    do_all_gather(tensor, counts);
}

// Everyone's values of the own part come here, and combine in the order of ranks.
void Communicator::do_reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                                     graph::Combine how) {
    c10::SmallVector<at::Tensor, 16> parts;
    Messages sends;
    Messages receives;
    for (int peer = 0; peer < size_; ++peer) {
        const at::Tensor own = part_of(in, counts, peer);
        parts.push_back(peer == rank_ ? own : at::empty({counts[rank_]}, in.options()));
        if (peer == rank_) continue;
        sends.push_back({own, peer});
        receives.push_back({parts.back(), peer});
    }
    do_transfer(sends, receives);
    const at::Tensor result = out.view(-1);
    combine({&result, 1}, parts, how);
}

void Communicator::do_reduce(const at::Tensor& tensor, graph::Combine how, int root) {
    const std::vector<std::int64_t> counts = even_counts(tensor.numel(), size_);
    const bool is_root = rank_ == root;
    const at::Tensor own =
        is_root ? part_of(tensor, counts, rank_) : at::empty({counts[rank_]}, tensor.options());
    do_reduce_scatter(own, tensor, counts, how);
    if (!is_root) {
        const Message message{.tensor = own, .peer = root};
        return do_transfer({&message, 1}, {});
    }
    Messages receives;
    for (int peer = 0; peer < size_; ++peer) {
        if (peer != root) receives.push_back({part_of(tensor, counts, peer), peer});
    }
    do_transfer({}, receives);
}

// Dissemination (Hensgen, Finkel, Manber, IJPP 17, 1988): after round k everyone has heard,
// directly or not, from the 2^k ranks before him.
void Communicator::do_barrier() {
    const at::Tensor out = at::zeros({1}, at::kByte);
    const at::Tensor in = at::zeros({1}, at::kByte);
    for (int step = 1; step < size_; step *= 2) {
        const Message send{.tensor = out, .peer = (rank_ + step) % size_};
        const Message receive{.tensor = in, .peer = (rank_ + size_ - step) % size_};
        do_transfer({&send, 1}, {&receive, 1});
    }
}

bool Communicator::is_late() const {
    return std::chrono::steady_clock::now() > deadline_;
}

bool Communicator::is_aborted() const {
    return options_.abort->raised();
}

void Communicator::stop_if_aborted() const {
    if (!is_aborted()) return;
    fail("stopped, because of: " + options_.abort->reason());
}

void Communicator::time_out(std::span<const int> missing) const {
    std::string who;
    for (const int rank : missing) who += (who.empty() ? "" : ", ") + name_of(rank);
    fail(who + " did not come within " + text_of(options_.timeout) +
         ". See what it reported, or allow more time with --timeout.");
}

void Communicator::fail(std::string_view what) const {
    std::string message = "rank " + std::to_string(rank_) + " of " + std::to_string(size_);
    if (!options_.names.empty()) message += " (" + options_.names[rank_] + ")";
    if (!label_.empty()) message += ", " + label_;
    message += ": " + std::string(operation_) + ": " + std::string(what);
    options_.abort->raise(message);
    throw DeviceError(message);
}

std::string Communicator::name_of(int rank) const {
    const std::string name = "rank " + std::to_string(rank);
    return options_.names.empty() ? name : name + " (" + options_.names[rank] + ")";
}

}  // namespace partita::runtime
