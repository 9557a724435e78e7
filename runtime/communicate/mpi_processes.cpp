// SPDX-License-Identifier: Apache-2.0
//
// MPI point to point, non-blocking and polled, so that a time-out can fire; collectives are those
// of Communicator. No MPI communicator but MPI_COMM_WORLD: a tag tells groups apart, and within a
// group which of a process's ranks are meant:
//
//     tag = 1024 group + 32 (sender's number in its process) + receiver's number in its process
//
// One lock around every call (MPI_THREAD_SERIALIZED): tests are short, and no library's own
// locking is relied on. Tensors on a GPU pass through the host's memory.
//
// Besides there is the mailbox (mpi_mailbox.cpp). After a failure requests may still be under way,
// so their tensors are kept until the process ends, and MPI_Finalize, which would wait for the
// others, is left out: mpirun then ends the job.
#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>
#include <mpi.h>

#include "base/error.h"
#include "runtime/communicate/caller.h"
#include "runtime/communicate/combine.h"
#include "runtime/communicate/message_pieces.h"
#include "runtime/communicate/mpi_mailbox.h"
#include "runtime/communicate/processes.h"

namespace partita::runtime {
namespace {

constexpr int kRanksPerProcess = 32;
constexpr int kTagsPerGroup = kRanksPerProcess * kRanksPerProcess;
constexpr int kSpins = 200;

// What all communicators of the process share.
struct Mpi {
    CommunicatorOptions options;
    std::mutex mutex;
    int largest_tag = 0;
    std::vector<at::Tensor> kept;  // of requests that never ended
};

// One piece of a message, sent or received.
struct Piece {
    int peer = 0;
    std::int64_t bytes = 0;
    bool is_receive = false;
};

class MpiCommunicator final : public Communicator {
public:
    MpiCommunicator(Mpi& mpi, const ProcessGroup& group, int rank);

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override;

private:
    using Tensors = c10::SmallVector<at::Tensor, 16>;

    void post(const at::Tensor& tensor, int peer, bool is_receive);
    void check(int error, int peer) const;
    [[nodiscard]] bool test();
    void finish(std::size_t index, const MPI_Status& status);
    void poll();
    [[noreturn]] void give_up();

    Mpi& mpi_;
    int first_tag_;
    std::vector<int> process_of_rank_;
    std::vector<int> number_of_rank_;  // among the group's ranks in its process
    // of the transfer that runs; vectors keep their memory
    std::vector<MPI_Request> requests_;
    std::vector<Piece> pieces_;
    std::vector<MPI_Status> statuses_;
    std::vector<int> ended_;
    std::vector<at::Tensor> tensors_;
};

MpiCommunicator::MpiCommunicator(Mpi& mpi, const ProcessGroup& group, int rank)
    : Communicator(
          rank, static_cast<int>(group.process_of_rank.size()),
          {.timeout = mpi.options.timeout, .names = group.names, .abort = mpi.options.abort}),
      mpi_(mpi),
      first_tag_(group.number * kTagsPerGroup),
      process_of_rank_(group.process_of_rank) {
    for (auto it = process_of_rank_.begin(); it != process_of_rank_.end(); ++it) {
        number_of_rank_.push_back(static_cast<int>(std::count(process_of_rank_.begin(), it, *it)));
    }
}

void MpiCommunicator::check(int error, int peer) const {
    if (error == MPI_SUCCESS) return;
    int kind = error;
    MPI_Error_class(error, &kind);
    if (kind == MPI_ERR_TRUNCATE) {
        fail(name_of(peer) + " sent more bytes than expected. Give all ranks the same plan.");
    }
    fail("MPI with " + name_of(peer) + ": " + mpi_text_of(error));
}

void MpiCommunicator::post(const at::Tensor& tensor, int peer, bool is_receive) {
    const int from = number_of_rank_[is_receive ? peer : rank()];
    const int to = number_of_rank_[is_receive ? rank() : peer];
    const int tag = first_tag_ + from * kRanksPerProcess + to;
    const int process = process_of_rank_[peer];
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    tensors_.push_back(tensor);
    const std::int64_t largest = mpi_.options.largest_message;
    for_each_piece(size, largest, [&](std::int64_t begin, std::int64_t bytes) {
        char* const data = static_cast<char*>(tensor.data_ptr()) + begin;
        MPI_Request request = MPI_REQUEST_NULL;
        const int count = static_cast<int>(bytes);
        check(is_receive ? MPI_Irecv(data, count, MPI_BYTE, process, tag, MPI_COMM_WORLD, &request)
                         : MPI_Isend(data, count, MPI_BYTE, process, tag, MPI_COMM_WORLD, &request),
              peer);
        requests_.push_back(request);
        pieces_.push_back({peer, bytes, is_receive});
    });
}

void MpiCommunicator::finish(std::size_t index, const MPI_Status& status) {
    const Piece& piece = pieces_[index];
    if (!piece.is_receive) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes == piece.bytes) return;
    fail(name_of(piece.peer) + " sent " + std::to_string(bytes) + " bytes where " +
         std::to_string(piece.bytes) + " were expected. Give all ranks the same plan.");
}

// Have all requests ended?
bool MpiCommunicator::test() {
    const std::lock_guard lock(mpi_.mutex);
    int count = 0;
    const int error = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                   ended_.data(), statuses_.data());
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) check(error, pieces_.front().peer);
    if (count == MPI_UNDEFINED) return true;
    for (int i = 0; i < count; ++i) {
        const std::size_t index = ended_[i];
        if (error == MPI_ERR_IN_STATUS) check(statuses_[i].MPI_ERROR, pieces_[index].peer);
        finish(index, statuses_[i]);
    }
    return std::ranges::all_of(requests_, [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
}

void MpiCommunicator::poll() {
    for (int round = 0; !test(); ++round) {
        if (is_aborted() || is_late()) give_up();
        if (round < kSpins) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(kNap);
        }
    }
}

void MpiCommunicator::give_up() {
    stop_if_aborted();
    std::vector<int> missing;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (requests_[i] != MPI_REQUEST_NULL) missing.push_back(pieces_[i].peer);
    }
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    time_out(missing);
}

at::Tensor on_host(const at::Tensor& tensor) {
    return tensor.is_cpu() ? tensor : at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
}

void MpiCommunicator::do_transfer(std::span<const Message> sends,
                                  std::span<const Message> receives) {
    requests_.clear();
    pieces_.clear();
    tensors_.clear();
    Tensors outgoing;
    Tensors incoming;
    for (const Message& message : sends) outgoing.push_back(message.tensor.cpu());
    for (const Message& message : receives) incoming.push_back(on_host(message.tensor));
    try {
        {
            const std::lock_guard lock(mpi_.mutex);
            for (std::size_t i = 0; i < receives.size(); ++i) {
                post(incoming[i], receives[i].peer, /*is_receive=*/true);
            }
            for (std::size_t i = 0; i < sends.size(); ++i) {
                post(outgoing[i], sends[i].peer, /*is_receive=*/false);
            }
        }
        statuses_.resize(requests_.size());
        ended_.resize(requests_.size());
        poll();
    } catch (...) {
        const std::lock_guard lock(mpi_.mutex);
        mpi_.kept.insert(mpi_.kept.end(), tensors_.begin(), tensors_.end());
        throw;
    }
    for (std::size_t i = 0; i < receives.size(); ++i) copy_tensor(receives[i].tensor, incoming[i]);
    tensors_.clear();
}

class MpiProcesses final : public Processes {
public:
    MpiProcesses(const Launch& launch, const CommunicatorOptions& options);
    ~MpiProcesses() override;

    std::string_view name() const override { return "MPI"; }
    std::unique_ptr<Communicator> communicator(const ProcessGroup& group, int rank) override;
    [[noreturn]] void end_all(int exit_code) override;

private:
    void start();
    [[nodiscard]] MPI_Comm second_world();

    // Starts MPI and ends it, which waits for the other processes without a time-out.
    Caller caller_;
    // Leaked when something failed: MPI may still write to what it keeps.
    Mpi* mpi_ = new Mpi;
    MpiMailbox* mpi_mailbox_ = nullptr;  // what mailbox_ owns
    int exceptions_ = std::uncaught_exceptions();
};

void MpiProcesses::start() {
    auto starting = caller_.begin([]() -> std::string {
        int level = 0;
        const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
        if (error != MPI_SUCCESS) return "MPI does not start: " + mpi_text_of(error);
        return level < MPI_THREAD_SERIALIZED ? "this MPI allows no threads." : "";
    });
    if (starting.wait_for(mpi_->options.timeout) != std::future_status::ready) {
        throw DeviceError("rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                          ": MPI did not start in time: not all processes have come. See what they "
                          "reported, or allow more time with --timeout.");
    }
    const std::string error = starting.get();
    if (!error.empty()) throw DeviceError(error);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

// For the mailbox: its tags are its own.
MPI_Comm MpiProcesses::second_world() {
    const auto until = std::chrono::steady_clock::now() + mpi_->options.timeout;
    MPI_Comm second = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(MPI_COMM_WORLD, &second, &request);
    for (int ended = 0; ended == 0;) {
        MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
        if (ended != 0) break;
        if (std::chrono::steady_clock::now() >= until) {
            throw DeviceError("rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                              ": MPI: not all processes came in time. See what they reported, or "
                              "allow more time with --timeout.");
        }
        std::this_thread::sleep_for(kNap);
    }
    MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN);
    return second;
}

MpiProcesses::MpiProcesses(const Launch& launch, const CommunicatorOptions& options)
    : Processes(launch.rank, launch.size) {
    mpi_->options = options;
    if (!mpi_->options.abort) mpi_->options.abort = std::make_shared<Abort>();
    start();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (rank_ != launch.rank || size_ != launch.size) {
        throw UsageError("MPI sees rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                         ", and the environment rank " + std::to_string(launch.rank) + " of " +
                         std::to_string(launch.size) +
                         ". Use the mpirun of the MPI that this program was built with.");
    }
    void* largest = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest), &found);
    mpi_->largest_tag = found != 0 ? *static_cast<int*>(largest) : 32'767;
    ProcessGroup all;
    for (int process = 0; process < size_; ++process) all.process_of_rank.push_back(process);
    world_ = std::make_unique<MpiCommunicator>(*mpi_, all, rank_);
    auto mailbox = mpi_mailbox(mpi_->mutex, second_world(), mpi_->options.abort,
                               mpi_->options.largest_message);
    mpi_mailbox_ = mailbox.get();
    mailbox_ = std::move(mailbox);
}

// MPI_Finalize waits for everyone: all say first that they come.
MpiProcesses::~MpiProcesses() {
    if (mpi_->options.abort->raised() || std::uncaught_exceptions() > exceptions_) return;
    try {
        if (!mpi_mailbox_->drain(std::chrono::steady_clock::now() + mpi_->options.timeout)) return;
        world_->barrier();
    } catch (const DeviceError&) {
        return;
    }
    mailbox_.reset();
    const auto ending = caller_.begin([] { MPI_Finalize(); });
    if (ending.wait_for(mpi_->options.timeout) == std::future_status::ready) delete mpi_;
}

std::unique_ptr<Communicator> MpiProcesses::communicator(const ProcessGroup& group, int rank) {
    ProcessGroup numbered = group;
    ++numbered.number;  // 0 is the world's
    const std::int64_t last = (std::int64_t{numbered.number} + 1) * kTagsPerGroup - 1;
    if (last > mpi_->largest_tag) {
        throw DeviceError("group " + std::to_string(group.number) + ": this MPI has tags up to " +
                          std::to_string(mpi_->largest_tag) + ", too few for so many groups.");
    }
    return std::make_unique<MpiCommunicator>(*mpi_, numbered, rank);
}

void MpiProcesses::end_all(int exit_code) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
}

}  // namespace

bool has_mpi() {
    return true;
}

std::unique_ptr<Processes> mpi_processes(const Launch& launch, const CommunicatorOptions& options) {
    return std::make_unique<MpiProcesses>(launch, options);
}

}  // namespace partita::runtime
