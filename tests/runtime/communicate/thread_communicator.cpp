// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/communicate/thread_communicator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/SmallVector.h>

#include "runtime/communicate/combine.h"

namespace partita::runtime {
namespace {

constexpr int kSpins = 500;  // 5 to 20 us, about what it costs to wake a thread
constexpr auto kSlice = std::chrono::milliseconds(5);

// A moment on the stream that a thread uses on a device. On the CPU nothing: there the threads'
// meeting is the moment.
class StreamEvent {
public:
    void record(at::Device device) {
        device_ = device;
        if (device.is_cpu()) return;
        if (!event_ || event_->device_type() != device.type()) event_.emplace(device.type());
        event_->record(stream_of(device));
    }
    /// What the calling thread does on `device` from now on comes after it.
    void precedes(at::Device device) const {
        if (device_.is_cpu() || !event_) return;
        if (device.is_cpu()) return event_->synchronize();
        event_->block(stream_of(device));
    }

private:
    static c10::Stream stream_of(at::Device device) {
        return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    }
    at::Device device_ = at::kCPU;
    std::optional<c10::Event> event_;
};

// What a rank shows the others: its tensor, as an address, since a tensor's count of references is
// better not shared.
struct Contribution {
    std::string_view operation;
    std::string_view label;
    void* data = nullptr;
    std::int64_t count = 0;
    at::ScalarType type = at::kByte;
    at::Device device = at::kCPU;
    graph::Combine how = graph::Combine::none;
    int root = 0;

    [[nodiscard]] at::Tensor part(std::int64_t begin, std::int64_t length) const {
        char* const address = static_cast<char*>(data) + begin * c10::elementSize(type);
        return at::for_blob(address, {length})
            .options(at::TensorOptions(type).device(device))
            .target_device(device)
            .make_tensor();
    }
    [[nodiscard]] std::string text() const {
        return (label.empty() ? "" : std::string(label) + ": ") + std::string(operation) + " of " +
               std::to_string(count) + " " + c10::toString(type);
    }
};

struct alignas(128) Slot {
    std::atomic<std::uint64_t> meetings = 0;  // that its rank has come to
    Contribution contribution;
    StreamEvent ready;
    StreamEvent done;
};

// From one rank to another, one message at a time.
struct alignas(128) Channel {
    enum class State : std::uint8_t { empty, posted, taking };
    std::atomic<State> state = State::empty;
    Contribution contribution;
    StreamEvent ready;
    StreamEvent done;
};

struct Group {
    explicit Group(int ranks) : slots(ranks), channels(slots.size() * slots.size()), size(ranks) {}

    Channel& channel(int from, int to) { return channels[from * size + to]; }

    void wake() {
        if (sleepers.load() == 0) return;
        { const std::lock_guard lock(mutex); }  // whoever is about to sleep sleeps now
        changed.notify_all();
    }

    std::vector<Slot> slots;
    std::vector<Channel> channels;
    int size;
    std::atomic<std::uint64_t> arrivals = 0;  // of all ranks at all meetings
    std::atomic<int> sleepers = 0;
    std::mutex mutex;
    std::condition_variable changed;
};

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

class ThreadCommunicator final : public Communicator {
public:
    // Shared: the last rank to go takes the group with it.
    ThreadCommunicator(std::shared_ptr<Group> group, int rank, const CommunicatorOptions& options)
        : Communicator(rank, group->size, options), group_(std::move(group)) {}

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override;
    void do_broadcast(const at::Tensor& tensor, int root) override;
    void do_all_gather(const at::Tensor& out, Counts counts) override;
    void do_all_reduce(const at::Tensor& tensor, graph::Combine how) override;
    void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                           graph::Combine how) override;
    void do_reduce(const at::Tensor& tensor, graph::Combine how, int root) override;
    void do_barrier() override { meet(); }

private:
    using Peers = c10::SmallVector<int, 16>;
    using TensorList = c10::SmallVector<at::Tensor, 16>;

    [[nodiscard]] Contribution contribution_of(const at::Tensor& tensor) const;
    Slot& slot(int rank) { return group_->slots[rank]; }

    template <class Done>
    [[nodiscard]] bool wait_for(const Done& done);
    void meet();
    void leave();
    [[nodiscard]] bool withdraw(std::uint64_t all);
    template <class Work>
    void together(const Contribution& contribution, at::Device device, const Work& work);
    void check(const Contribution& mine, int peer, const Contribution& theirs) const;

    [[nodiscard]] TensorList parts(std::int64_t begin, std::int64_t length);

    class Transfer;

    std::shared_ptr<Group> group_;
    std::uint64_t meetings_ = 0;
};

Contribution ThreadCommunicator::contribution_of(const at::Tensor& tensor) const {
    return {.operation = operation(),
            .label = label(),
            .data = tensor.data_ptr(),
            .count = tensor.numel(),
            .type = tensor.scalar_type(),
            .device = tensor.device()};
}

// False: someone failed, or the time is over.
template <class Done>
bool ThreadCommunicator::wait_for(const Done& done) {
    for (int spin = 0; spin < kSpins; ++spin) {
        if (done()) return true;
        pause();
    }
    std::unique_lock lock(group_->mutex);
    ++group_->sleepers;
    bool go_on = true;
    while (go_on && !done()) {
        group_->changed.wait_for(lock, kSlice);
        go_on = !is_aborted() && !is_late();
    }
    --group_->sleepers;
    return done();
}

// Everyone comes here before anyone leaves.
void ThreadCommunicator::meet() {
    const std::uint64_t meeting = ++meetings_;
    slot(rank()).meetings.store(meeting);
    const std::uint64_t all = meeting * group_->size;
    if (group_->arrivals.fetch_add(1) + 1 == all) return group_->wake();
    if (wait_for([&] { return group_->arrivals.load() >= all; }) || !withdraw(all)) return;
    stop_if_aborted();
    Peers missing;
    for (int peer = 0; peer < size(); ++peer) {
        if (slot(peer).meetings.load() < meeting) missing.push_back(peer);
    }
    time_out(missing);
}

// Whoever gives up must not be met any more: its tensors may go at any time. False: all have come.
bool ThreadCommunicator::withdraw(std::uint64_t all) {
    std::uint64_t arrivals = group_->arrivals.load();
    while (arrivals < all) {
        if (group_->arrivals.compare_exchange_weak(arrivals, arrivals - 1)) return true;
    }
    return false;
}

// A meeting that nobody may miss, since the others still work on one's tensor. It is short: all of
// them have come, and copying ends.
void ThreadCommunicator::leave() {
    const std::uint64_t all = ++meetings_ * group_->size;
    slot(rank()).meetings.store(meetings_);
    if (group_->arrivals.fetch_add(1) + 1 == all) return group_->wake();
    while (!wait_for([&] { return group_->arrivals.load() >= all; })) {
    }
}

void ThreadCommunicator::check(const Contribution& mine, int peer,
                               const Contribution& theirs) const {
    if (mine.operation == theirs.operation && mine.label == theirs.label &&
        mine.count == theirs.count && mine.type == theirs.type && mine.how == theirs.how &&
        mine.root == theirs.root) {
        return;
    }
    fail(name_of(peer) + " came with another plan: '" + theirs.text() + "' against '" +
         mine.text() + "' here. Give all ranks the same plan.");
}

// Shows `contribution`, works when all have come, and leaves when all have worked. `device`: where
// this rank works.
template <class Work>
void ThreadCommunicator::together(const Contribution& contribution, at::Device device,
                                  const Work& work) {
    Slot& own = slot(rank());
    own.contribution = contribution;
    own.ready.record(device);
    meet();
    for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        check(contribution, peer, slot(peer).contribution);
        slot(peer).ready.precedes(device);
    }
    try {
        work();
    } catch (...) {
        leave();
        throw;
    }
    own.done.record(device);
    leave();
    for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank()) slot(peer).done.precedes(device);
    }
}

// The same part of everyone's tensor, in order of rank.
ThreadCommunicator::TensorList ThreadCommunicator::parts(std::int64_t begin, std::int64_t length) {
    TensorList list;
    for (int peer = 0; peer < size(); ++peer) {
        list.push_back(slot(peer).contribution.part(begin, length));
    }
    return list;
}

void ThreadCommunicator::do_broadcast(const at::Tensor& tensor, int root) {
    Contribution contribution = contribution_of(tensor);
    contribution.root = root;
    together(contribution, tensor.device(), [&] {
        if (rank() == root) return;
        copy_tensor(tensor.view(-1), slot(root).contribution.part(0, tensor.numel()));
    });
}

void ThreadCommunicator::do_all_gather(const at::Tensor& out, Counts counts) {
    together(contribution_of(out), out.device(), [&] {
        std::int64_t begin = 0;
        for (int peer = 0; peer < size(); ++peer) {
            if (peer != rank()) {
                copy_tensor(out.view(-1).narrow(0, begin, counts[peer]),
                            slot(peer).contribution.part(begin, counts[peer]));
            }
            begin += counts[peer];
        }
    });
}

// Nobody else reads or writes part r of any tensor, so that no second meeting is needed.
void ThreadCommunicator::do_all_reduce(const at::Tensor& tensor, graph::Combine how) {
    Contribution contribution = contribution_of(tensor);
    contribution.how = how;
    together(contribution, tensor.device(), [&] {
        const std::int64_t part = (contribution.count + size() - 1) / size();
        const std::int64_t begin = std::min(part * rank(), contribution.count);
        const TensorList all = parts(begin, std::min(part, contribution.count - begin));
        TensorList into = all;
        std::swap(into.front(), into[rank()]);  // the first decides where it is computed
        combine(into, all, how);
    });
}

void ThreadCommunicator::do_reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                                           Counts counts, graph::Combine how) {
    Contribution contribution = contribution_of(in);
    contribution.how = how;
    together(contribution, in.device(), [&] {
        std::int64_t begin = 0;
        for (int peer = 0; peer < rank(); ++peer) begin += counts[peer];
        const at::Tensor into = out.view(-1);
        combine({&into, 1}, parts(begin, counts[rank()]), how);
    });
}

void ThreadCommunicator::do_reduce(const at::Tensor& tensor, graph::Combine how, int root) {
    Contribution contribution = contribution_of(tensor);
    contribution.how = how;
    contribution.root = root;
    together(contribution, tensor.device(), [&] {
        const std::int64_t part = (contribution.count + size() - 1) / size();
        const std::int64_t begin = std::min(part * rank(), contribution.count);
        const std::int64_t length = std::min(part, contribution.count - begin);
        const at::Tensor into = slot(root).contribution.part(begin, length);
        combine({&into, 1}, parts(begin, length), how);
    });
}

// Sends and receives under way. Messages between two ranks go one after the other; everything else
// goes when it can.
class ThreadCommunicator::Transfer {
public:
    Transfer(ThreadCommunicator& self, std::span<const Message> sends,
             std::span<const Message> receives)
        : self_(self), sends_(sends), receives_(receives) {
        posted_.resize(sends.size(), false);
        sent_.resize(sends.size(), false);
        received_.resize(receives.size(), false);
    }

    void run() {
        try {
            while (open_ > 0) {
                if (advance() || self_.wait_for([&] { return can_advance(); })) continue;
                self_.stop_if_aborted();
                self_.time_out(missing());
            }
        } catch (...) {
            recall();
            throw;
        }
    }

private:
    using State = Channel::State;
    using Flags = c10::SmallVector<bool, 16>;

    Channel& to(int peer) { return self_.group_->channel(self_.rank(), peer); }
    Channel& from(int peer) { return self_.group_->channel(peer, self_.rank()); }

    // Has everything before it to or from the same peer ended?
    static bool is_next(std::span<const Message> messages, const Flags& ended, std::size_t index) {
        for (std::size_t earlier = 0; earlier < index; ++earlier) {
            if (!ended[earlier] && messages[earlier].peer == messages[index].peer) return false;
        }
        return true;
    }

    bool can_advance() {
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            if (!sent_[i] && to(sends_[i].peer).state.load() == State::empty) return true;
        }
        for (std::size_t i = 0; i < receives_.size(); ++i) {
            if (!received_[i] && from(receives_[i].peer).state.load() == State::posted) return true;
        }
        return false;
    }

    bool advance() {
        const std::size_t before = open_ + unposted_;
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            if (!sent_[i] && to(sends_[i].peer).state.load() == State::empty) go_on_sending(i);
        }
        for (std::size_t i = 0; i < receives_.size(); ++i) {
            if (!received_[i] && is_next(receives_, received_, i)) take(i);
        }
        return open_ + unposted_ != before;
    }

    void go_on_sending(std::size_t index) {
        if (!is_next(sends_, sent_, index)) return;
        const at::Tensor& tensor = sends_[index].tensor;
        Channel& channel = to(sends_[index].peer);
        if (posted_[index]) {
            channel.done.precedes(tensor.device());
            sent_[index] = true;
            --open_;
            return;
        }
        channel.contribution = message_of(tensor);
        channel.ready.record(tensor.device());
        channel.state.store(State::posted);
        self_.group_->wake();
        posted_[index] = true;
        --unposted_;
    }

    void take(std::size_t index) {
        const auto& [tensor, peer] = receives_[index];
        Channel& channel = from(peer);
        State state = State::posted;
        if (!channel.state.compare_exchange_strong(state, State::taking)) return;
        try {
            self_.check(message_of(tensor), peer, channel.contribution);
            channel.ready.precedes(tensor.device());
            copy_tensor(tensor.view(-1), channel.contribution.part(0, tensor.numel()));
            channel.done.record(tensor.device());
        } catch (...) {
            channel.state.store(State::posted);  // for the sender to recall
            throw;
        }
        channel.state.store(State::empty);
        self_.group_->wake();
        received_[index] = true;
        --open_;
    }

    // So that nobody reads a tensor that may go at any time.
    void recall() {
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            if (!posted_[i] || sent_[i]) continue;
            std::atomic<State>& state = to(sends_[i].peer).state;
            State expected = State::posted;
            while (!state.compare_exchange_strong(expected, State::empty) &&
                   expected != State::empty) {
                expected = State::posted;
                std::this_thread::yield();  // it is being copied
            }
        }
    }

    Peers missing() {
        Peers peers;
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            if (!sent_[i]) peers.push_back(sends_[i].peer);
        }
        for (std::size_t i = 0; i < receives_.size(); ++i) {
            if (!received_[i]) peers.push_back(receives_[i].peer);
        }
        std::ranges::sort(peers);
        peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
        return peers;
    }

    [[nodiscard]] Contribution message_of(const at::Tensor& tensor) const {
        Contribution contribution = self_.contribution_of(tensor);
        contribution.operation = "message";  // one end says send and the other receive
        return contribution;
    }

    ThreadCommunicator& self_;
    std::span<const Message> sends_;
    std::span<const Message> receives_;
    Flags posted_;
    Flags sent_;
    Flags received_;
    std::size_t open_ = sends_.size() + receives_.size();
    std::size_t unposted_ = sends_.size();
};

void ThreadCommunicator::do_transfer(std::span<const Message> sends,
                                     std::span<const Message> receives) {
    Transfer(*this, sends, receives).run();
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_communicators(
    int size, const CommunicatorOptions& options) {
    CommunicatorOptions shared = options;
    if (!shared.abort) shared.abort = std::make_shared<Abort>();
    const auto group = std::make_shared<Group>(size);
    std::vector<std::unique_ptr<Communicator>> ranks;
    for (int rank = 0; rank < size; ++rank) {
        ranks.push_back(std::make_unique<ThreadCommunicator>(group, rank, shared));
    }
    return ranks;
}

}  // namespace partita::runtime
