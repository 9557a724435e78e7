// SPDX-License-Identifier: Apache-2.0
//
// A process's line to the TCPStore where all messages meet. Private to the files of the TCP store.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/communicate/caller.h"
#include "runtime/communicate/message_pieces.h"

namespace partita::runtime {

inline constexpr auto kStoreNap = std::chrono::microseconds(100);
inline constexpr int kNapsBetweenLooks = 50;  ///< whether some process has failed
/// A call may take so much longer than its operation before the server counts as hanging: it may
/// well be the other rank that does not come, and the call in between two looks for it.
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

/// TCPStore hangs up on who sends it values of more than 8 MiB.
inline constexpr std::int64_t kLargestStorePiece = std::int64_t{4} << 20;

/// Into a queue, in pieces; its size goes before it.
inline void push_message(c10d::TCPStore& store, const std::string& key,
                         std::span<const std::uint8_t> bytes) {
    const auto size = static_cast<std::int64_t>(bytes.size());
    for_each_piece(size, kLargestStorePiece, [&](std::int64_t begin, std::int64_t count) {
        const std::size_t head = begin == 0 ? sizeof size : 0;
        std::vector<std::uint8_t> piece(head + static_cast<std::size_t>(count));
        std::memcpy(piece.data(), &size, head);
        if (count > 0) {
            std::memcpy(piece.data() + head, bytes.data() + begin, static_cast<std::size_t>(count));
        }
        store.queuePush(key, piece);
    });
}
/// From a queue that is not empty: who has pushed the first piece is about to push the others.
inline std::vector<std::uint8_t> pop_message(c10d::TCPStore& store, const std::string& key) {
    const std::vector<std::uint8_t> first = store.queuePop(key, /*block=*/false);
    std::int64_t size = 0;
    std::memcpy(&size, first.data(), sizeof size);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    std::size_t came = first.size() - sizeof size;
    if (came > 0) std::memcpy(bytes.data(), first.data() + sizeof size, came);
    while (came < bytes.size()) {
        const std::vector<std::uint8_t> piece = store.queuePop(key, /*block=*/true);
        std::memcpy(bytes.data() + came, piece.data(), piece.size());
        came += piece.size();
    }
    return bytes;
}

struct StoreLine {
    c10::intrusive_ptr<c10d::TCPStore> store;
    Caller* caller = nullptr;

    /// The answer comes later, and may be ignored.
    template <class Call>
    auto begin(Call call) const {
        return caller->begin([to = store, call = std::move(call)] { return call(*to); });
    }
    /// What `call` says of the store. `check` is called now and then, and throws when it takes too
    /// long.
    template <class Call, class Check>
    auto ask(Call call, const Check& check) const {
        constexpr auto kGlance = std::chrono::milliseconds(10);
        auto answer = begin(std::move(call));
        while (answer.wait_for(kGlance) != std::future_status::ready) check();
        return answer.get();
    }
};

}  // namespace partita::runtime
