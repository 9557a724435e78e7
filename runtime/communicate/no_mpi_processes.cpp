// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "runtime/communicate/processes.h"

namespace partita::runtime {

bool has_mpi() {
    return false;
}

std::unique_ptr<Processes> mpi_processes(const Launch& /*launch*/,
                                         const CommunicatorOptions& /*options*/) {
    throw UsageError(
        "several processes: this program was built without MPI. Install libopenmpi-dev and build "
        "it again, or start it with torchrun.");
}

}  // namespace partita::runtime
