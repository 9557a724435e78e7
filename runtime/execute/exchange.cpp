// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/exchange.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "base/error.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

constexpr auto kSlice = std::chrono::milliseconds(5);  // between looks at the Abort flag

}  // namespace

std::string Peers::name_of(int process) const {
    std::string names;
    for (std::size_t d = 0; d < devices.size(); ++d) {
        if (ownership.process_of(static_cast<int>(d)) != process) continue;
        names += (names.empty() ? "" : ", ") + devices[d];
    }
    return "rank " + std::to_string(process) + " (" + names + ")";
}

Exchange::Exchange(const Peers& peers, Messages messages, const graph::OpGraph& graph,
                   const plan::TaskGraph& tasks)
    : peers_(peers),
      messages_(std::move(messages)),
      graph_(graph),
      tasks_(tasks),
      inboxes_(messages_.in.size()) {
    if (2 * messages_.numbers <= peers.mailbox->numbers()) return;
    throw DeviceError("the plan has " + std::to_string(messages_.numbers) +
                      " messages between its processes, and this MPI has tags for " +
                      std::to_string(peers.mailbox->numbers() / 2) +
                      ". Use fewer processes, or start them with torchrun.");
}

Exchange::Format Exchange::format_of(const TaskMessage& message) const {
    const plan::Buffer& buffer = tasks_.buffers[message.buffer.index()];
    const graph::Tensor& tensor = graph_.tensor(buffer.tensor);
    return {.type = scalar_type_of(tensor.type_of(buffer.gradient)).value_or(at::kFloat),
            .has_shape = tensor.upper_bound_dims != 0};
}

void Exchange::name_ends(std::string first, std::string last) {
    first_task_ = std::move(first);
    last_task_ = std::move(last);
}

void Exchange::begin_iteration() {
    for (Inbox& inbox : inboxes_) inbox.state.store(State::absent, std::memory_order_relaxed);
    parity_ ^= 1;
    Communicator& world = *peers_.world;
    world.set_timeout(iterations_ == 0 ? peers_.patience : peers_.timeout);
    world.set_label("iteration " + std::to_string(++iterations_));
    try {
        world.barrier();
    } catch (const DeviceError& error) {
        throw DeviceError(std::string(error.what()) + " Here " + first_task_ + " would be next.");
    }
}

void Exchange::end_iteration(Time& duration, double& loss) {
    Communicator& world = *peers_.world;
    world.set_timeout(peers_.timeout);
    world.set_label("end of iteration " + std::to_string(iterations_));
    const at::Tensor longest = at::full({1}, duration.raw(), at::kLong);
    const at::Tensor sum = at::full({1}, loss, at::kDouble);
    try {
        world.all_reduce(longest, graph::Combine::max);
        world.all_reduce(sum, graph::Combine::sum);
    } catch (const DeviceError& error) {
        throw DeviceError(std::string(error.what()) + " Here " + last_task_ + " was the last.");
    }
    duration = Time(longest.item<std::int64_t>());
    loss = sum.item<double>();
}

void Exchange::guard(const at::Tensor& tensor) {
    guarded_.insert(tensor.storage().unsafeGetStorageImpl());
}

void Exchange::stop(const std::exception_ptr& why) {
    try {
        std::rethrow_exception(why);
    } catch (const std::exception& error) {
        peers_.abort->raise(error.what());
    }
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
}

void Exchange::finish(std::size_t task, Store& store) {
    for (const std::int32_t token : messages_.released[task]) send(token, {});
    const auto [first, last] = messages_.messages_for(plan::TaskId(task));
    for (std::int32_t message = first; message < last; ++message) {
        store[slot_of(message)] = at::Tensor();
    }
}

std::int64_t Exchange::now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
}

void Exchange::send(std::int32_t place, const at::Tensor& piece) {
    const TaskMessage& message = messages_.out[static_cast<std::size_t>(place)];
    const Address to = address_of(message);
    if (!message.buffer.valid()) {
        peers_.mailbox->send(to, at::empty({0}, at::kByte), now());
        return;
    }
    const Format format = format_of(message);
    if (format.has_shape) {
        const at::Tensor shape = at::empty({piece.dim()}, at::kLong);
        std::ranges::copy(piece.sizes(), shape.mutable_data_ptr<std::int64_t>());
        peers_.mailbox->send(to, shape, now());
    }
    at::Tensor sent = piece.to(format.type).contiguous();
    if (guarded_.contains(sent.storage().unsafeGetStorageImpl())) sent = sent.clone();
    peers_.mailbox->send(to, sent, now());
}

Time Exchange::receive(std::span<const std::int32_t> messages, at::Device device, Store& store) {
    std::int64_t latest = 0;
    for (const std::int32_t place : messages) {
        Inbox& inbox = inboxes_[static_cast<std::size_t>(place)];
        State state = State::absent;
        if (inbox.state.compare_exchange_strong(state, State::under_way)) {
            fetch(place, device, store);
        } else {
            wait_for_other(inbox, messages_.in[static_cast<std::size_t>(place)]);
        }
        latest = std::max(latest, inbox.note);
    }
    return nanoseconds(latest);
}

void Exchange::fetch(std::int32_t place, at::Device device, Store& store) {
    const TaskMessage& message = messages_.in[static_cast<std::size_t>(place)];
    Inbox& inbox = inboxes_[static_cast<std::size_t>(place)];
    if (!message.buffer.valid()) {
        inbox.note = receive_one(message, at::empty({0}, at::kByte));
    } else {
        const Format format = format_of(message);
        graph::Shape extents = extents_of(message.region);
        if (format.has_shape) {
            const at::Tensor shape = at::empty({std::ssize(extents)}, at::kLong);
            (void)receive_one(message, shape);
            const auto* const first = shape.const_data_ptr<std::int64_t>();
            extents.assign(first, first + extents.size());
        }
        at::Tensor piece =
            at::empty(extents, at::TensorOptions().dtype(format.type).device(device));
        inbox.note = receive_one(message, piece);
        store[slot_of(place)] = std::move(piece);
    }
    const std::lock_guard lock(mutex_);
    inbox.state.store(State::here, std::memory_order_release);
    changed_.notify_all();
}

std::int64_t Exchange::receive_one(const TaskMessage& message, const at::Tensor& into) {
    const auto note =
        peers_.mailbox->receive(address_of(message), into, Clock::now() + peers_.timeout);
    if (!note) time_out(message);
    return *note;
}

void Exchange::wait_for_other(const Inbox& inbox, const TaskMessage& message) {
    const auto is_here = [&] { return inbox.state.load(std::memory_order_acquire) == State::here; };
    if (is_here()) return;
    // Who fetches it fails in time, and says why.
    const auto until = Clock::now() + 2 * peers_.timeout;
    std::unique_lock lock(mutex_);
    while (!is_here()) {
        if (peers_.abort->raised()) {
            throw DeviceError("stopped, because of: " + peers_.abort->reason());
        }
        if (Clock::now() >= until) time_out(message);
        changed_.wait_for(lock, kSlice);
    }
}

void Exchange::time_out(const TaskMessage& message) const {
    const std::string what =
        message.buffer.valid() ? "sent nothing" : "did not say that it is done";
    throw DeviceError(peers_.name_of(message.peer) + " " + what + " within " +
                      text_of(peers_.timeout) +
                      ". See what it reported, or allow more time with --timeout.");
}

}  // namespace partita::runtime
