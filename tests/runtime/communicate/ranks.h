// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/runtime/communicate/thread_communicator.h"

namespace partita::runtime {

using Ranks = std::vector<std::unique_ptr<Communicator>>;

/// Each rank on a thread; what each threw, or "".
inline std::vector<std::string> run(const Ranks& ranks,
                                    const std::function<void(Communicator&)>& work) {
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        threads.emplace_back([&, rank] {
            try {
                work(*ranks[rank]);
            } catch (const DeviceError& error) {
                errors[rank] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

}  // namespace partita::runtime
