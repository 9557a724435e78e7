// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "runtime/communicate/nccl_communicator.h"

namespace partita::runtime {
namespace {

[[noreturn]] void refuse() {
    throw UsageError(
        "several GPUs: this program was built without NCCL. Build it with the preset 'cuda' where "
        "nccl.h is.");
}

}  // namespace

bool has_nccl() {
    return false;
}

std::string nccl_unique_id() {
    refuse();
}

std::unique_ptr<Communicator> nccl_communicator(std::string_view /*unique_id*/, int /*rank*/,
                                                int /*size*/, at::Device /*device*/,
                                                const CommunicatorOptions& /*options*/) {
    refuse();
}

}  // namespace partita::runtime
