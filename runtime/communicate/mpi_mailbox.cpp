// SPDX-License-Identifier: Apache-2.0
//
// The number of a message is its tag, the note a message beside it. Sends are non-blocking; a
// thread drives what is under way, since MPI moves large messages only while somebody calls it, and
// workers compute. Who takes polls by itself.
#include "runtime/communicate/mpi_mailbox.h"

#include <array>
#include <condition_variable>
#include <map>
#include <thread>
#include <vector>

#include <ATen/Functions.h>

#include "base/error.h"
#include "runtime/communicate/combine.h"
#include "runtime/communicate/message_pieces.h"

namespace partita::runtime {

std::string mpi_text_of(int error) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(error, text.data(), &length);
    return {text.data(), static_cast<std::size_t>(length)};
}

namespace {

constexpr int kTagsPerNumber = 2;  // tensor and note

void check(int error) {
    if (error != MPI_SUCCESS) throw DeviceError("MPI: " + mpi_text_of(error));
}

// A tensor and its note, on their way.
struct Transfer {
    at::Tensor tensor;
    std::int64_t note = 0;
    std::vector<MPI_Request> requests;  // of the note, then of the tensor's pieces

    // The calls that begin it; `piece` gets data, bytes and tag.
    template <class Piece>
    void begin(std::int32_t number, std::int64_t largest, const Piece& piece) {
        const int tag = number * kTagsPerNumber;
        const auto add = [&](void* data, std::int64_t bytes, int with) {
            requests.push_back(MPI_REQUEST_NULL);
            check(piece(data, static_cast<int>(bytes), with, &requests.back()));
        };
        add(&note, sizeof note, tag + 1);
        const auto size = static_cast<std::int64_t>(tensor.nbytes());
        auto* const data = static_cast<char*>(tensor.data_ptr());
        for_each_piece(size, largest, [&](std::int64_t begin, std::int64_t bytes) {
            add(data + begin, bytes, tag);
        });
    }
};

class Mailboxes final : public MpiMailbox {
public:
    Mailboxes(std::mutex& mutex, MPI_Comm own, std::shared_ptr<Abort> abort,
              std::int64_t largest_message)
        : MpiMailbox(std::move(abort)),
          mutex_(mutex),
          own_(own),
          largest_message_(largest_message),
          driver_([this] { drive(); }) {
        void* largest = nullptr;
        int found = 0;
        const std::lock_guard lock(mutex_);
        MPI_Comm_get_attr(own_, MPI_TAG_UB, static_cast<void*>(&largest), &found);
        largest_tag_ = found != 0 ? *static_cast<int*>(largest) : 32'767;
    }
    ~Mailboxes() override {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        changed_.notify_all();
        driver_.join();
        if (under_way_->sends.empty() && under_way_->given_up.empty()) delete under_way_;
    }

    Ticket send(Address to, const at::Tensor& tensor, std::int64_t note) override {
        const at::Tensor host = tensor.cpu();
        const std::lock_guard lock(mutex_);
        const Ticket ticket = next_++;
        Transfer& transfer = under_way_->sends[ticket];  // stays where it is
        transfer.tensor = host;
        transfer.note = note;
        const auto send = [&](void* data, int bytes, int tag, MPI_Request* request) {
            return MPI_Isend(data, bytes, MPI_BYTE, to.process, tag, own_, request);
        };
        transfer.begin(to.number, largest_message_, send);
        changed_.notify_all();
        return ticket;
    }

    bool is_sent(Ticket ticket) override {
        const std::lock_guard lock(mutex_);
        const auto transfer = under_way_->sends.find(ticket);
        if (transfer == under_way_->sends.end()) return true;
        if (!has_ended(transfer->second)) return false;
        under_way_->sends.erase(transfer);
        return true;
    }

    std::optional<std::int64_t> receive(Address from, const at::Tensor& into,
                                        Clock::time_point until) override;

    bool drain(Clock::time_point until) override {
        while (true) {
            {
                const std::lock_guard lock(mutex_);
                clear_sent();
                if (under_way_->sends.empty()) return true;
            }
            if (is_aborted() || Clock::now() >= until) return false;
            std::this_thread::sleep_for(kNap);
        }
    }

    std::int64_t numbers() const override { return largest_tag_ / kTagsPerNumber; }

private:
    // Under the lock.
    static bool has_ended(Transfer& transfer) {
        int ended = 0;
        check(MPI_Testall(static_cast<int>(transfer.requests.size()), transfer.requests.data(),
                          &ended, MPI_STATUSES_IGNORE));
        return ended != 0;
    }
    void clear_sent() {
        for (auto transfer = under_way_->sends.begin(); transfer != under_way_->sends.end();) {
            transfer = has_ended(transfer->second) ? under_way_->sends.erase(transfer)
                                                   : std::next(transfer);
        }
    }

    void give_up(std::unique_ptr<Transfer> transfer) {
        const std::lock_guard lock(mutex_);
        under_way_->given_up.push_back(std::move(transfer));
    }
    bool has_received(Transfer& transfer, Address from);
    void drive();

    std::mutex& mutex_;
    MPI_Comm own_;
    std::int64_t largest_message_;
    int largest_tag_ = 0;
    std::condition_variable changed_;
    bool ends_ = false;
    Ticket next_ = 0;
    // Left behind when something failed: MPI may still read and write there.
    struct UnderWay {
        std::map<Ticket, Transfer> sends;
        std::vector<std::unique_ptr<Transfer>> given_up;
    };
    UnderWay* under_way_ = new UnderWay;
    std::thread driver_;
};

void Mailboxes::drive() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
        if (under_way_->sends.empty()) {
            changed_.wait(lock);
            continue;
        }
        try {
            clear_sent();
        } catch (const DeviceError& error) {
            abort_->raise(error.what());
            return;
        }
        lock.unlock();
        std::this_thread::sleep_for(kNap);
        lock.lock();
    }
}

// Has it come? Throws when it is no message of that size.
bool Mailboxes::has_received(Transfer& transfer, Address from) {
    std::vector<MPI_Status> statuses(transfer.requests.size());
    const std::lock_guard lock(mutex_);
    int ended = 0;
    const int error = MPI_Testall(static_cast<int>(transfer.requests.size()),
                                  transfer.requests.data(), &ended, statuses.data());
    if (error == MPI_ERR_IN_STATUS) {
        for (const MPI_Status& status : statuses) {
            int kind = status.MPI_ERROR;
            if (kind == MPI_SUCCESS || kind == MPI_ERR_PENDING) continue;
            MPI_Error_class(status.MPI_ERROR, &kind);
            if (kind == MPI_ERR_TRUNCATE) break;
            check(status.MPI_ERROR);
        }
        throw DeviceError("rank " + std::to_string(from.process) +
                          " sent more bytes than expected. Give all ranks the same plan.");
    }
    check(error);
    if (ended == 0) return false;
    std::size_t came = 0;
    for (std::size_t i = 1; i < statuses.size(); ++i) {
        int bytes = 0;
        MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
        came += static_cast<std::size_t>(bytes);
    }
    if (came != transfer.tensor.nbytes()) refuse_size(from, came, transfer.tensor.nbytes());
    return true;
}

std::optional<std::int64_t> Mailboxes::receive(Address from, const at::Tensor& into,
                                               Clock::time_point until) {
    auto transfer = std::make_unique<Transfer>();
    transfer->tensor = into.is_cpu() ? into : at::empty_like(into, into.options().device(at::kCPU));
    try {
        {
            const std::lock_guard lock(mutex_);
            const auto receive = [&](void* data, int bytes, int tag, MPI_Request* request) {
                return MPI_Irecv(data, bytes, MPI_BYTE, from.process, tag, own_, request);
            };
            transfer->begin(from.number, largest_message_, receive);
        }
        const auto began = Clock::now();
        while (!has_received(*transfer, from)) {
            stop_if_aborted();
            if (Clock::now() >= until) {
                give_up(std::move(transfer));
                return std::nullopt;
            }
            pause(began);
        }
    } catch (...) {
        give_up(std::move(transfer));
        throw;
    }
    copy_tensor(into, transfer->tensor);
    return transfer->note;
}

}  // namespace

std::unique_ptr<MpiMailbox> mpi_mailbox(std::mutex& mutex, MPI_Comm own,
                                        std::shared_ptr<Abort> abort,
                                        std::int64_t largest_message) {
    return std::make_unique<Mailboxes>(mutex, own, std::move(abort), largest_message);
}

}  // namespace partita::runtime
