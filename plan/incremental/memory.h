// SPDX-License-Identifier: Apache-2.0
//
// Peak memory of a strategy that changes a little at a time: what plan/simulation/peak_memory.h
// says of the task graph that lower() would give, without one.
//
//     order of commits      a  b  c  d  e  f        (slots)
//     resource 1            a     c     e
//     resource 2               b  c        f
//     a has ended when c begins, c when e does: a buffer that a writes and c reads is there in [a, e)
//
// Backwards through the order: when has each task certainly ended? Then tensor by tensor: which
// task writes a buffer, and who of its users ends last? A view keeps its root for as long; views
// are made later than what they view, so tensors go backwards too. Then forwards through the order
// with what begins and ends: in stretches first, as if nothing ended before all has begun; position
// by position where that is too much.
//
// What each tensor's buffers are is kept while the tensor keeps its tasks. Devices on which
// everything that is ever held would fit together are left out.
//
// Cost: proportional to the tasks; see docs/search-design.md. No allocation once lists have grown.
// Threads: one object per thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/small_vector.h"
#include "base/units.h"
#include "plan/incremental/lowering.h"
#include "plan/incremental/slot_graph.h"
#include "plan/problem/problem.h"

namespace partita::plan {

class IncrementalMemory {
public:
    /// Both must outlive it. A capacity per device.
    IncrementalMemory(const Problem& problem, const IncrementalLowering& lowering,
                      std::vector<Bytes> capacities);

    /// Does everything fit together that is ever held, with the pending change?
    [[nodiscard]] bool surely_fits() const;
    /// Peak bytes per device with the pending change, whose tasks are committed in this order; an
    /// upper bound of them where that fits. Valid until the next call.
    std::span<const Bytes> peaks(const SlotGraph& graph, std::span<const Slot> order);
    /// Of these peaks: sum over devices of the bytes above capacity.
    [[nodiscard]] Bytes overflow() const;

private:
    /// Bytes of a tensor that are allocated and freed as one: a buffer that lies in no other of the
    /// tensor.
    struct Value {
        Bytes bytes;
        std::int32_t device = 0;
        std::int32_t kept_until = 0;  ///< by views; 0 between calls
        std::uint32_t users = 0;      ///< end of them in Row::users; the writer is one
    };
    /// A task of a tensor, or ~slot of a part.
    using User = std::int32_t;
    /// What is known of a tensor's buffers, in one micro-batch.
    struct Row {
        const TensorTasks* tasks = nullptr;  ///< of which this is known
        std::vector<Value> values;
        std::vector<User> users;             ///< of each value, first the writer
        std::vector<std::int32_t> value_of;  ///< per buffer; -1: it has no bytes
    };
    /// An event of a result's row that makes it, and the one of the operand's row that finds what it
    /// is made of.
    struct Made {
        std::size_t event = 0;
        std::size_t found = 0;
    };
    /// A result; if it uses the memory of an operand, of which row, and each time it is made.
    struct View {
        std::size_t row = 0;
        std::size_t viewed = 0;
        SmallVector<Made, 1> made;
    };
    /// Values of a row that an event makes, one per part.
    struct MadeValues {
        std::size_t begin = 0;
        std::size_t end = 0;
        std::size_t found = 0;  ///< as Made
    };
    /// A task by position: its commit, and the first that proves that it has ended, or the end of
    /// all.
    struct Span {
        std::int32_t begin = 0;
        std::int32_t end = 0;
    };
    /// A value that is held on a device in doubt, by position.
    struct Life {
        std::int64_t bytes = 0;
        std::int32_t device = 0;
        std::int32_t begin = 0;
        std::int32_t end = 0;
        std::int32_t next_begin = -1;  ///< that begins in the same stretch
        std::int32_t next_end = -1;
    };
    /// Some positions that follow each other: lists of lives. -1: it is empty.
    struct Stretch {
        std::int32_t begins = -1;
        std::int32_t ends = -1;
    };
    /// What begins and ends there on one device.
    struct Bulk {
        std::int64_t begins = 0;
        std::int64_t ends = 0;
    };
    static constexpr int kStretch = 6;  ///< 2^6 positions

    // memory.cpp: the life of each value
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    void number_rows();
    [[nodiscard]] View view_of(graph::OpId op, graph::TensorId result, int micro_batch) const;
    [[nodiscard]] std::size_t event_of_use(std::size_t row, const TensorEvent& made) const;
    void renew(std::size_t row);
    void add_values(std::size_t row, const TensorTasks& tasks);
    void add_users(std::size_t row, const TensorTasks& tasks);
    void find_spans(const SlotGraph& graph, std::span<const Slot> order);
    void add_persistent(const TensorTasks& tasks, std::int64_t sign);
    void add_given();
    void add_lives(const View& view);
    [[nodiscard]] MadeValues values_of(const View& view, const Made& made) const;
    [[nodiscard]] bool is_viewing(const View& view, std::size_t value, Value*& root);
    [[nodiscard]] Span span_of(User user, std::span<const Slot> slots) const {
        const Slot slot = user < 0 ? ~user : slots[static_cast<std::size_t>(user)];
        return spans_[static_cast<std::size_t>(slot)];
    }

    // memory_sweep.cpp: all of them together
    void add_life(const Value& value, std::int32_t begin, std::int32_t end);
    void sweep();
    void link_lives();
    void sweep_exactly(std::size_t number);
    Bulk& bulk(std::int32_t position, std::int32_t device) {
        const auto stretch = static_cast<std::size_t>(position >> kStretch);
        return bulks_[stretch * capacities_.size() + static_cast<std::size_t>(device)];
    }

    const Problem& problem_;
    const IncrementalLowering& lowering_;
    std::vector<Bytes> capacities_;
    std::vector<View> backwards_;  ///< all tensors, those made last first
    std::vector<Row> rows_;
    std::vector<Bytes> persistent_;   ///< per device, of these rows
    std::vector<graph::OpId> given_;  ///< ops whose memory is given
    // Of the latest call.
    std::vector<Span> spans_;         ///< per slot
    std::vector<std::int32_t> next_;  ///< per resource: position of the commit that comes next
    std::vector<char> in_doubt_;      ///< per device
    std::vector<Life> lives_;
    std::vector<Stretch> stretches_;  ///< empty: not needed so far
    std::vector<Bulk> bulks_;         ///< per stretch and device
    std::vector<std::int64_t>
        steps_;  ///< per position of a stretch and device: so much more is held
    std::vector<std::int64_t> held_;  ///< per device, before a stretch
    std::vector<std::int64_t> now_held_;
    std::vector<Bytes> peaks_;                         ///< the same
    std::vector<std::pair<std::int32_t, User>> uses_;  ///< scratch: value, user
    std::vector<std::uint32_t> ends_;                  ///< the same: per value
    SmallVector<MadeValues, 3> made_;                  ///< the same, of a row
};

}  // namespace partita::plan
