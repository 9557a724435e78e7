// SPDX-License-Identifier: Apache-2.0
//
// The processes of one run, on one or several hosts, and the groups of ranks that reach over them.
//
//     MPI          started by mpirun or srun; bulk data                     mpi_processes.cpp
//     TCP store    LibTorch's TCPStore; started by whatever says where      store_processes.cpp
//                  rank 0 listens. All bytes pass through rank 0: enough for
//                  digests, NCCL's unique ids and small tests, slow for tensors
//
// A process may hold several ranks of a group, each on its own thread.
//
// When a process dies, hangs or runs another plan, the others throw DeviceError within the
// time-out. A process that failed must not wait for anyone any more: its last step is end_all().
//
// Threads: communicator() from one thread; the communicators it gives and the mailbox beside each
// other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/communicate/communicator.h"
#include "runtime/communicate/launch.h"
#include "runtime/communicate/mailbox.h"

namespace partita::runtime {

struct ProcessGroup {
    int number = 0;                    ///< of the group: its own, the same on all processes; >= 0
    std::vector<int> process_of_rank;  ///< which process holds each rank
    std::vector<std::string> names;    ///< of the ranks, for messages; or none
};

class Processes {
public:
    /// Leaves together with the others, unless something failed.
    virtual ~Processes() = default;
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// "MPI", "TCP store"
    [[nodiscard]] virtual std::string_view name() const = 0;

    /// For a rank that lies in this process; it must not outlive this object. No communication.
    [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(const ProcessGroup& group,
                                                                     int rank) = 0;
    /// One rank per process; for one thread. Throws when the communicator does.
    [[nodiscard]] Communicator& world() { return *world_; }
    /// For any thread.
    [[nodiscard]] Mailbox& mailbox() { return *mailbox_; }

    /// Ends this process, and all others as far as the library can, with that exit code. For
    /// main(), after it has reported: nothing is destroyed.
    [[noreturn]] virtual void end_all(int exit_code) = 0;

protected:
    Processes(int rank, int size) : rank_(rank), size_(size) {}

    int rank_;
    int size_;
    std::unique_ptr<Communicator> world_;
    std::unique_ptr<Mailbox> mailbox_;
};

/// Has this program MPI?
bool has_mpi();
/// Starts MPI; once per process. Throws UsageError when the program has no MPI, or when MPI knows
/// of other processes than `launch`; DeviceError when MPI does not start. Time-out and Abort are
/// those of all groups.
std::unique_ptr<Processes> mpi_processes(const Launch& launch, const CommunicatorOptions& options);
/// Throws UsageError when nothing says where rank 0 listens, DeviceError when it cannot be reached.
std::unique_ptr<Processes> store_processes(const Launch& launch,
                                           const CommunicatorOptions& options);
/// The right one of the two for what started this process; null: it is alone.
std::unique_ptr<Processes> join_processes(const Launch& launch, const CommunicatorOptions& options);

/// What every rank gives, in order of rank: digests, NCCL's unique ids.
std::vector<std::string> share(Communicator& communicator, std::string_view mine);
/// Throws MismatchError naming the first rank whose `text` differs from that of rank 0; on all
/// ranks.
void check_same(Communicator& communicator, std::string_view what, std::string_view text);

}  // namespace partita::runtime
