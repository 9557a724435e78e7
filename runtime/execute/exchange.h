// SPDX-License-Identifier: Apache-2.0
//
// The messages of a running program: what its workers send to other processes, and wait for from
// them.
//
//     send     a message or token; returns at once
//     receive  messages and tokens; whoever comes first fetches one, the others of its process wait
//
// What is awaited longer than the time-out fails, naming who did not send. The notes of all
// messages are times since the start of the iteration, which all processes begin together: so
// everyone knows when the last of those that it met was ready, and does not count as its own time
// what it waited for it.
//
// No message of one iteration is under way in the next one: nobody begins that before everybody has
// taken what is his. Numbers are used by turns all the same.
//
// Threads: begin_iteration() and end_iteration() while no worker works; everything else from any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "graph/op_graph.h"
#include "plan/tasks/task_graph.h"
#include "runtime/communicate/communicator.h"
#include "runtime/communicate/mailbox.h"
#include "runtime/execute/messages.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

/// The processes that execute a plan together, as one of them sees them.
struct Peers {
    Communicator* world = nullptr;  ///< one rank per process
    Mailbox* mailbox = nullptr;
    Ownership ownership;
    std::vector<std::string> devices;  ///< names of the plan's, for messages
    std::chrono::milliseconds timeout{60'000};
    /// Before the first iteration: processes load at different speeds.
    std::chrono::milliseconds patience{60'000};
    std::shared_ptr<Abort> abort;  ///< of world and mailbox

    [[nodiscard]] int rank() const { return ownership.self; }
    [[nodiscard]] int size() const { return world->size(); }
    /// "rank 1 (gpu2, gpu3)"
    [[nodiscard]] std::string name_of(int process) const;
};

class Exchange {
public:
    using Clock = std::chrono::steady_clock;

    /// Messages lie in the Store behind the buffers, in their order. Throws DeviceError when the
    /// mailbox has too few numbers. `peers` must outlive it.
    Exchange(const Peers& peers, Messages messages, const graph::OpGraph& graph,
             const plan::TaskGraph& tasks);

    [[nodiscard]] const Messages& messages() const { return messages_; }
    [[nodiscard]] const Peers& peers() const { return peers_; }

    /// How long workers wait awake.
    void stay_awake(std::chrono::microseconds time) { peers_.mailbox->stay_awake(time); }
    /// What comes first and last in this process, for error messages: "task 17 'update w'".
    void name_ends(std::string first, std::string last);
    /// Waits for all processes.
    void begin_iteration();
    /// When it has begun here: what notes are counted from.
    void set_start(Clock::time_point start) { start_ = start; }
    /// Waits for all processes: then the duration is the longest, the loss the sum.
    void end_iteration(Time& duration, double& loss);
    /// Of a tensor that changes within an iteration, where it lies, copies are sent. Before the
    /// first one.
    void guard(const at::Tensor& tensor);
    /// Ends all waiting of this process.
    void stop(const std::exception_ptr& why);

    /// `piece`: what the message says, or nothing for a token. Nobody changes it in this iteration,
    /// unless it is guarded.
    void send(std::int32_t message, const at::Tensor& piece);
    /// A task is done here: sends its tokens, and gives back what messages brought for it.
    void finish(std::size_t task, Store& store);
    /// Puts them into the store, on that device; returns when the last of them was sent.
    Time receive(std::span<const std::int32_t> messages, at::Device device, Store& store);

    /// In the Store, as if it were a buffer.
    [[nodiscard]] plan::BufferId slot_of(std::int32_t message) const {
        return plan::BufferId(tasks_.buffers.size() + static_cast<std::size_t>(message));
    }
    [[nodiscard]] std::int64_t now() const;  ///< as notes say it

private:
    enum class State : std::uint8_t { absent, under_way, here };
    struct Inbox {
        std::atomic<State> state{State::absent};
        std::int64_t note = 0;
    };
    /// How the tensor of a message looks.
    struct Format {
        at::ScalarType type = at::kByte;
        /// An extent depends on data: a message with all of them goes ahead.
        bool has_shape = false;
    };
    [[nodiscard]] Format format_of(const TaskMessage& message) const;
    void fetch(std::int32_t message, at::Device device, Store& store);
    void wait_for_other(const Inbox& inbox, const TaskMessage& message);
    std::int64_t receive_one(const TaskMessage& message, const at::Tensor& into);
    [[nodiscard]] Address address_of(const TaskMessage& message) const {
        return {message.peer, 2 * message.number + parity_};
    }
    [[noreturn]] void time_out(const TaskMessage& message) const;

    const Peers& peers_;
    Messages messages_;
    const graph::OpGraph& graph_;
    const plan::TaskGraph& tasks_;
    std::vector<Inbox> inboxes_;               ///< per message in
    std::unordered_set<const void*> guarded_;  ///< storages
    std::string first_task_;
    std::string last_task_;
    std::int64_t iterations_ = 0;
    std::int32_t parity_ = 0;
    Clock::time_point start_;
    std::mutex mutex_;
    std::condition_variable changed_;
};

}  // namespace partita::runtime
