// SPDX-License-Identifier: Apache-2.0
//
// What a group of ranks moves and combines between its tensors: one object per rank of a group, one
// interface, and behind it
//
//     NCCL      one GPU per rank                                          nccl_communicator.h
//     mailbox   any ranks between which numbered messages pass, by MPI    mailbox_communicator.h
//               (mpi_mailbox.h) or a TCP store (store_mailbox.h) also in
//               several processes or hosts
//     threads   ranks are threads of one process: for tests, in tests/runtime/communicate/
//
// Every rank of the group calls the same operations in the same order; nothing has a tag. Tensors
// are contiguous, of one type on all ranks, and of any shape: only the order of their elements
// counts. Parts of a tensor may differ by rank (counts), and be empty.
//
//     transfer    any number of sends and receives at once; send, receive, exchange: one of each
//     move        broadcast, scatter, gather, all_gather, all_to_all
//     combine     all_reduce, reduce_scatter, reduce (combine.h)
//
// Values combine in the order of ranks, and sums of small floats are rounded once, so that every
// rank and every communicator but NCCL gives the same bits. Rings, trees and butterflies:
// all_reduce.h.
//
// When an operation returns, the caller may change what it gave, and has what it is given: on the
// CPU at once; on a GPU in the order of the calling thread's current stream of the tensor's device.
//
// Fails with DeviceError, which names rank, label, operation and peer: a peer did not come within
// the time-out, or came with another operation, size or type (another plan); the library below
// failed; a tensor cannot be combined that way; or the Abort flag was raised, in this group or
// another. The first failure raises it. After one the group is of no use.
//
// Threads: an object belongs to one thread at a time; groups may run beside each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/operators/op_rule.h"
#include "runtime/communicate/abort.h"

namespace partita::runtime {

/// Elements per rank.
using Counts = std::span<const std::int64_t>;

/// "1.5 s", as messages have it.
std::string text_of(std::chrono::nanoseconds time);

/// ceil(count / ranks) each, the last ones less or nothing (contract 11).
std::vector<std::int64_t> even_counts(std::int64_t count, int ranks);

struct Message {
    at::Tensor tensor;
    int peer = 0;  ///< whom it goes to or comes from; not oneself
};

struct CommunicatorOptions {
    std::chrono::nanoseconds timeout = std::chrono::seconds(60);  ///< of one operation; > 0
    std::vector<std::string> names = {};     ///< of the ranks in messages, e.g. "gpu3"; or none
    std::shared_ptr<Abort> abort = nullptr;  ///< shared by groups that fail together; null: own
    /// Bytes that MPI, whose counts are int, sends at once: from 1 to 2^31 - 1; larger messages go
    /// in pieces.
    std::int64_t largest_message = std::int64_t{1} << 30;
};

class Communicator {
public:
    virtual ~Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// What the next operations are for, e.g. "task 417 'all-reduce /fc/Gemm.W.grad'"; the same on
    /// all ranks.
    void set_label(std::string_view label) { label_ = label; }
    /// Of the next operations; > 0. Ranks that still load or connect need longer than those that
    /// run.
    void set_timeout(std::chrono::nanoseconds timeout) { options_.timeout = timeout; }

    /// All of it at once, in whatever order it becomes possible, so that opposing messages cannot
    /// deadlock. Messages between two ranks match in order.
    void transfer(std::span<const Message> sends, std::span<const Message> receives);
    void send(const at::Tensor& tensor, int to);
    void receive(const at::Tensor& tensor, int from);
    void exchange(const at::Tensor& out, int to, const at::Tensor& in, int from);

    void broadcast(const at::Tensor& tensor, int root);
    /// `in`: on the root, all parts in order of rank, else ignored. `out`: the own part.
    void scatter(const at::Tensor& out, const at::Tensor& in, Counts counts, int root);
    /// `out`: on the root, all parts in order of rank, else ignored. `in`: the own part.
    void gather(const at::Tensor& out, const at::Tensor& in, Counts counts, int root);
    /// `in` may be the own part of `out`.
    void all_gather(const at::Tensor& out, const at::Tensor& in, Counts counts);
    /// Part r of `in` goes to rank r; part r of `out` comes from it.
    void all_to_all(const at::Tensor& out, Counts out_counts, const at::Tensor& in,
                    Counts in_counts);

    void all_reduce(const at::Tensor& tensor, graph::Combine how);
    /// `out` gets the own part of the combined `in`, and may be that part of `in`, whose other
    /// parts stay.
    void reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                        graph::Combine how);
    /// The root's tensor gets the result; the others stay.
    void reduce(const at::Tensor& tensor, graph::Combine how, int root);

    /// No rank returns before all have come.
    void barrier();
    /// Returns when what was begun has also ended on the device, or throws after the time-out.
    void wait();

    /// Stops everyone who waits in a group with the same Abort: for failures elsewhere in a rank.
    void abort(std::string_view reason);

protected:
    Communicator(int rank, int size, CommunicatorOptions options);

    // What a communicator does: `size` > 1, arguments are checked. Everything but the first is
    // already there in terms of it: direct algorithms, every rank with every other, that move the
    // least bytes.
    virtual void do_transfer(std::span<const Message> sends, std::span<const Message> receives) = 0;
    virtual void do_broadcast(const at::Tensor& tensor, int root);
    /// The own part of `out` is there already.
    virtual void do_all_gather(const at::Tensor& out, Counts counts);
    virtual void do_all_reduce(const at::Tensor& tensor, graph::Combine how);
    virtual void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                                   graph::Combine how);
    virtual void do_reduce(const at::Tensor& tensor, graph::Combine how, int root);
    virtual void do_barrier();
    virtual void do_wait() {}

    // For whoever waits in a do_...():
    [[nodiscard]] bool is_late() const;  ///< is the operation's time over?
    [[nodiscard]] std::chrono::steady_clock::time_point deadline() const { return deadline_; }
    [[nodiscard]] bool is_aborted() const;
    void stop_if_aborted() const;  ///< throws when someone else failed
    [[noreturn]] void time_out(std::span<const int> missing) const;
    [[noreturn]] void fail(std::string_view what) const;

    [[nodiscard]] std::string name_of(int rank) const;  ///< "rank 3 (gpu3)"
    [[nodiscard]] const std::string& label() const { return label_; }
    [[nodiscard]] std::chrono::nanoseconds timeout() const { return options_.timeout; }
    [[nodiscard]] std::string_view operation() const { return operation_; }

private:
    template <class Work>
    void run(std::string_view operation, const Work& work);

    int rank_;
    int size_;
    CommunicatorOptions options_;
    std::string label_;
    std::string_view operation_;  ///< the one that runs
    std::chrono::steady_clock::time_point deadline_;
};

}  // namespace partita::runtime
