// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/communicate/thread_mailbox.h"

#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include <ATen/Functions.h>

#include "runtime/communicate/combine.h"

namespace partita::runtime {
namespace {

constexpr auto kNap = std::chrono::milliseconds(5);  // between looks at the Abort flag

struct Sent {
    Mailbox::Ticket ticket = 0;
    at::Tensor tensor;
    std::int64_t note = 0;
};

struct Room {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::tuple<int, int, std::int32_t>, std::deque<Sent>> messages;  // from, to, number
    Mailbox::Ticket next = 0;
    std::set<Mailbox::Ticket> under_way;
};

class ThreadMailbox final : public Mailbox {
public:
    ThreadMailbox(std::shared_ptr<Room> room, int process, std::shared_ptr<Abort> abort)
        : Mailbox(std::move(abort)), room_(std::move(room)), process_(process) {}

    Ticket send(Address to, const at::Tensor& tensor, std::int64_t note) override {
        const at::Tensor host = tensor.cpu();
        const std::lock_guard lock(room_->mutex);
        const Ticket ticket = room_->next++;
        room_->under_way.insert(ticket);
        room_->messages[{process_, to.process, to.number}].push_back({ticket, host, note});
        room_->changed.notify_all();
        return ticket;
    }
    bool is_sent(Ticket ticket) override {
        const std::lock_guard lock(room_->mutex);
        return !room_->under_way.contains(ticket);
    }

    std::optional<std::int64_t> receive(Address from, const at::Tensor& into,
                                        Clock::time_point until) override {
        std::unique_lock lock(room_->mutex);
        auto& messages = room_->messages[{from.process, process_, from.number}];
        while (messages.empty()) {
            stop_if_aborted();
            if (Clock::now() >= until) return std::nullopt;
            room_->changed.wait_for(lock, kNap);
        }
        const Sent message = std::move(messages.front());
        messages.pop_front();
        lock.unlock();
        if (message.tensor.nbytes() != into.nbytes()) {
            refuse_size(from, message.tensor.nbytes(), into.nbytes());
        }
        copy_tensor(into, message.tensor);
        lock.lock();
        room_->under_way.erase(message.ticket);
        return message.note;
    }

    std::int64_t numbers() const override { return std::numeric_limits<std::int32_t>::max(); }

private:
    std::shared_ptr<Room> room_;  // shared by all processes
    int process_;
};

}  // namespace

std::vector<std::unique_ptr<Mailbox>> thread_mailboxes(int processes,
                                                       const std::shared_ptr<Abort>& abort) {
    const auto room = std::make_shared<Room>();
    std::vector<std::unique_ptr<Mailbox>> all;
    for (int process = 0; process < processes; ++process) {
        all.push_back(std::make_unique<ThreadMailbox>(room, process, abort));
    }
    return all;
}

}  // namespace partita::runtime
