// SPDX-License-Identifier: Apache-2.0
//
// Who reads the buffers in which a trained parameter lies: its update, which is done in place, and
// whatever brings the new value come after them. Private to plan/tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

class BufferReaders {
public:
    void clear() {
        first_.clear();
        readers_.clear();
    }
    /// Of the first so many buffers.
    void watch(std::size_t buffers) { first_.assign(buffers, -1); }
    [[nodiscard]] std::size_t watched() const { return first_.size(); }

    /// Of no avail where the buffer is not watched.
    void add(TaskRef reader, std::int32_t buffer) {
        const auto b = static_cast<std::size_t>(buffer);
        if (buffer < 0 || b >= first_.size()) return;
        readers_.push_back({reader, first_[b]});
        first_[b] = static_cast<std::int32_t>(readers_.size()) - 1;
    }

    /// Calls `then` with every reader of a buffer that is watched, the latest first.
    template <class Then>
    void for_each(std::size_t buffer, Then then) const {
        for (std::int32_t r = first_[buffer]; r >= 0;) {
            const Reader& reader = readers_[static_cast<std::size_t>(r)];
            then(reader.task);
            r = reader.next;
        }
    }

private:
    struct Reader {
        TaskRef task = -1;
        std::int32_t next = -1;  ///< of the same buffer
    };
    std::vector<std::int32_t> first_;  ///< per buffer
    std::vector<Reader> readers_;
};

}  // namespace partita::plan
