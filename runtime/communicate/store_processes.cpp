// SPDX-License-Identifier: Apache-2.0
//
// Messages as values in LibTorch's TCPStore, a server in rank 0's process or in torchrun: one queue
// per group, sender and receiver, so that messages match in order. Every byte goes over the server
// and is copied several times; a round trip on one host takes some 100 us.
//
// A process that fails says so in the store before it ends, and the server waits a moment for the
// others to read it. TCPStore's calls have no time-out of their own when the server hangs: a thread
// makes them (caller.h), and whoever asked stops waiting.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <thread>

#include <ATen/ATen.h>

#include "base/error.h"
#include "runtime/communicate/combine.h"
#include "runtime/communicate/processes.h"
#include "runtime/communicate/store_line.h"
#include "runtime/communicate/store_mailbox.h"

namespace partita::runtime {
namespace {

using Store = c10::intrusive_ptr<c10d::TCPStore>;

constexpr auto kFarewell = std::chrono::seconds(1);
constexpr const char* kLeft = "partita/left";

class StoreCommunicator final : public Communicator {
public:
    StoreCommunicator(const StoreLine& line, std::string group, int rank, int size,
                      const CommunicatorOptions& options)
        : Communicator(rank, size, options), line_(line), group_(std::move(group)) {}

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override {
        try {
            for (const Message& message : sends) give(message);
            for (const Message& message : receives) take(message);
        } catch (const c10::DistError& error) {
            fail(store_is_gone(error));
        }
    }

private:
    // What `call` says of the store; throws when it takes too long.
    template <class Call>
    auto ask(Call call) {
        return line_.ask(std::move(call), [&] {
            stop_if_aborted();
            if (std::chrono::steady_clock::now() > deadline() + kStoreGrace) fail(kStoreHangs);
        });
    }

    [[nodiscard]] std::string queue(int from, int to) const {
        return "partita/" + group_ + "/" + std::to_string(from) + "/" + std::to_string(to);
    }

    void give(const Message& message) {
        const at::Tensor tensor = message.tensor.cpu();
        const auto* const data = static_cast<const std::uint8_t*>(tensor.const_data_ptr());
        const std::vector<std::uint8_t> bytes(data, data + tensor.nbytes());
        ask([bytes, key = queue(rank(), message.peer)](c10d::TCPStore& store) {
            push_message(store, key, bytes);
        });
    }

    void take(const Message& message) {
        const std::string key = queue(message.peer, rank());
        const auto is_empty = [&] {
            return ask([key](c10d::TCPStore& store) { return store.queueLen(key); }) == 0;
        };
        for (int naps = 1; is_empty(); ++naps) {
            if (naps % kNapsBetweenLooks == 0) look_for_failures();
            stop_if_aborted();
            if (is_late()) time_out({&message.peer, 1});
            std::this_thread::sleep_for(kStoreNap);
        }
        const std::vector<std::uint8_t> bytes =
            ask([key](c10d::TCPStore& store) { return pop_message(store, key); });
        if (bytes.size() != message.tensor.nbytes()) {
            fail(name_of(message.peer) + " sent " + std::to_string(bytes.size()) + " bytes where " +
                 std::to_string(message.tensor.nbytes()) +
                 " were expected. Give all ranks the same plan.");
        }
        const at::Tensor tensor = at::empty(message.tensor.sizes(), message.tensor.scalar_type());
        if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
        copy_tensor(message.tensor, tensor);
    }

    void look_for_failures() {
        const std::string reason = ask(reason_of_failure);
        if (!reason.empty()) abort(reason);
    }

    StoreLine line_;
    std::string group_;
};

class StoreProcesses final : public Processes {
public:
    StoreProcesses(const Launch& launch, const CommunicatorOptions& options);
    ~StoreProcesses() override;

    std::string_view name() const override { return "TCP store"; }
    std::unique_ptr<Communicator> communicator(const ProcessGroup& group, int rank) override {
        CommunicatorOptions options = options_;
        options.names = group.names;
        return std::make_unique<StoreCommunicator>(line_, std::to_string(group.number), rank,
                                                   static_cast<int>(group.process_of_rank.size()),
                                                   options);
    }
    [[noreturn]] void end_all(int exit_code) override;

private:
    void leave(const std::string& reason, std::chrono::nanoseconds patience);

    CommunicatorOptions options_;
    Caller caller_;
    StoreLine line_{.store = {}, .caller = &caller_};
    bool is_server_;
    int exceptions_ = std::uncaught_exceptions();
};

std::string who(const Launch& launch) {
    return "rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.size);
}

Store connect(const Launch& launch, const CommunicatorOptions& options, bool is_server) {
    c10d::TCPStoreOptions to;
    to.port = static_cast<std::uint16_t>(launch.master_port);
    to.isServer = is_server;
    to.waitWorkers = false;
    to.timeout = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
    FLAGS_caffe2_log_level = c10::GLOG_ERROR;  // it prints stack traces when a process goes
    try {
        return c10::make_intrusive<c10d::TCPStore>(launch.master_address, to);
    } catch (const c10::Error& error) {
        throw DeviceError(who(launch) + ": no meeting at " + launch.master_address + ":" +
                          std::to_string(launch.master_port) + ": " +
                          error.what_without_backtrace());
    }
}

StoreProcesses::StoreProcesses(const Launch& launch, const CommunicatorOptions& options)
    : Processes(launch.rank, launch.size),
      options_(options),
      is_server_(launch.rank == 0 && !launch.master_listens) {
    if (!options_.abort) options_.abort = std::make_shared<Abort>();
    auto connecting = caller_.begin(
        [launch, options, server = is_server_] { return connect(launch, options, server); });
    // The connection itself keeps the time-out, unless the server hangs just then.
    if (connecting.wait_for(options.timeout + kFarewell) != std::future_status::ready) {
        throw DeviceError(who(launch) + ": " + kStoreHangs + ".");
    }
    line_.store = connecting.get();
    world_ = std::make_unique<StoreCommunicator>(line_, "world", rank_, size_, options_);
    mailbox_ = store_mailbox(line_, rank_, options_.abort);
}

StoreProcesses::~StoreProcesses() {
    if (options_.abort->raised() || std::uncaught_exceptions() > exceptions_) return;
    leave("", options_.timeout);
}

void StoreProcesses::end_all(int exit_code) {
    leave(options_.abort->reason(), kFarewell);
    std::_Exit(exit_code);
}

// The server goes last.
void StoreProcesses::leave(const std::string& reason, std::chrono::nanoseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const auto leaving = line_.begin(
        [reason, deadline, size = size_, is_server = is_server_](c10d::TCPStore& store) {
            if (!reason.empty()) say_failure(store, reason);
            std::int64_t left = store.add(kLeft, 1);
            while (is_server && left < size && std::chrono::steady_clock::now() < deadline) {
                std::this_thread::sleep_for(kStoreNap);
                left = store.add(kLeft, 0);
            }
        });
    leaving.wait_until(deadline);  // an exception says that the server is gone: no reason to wait
}

}  // namespace

std::unique_ptr<Processes> store_processes(const Launch& launch,
                                           const CommunicatorOptions& options) {
    if (launch.master_address.empty() || launch.master_port == 0) {
        throw UsageError(
            "environment variables MASTER_ADDR and MASTER_PORT: missing, so the processes cannot "
            "meet. Set them to the host of rank 0 and a free port there, or start with mpirun.");
    }
    return std::make_unique<StoreProcesses>(launch, options);
}

}  // namespace partita::runtime
