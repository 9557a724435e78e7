// SPDX-License-Identifier: Apache-2.0
//
// Messages between processes that are found by their number, not by the order in which they are
// sent: the workers of a process send and wait on threads of their own, in no common order.
//
//     send      gives a tensor to a process, and returns at once
//     receive   waits for the message of that number from that process
//
// Messages of one number from one process to another match in order. A process may send to itself.
// A note goes with every tensor, one number whose meaning is the caller's.
//
//     threads     for tests: who receives it copies it
//     MPI         non-blocking, polled                     mpi_mailbox.cpp
//     TCP store   every byte goes over rank 0's process    store_mailbox.cpp
//
// All of them go through the hosts' memory: what lies on a GPU is copied there first, in the order
// of the calling thread's current stream, and from there. A mailbox for GPUs would hand tensors to
// NCCL, whose sends and receives have no numbers: between two devices they match in order, and a
// plan's commit order, which all senders and receivers keep, is one.
//
// Fails with DeviceError: the library below failed; a message has another size than its receiver
// expects (another plan); or the Abort flag was raised. Threads: all functions, from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "runtime/communicate/abort.h"

namespace partita::runtime {

/// Between two looks for what has not come yet.
inline constexpr std::chrono::microseconds kNap{50};

/// The other end of a message.
struct Address {
    int process = 0;
    std::int32_t number = 0;  ///< of the message; from 0 to below Mailbox::numbers()
};

class Mailbox {
public:
    using Clock = std::chrono::steady_clock;
    using Ticket = std::uint64_t;

    virtual ~Mailbox() = default;
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;

    /// Until is_sent() nobody may change the tensor, which is contiguous; giving it up is no
    /// change.
    virtual Ticket send(Address to, const at::Tensor& tensor, std::int64_t note) = 0;
    [[nodiscard]] virtual bool is_sent(Ticket ticket) = 0;

    /// Fills `into`, contiguous and as large as what was sent, and returns the note; nullopt when
    /// the time is over.
    [[nodiscard]] virtual std::optional<std::int64_t> receive(Address from, const at::Tensor& into,
                                                              Clock::time_point until) = 0;

    /// So many numbers there are.
    [[nodiscard]] virtual std::int64_t numbers() const = 0;

    /// How long who waits stays awake, from now on: a core that has gone to sleep wakes up late,
    /// and one that stays awake is no use to others.
    void stay_awake(std::chrono::microseconds time) { awake_ = time; }
    /// Between two looks, by who began to wait then.
    void pause(Clock::time_point began) const;

protected:
    /// `abort` ends all waiting.
    explicit Mailbox(std::shared_ptr<Abort> abort) : abort_(std::move(abort)) {}

    [[nodiscard]] bool is_aborted() const { return abort_->raised(); }
    void stop_if_aborted() const;
    /// What a receive() throws when what came is of another size.
    [[noreturn]] static void refuse_size(Address from, std::size_t came, std::size_t expected);

    std::shared_ptr<Abort> abort_;  ///< of the process: groups and mailbox fail together
    std::atomic<std::chrono::microseconds> awake_{std::chrono::microseconds(100)};
};

}  // namespace partita::runtime
