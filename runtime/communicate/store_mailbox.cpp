// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/store_mailbox.h"

#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Functions.h>

#include "base/error.h"
#include "runtime/communicate/combine.h"

namespace partita::runtime {
namespace {

using Bytes = std::vector<std::uint8_t>;

class StoreMailbox final : public Mailbox {
public:
    StoreMailbox(const StoreLine& line, int rank, std::shared_ptr<Abort> abort)
        : Mailbox(std::move(abort)), line_(line), rank_(rank) {}

    /// The note, then the tensor. Whether the server took it is seen by who waits for an answer.
    Ticket send(Address to, const at::Tensor& tensor, std::int64_t note) override {
        const at::Tensor host = tensor.cpu();
        Bytes bytes(sizeof note + host.nbytes());
        std::memcpy(bytes.data(), &note, sizeof note);
        if (host.nbytes() > 0) {
            std::memcpy(bytes.data() + sizeof note, host.const_data_ptr(), host.nbytes());
        }
        (void)line_.begin([bytes = std::move(bytes), key = key(rank_, to.process, to.number)](
                              c10d::TCPStore& store) { push_message(store, key, bytes); });
        return 0;
    }
    bool is_sent(Ticket /*ticket*/) override { return true; }

    std::optional<std::int64_t> receive(Address from, const at::Tensor& into,
                                        Clock::time_point until) override {
        try {
            return received(from, into, until);
        } catch (const c10::DistError& error) {
            throw DeviceError(store_is_gone(error));
        }
    }

    std::int64_t numbers() const override { return std::numeric_limits<std::int32_t>::max(); }

private:
    static std::string key(int from, int to, std::int32_t number) {
        return "partita/mail/" + std::to_string(from) + "/" + std::to_string(to) + "/" +
               std::to_string(number);
    }

    template <class Call>
    auto ask(Call call, Clock::time_point until) {
        return line_.ask(std::move(call), [&] {
            stop_if_aborted();
            if (Clock::now() > until + kStoreGrace) {
                throw DeviceError(std::string(kStoreHangs) + ".");
            }
        });
    }

    std::optional<std::int64_t> received(Address from, const at::Tensor& into,
                                         Clock::time_point until) {
        const std::string key = StoreMailbox::key(from.process, rank_, from.number);
        const auto is_empty = [key](c10d::TCPStore& store) { return store.queueLen(key) == 0; };
        for (int naps = 1; ask(is_empty, until); ++naps) {
            if (naps % kNapsBetweenLooks == 0) {
                const std::string reason = ask(reason_of_failure, until);
                if (!reason.empty()) abort_->raise(reason);
            }
            stop_if_aborted();
            if (Clock::now() >= until) return std::nullopt;
            std::this_thread::sleep_for(kStoreNap);
        }
        const Bytes bytes =
            ask([key](c10d::TCPStore& store) { return pop_message(store, key); }, until);
        std::int64_t note = 0;
        if (bytes.size() != sizeof note + into.nbytes()) {
            refuse_size(from, bytes.size() - sizeof note, into.nbytes());
        }
        std::memcpy(&note, bytes.data(), sizeof note);
        const at::Tensor host = at::empty(into.sizes(), into.scalar_type());
        if (host.nbytes() > 0) {
            std::memcpy(host.data_ptr(), bytes.data() + sizeof note, host.nbytes());
        }
        copy_tensor(into, host);
        return note;
    }

    StoreLine line_;
    int rank_;
};

}  // namespace

std::unique_ptr<Mailbox> store_mailbox(const StoreLine& line, int rank,
                                       std::shared_ptr<Abort> abort) {
    return std::make_unique<StoreMailbox>(line, rank, std::move(abort));
}

}  // namespace partita::runtime
