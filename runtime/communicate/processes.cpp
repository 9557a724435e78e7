// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/processes.h"

#include <cstring>
#include <numeric>

#include <ATen/ATen.h>

#include "base/error.h"

namespace partita::runtime {
namespace {

at::Tensor bytes_of(std::string_view text) {
    const at::Tensor bytes = at::empty({std::ssize(text)}, at::kByte);
    if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
    return bytes;
}

}  // namespace

std::unique_ptr<Processes> join_processes(const Launch& launch,
                                          const CommunicatorOptions& options) {
    if (launch.size == 1) return nullptr;
    const bool by_mpi = launch.launcher == Launcher::mpirun ||
                        (launch.launcher == Launcher::srun && launch.master_address.empty());
    return by_mpi ? mpi_processes(launch, options) : store_processes(launch, options);
}

std::vector<std::string> share(Communicator& communicator, std::string_view mine) {
    const std::vector<std::int64_t> ones(communicator.size(), 1);
    const at::Tensor sizes = at::empty({communicator.size()}, at::kLong);
    communicator.all_gather(sizes, at::full({1}, std::ssize(mine), at::kLong), ones);

    const std::int64_t* const size = sizes.const_data_ptr<std::int64_t>();
    const Counts counts(size, ones.size());
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const at::Tensor all = at::empty({total}, at::kByte);
    communicator.all_gather(all, bytes_of(mine), counts);

    std::vector<std::string> texts;
    const char* text = static_cast<const char*>(all.const_data_ptr());
    for (const std::int64_t count : counts) {
        texts.emplace_back(text, static_cast<std::size_t>(count));
        text += count;
    }
    return texts;
}

void check_same(Communicator& communicator, std::string_view what, std::string_view text) {
    const std::vector<std::string> all = share(communicator, text);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] == all[0]) continue;
        throw MismatchError("rank " + std::to_string(rank) + ": its " + std::string(what) +
                            " is not that of rank 0: '" + all[rank] + "' against '" + all[0] +
                            "'. Give all processes the same files and version.");
    }
}

}  // namespace partita::runtime
