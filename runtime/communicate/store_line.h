// SPDX-License-Identifier: Apache-2.0
//
// A process's line to the TCPStore where all messages meet. Private to the files of the TCP store.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/communicate/caller.h"

namespace partita::runtime {

inline constexpr auto kStoreNap = std::chrono::microseconds(100);
inline constexpr int kNapsBetweenLooks = 50;  ///< whether some process has failed
/// A call may take so much longer than its operation before the server counts as hanging: it may well be
/// the other rank that does not come, and the call in between two looks for it.
inline constexpr auto kStoreGrace = std::chrono::seconds(1);
inline constexpr const char* kStoreHangs =
    "the process where all messages meet, that of rank 0, hangs";

inline std::string store_is_gone(const c10::Error& error) {
    return std::string("the process where all messages meet, that of rank 0, is gone: ") +
           error.what_without_backtrace();
}

/// Why a process failed, as it said before it ended; empty: none has.
inline std::string reason_of_failure(c10d::TCPStore& store) {
    constexpr const char* kFailed = "partita/failed";
    if (!store.check({kFailed})) return "";
    const std::vector<std::uint8_t> text = store.get(kFailed);
    return {text.begin(), text.end()};
}
inline void say_failure(c10d::TCPStore& store, const std::string& reason) {
    store.set("partita/failed", {reason.begin(), reason.end()});
}

struct StoreLine {
    c10::intrusive_ptr<c10d::TCPStore> store;
    Caller* caller = nullptr;

    /// The answer comes later, and may be ignored.
    template <class Call>
    auto begin(Call call) const {
        return caller->begin([to = store, call = std::move(call)] { return call(*to); });
    }
    /// What `call` says of the store. `check` is called now and then, and throws when it takes too long.
    template <class Call, class Check>
    auto ask(Call call, const Check& check) const {
        constexpr auto kGlance = std::chrono::milliseconds(10);
        auto answer = begin(std::move(call));
        while (answer.wait_for(kGlance) != std::future_status::ready) check();
        return answer.get();
    }
};

}  // namespace partita::runtime
