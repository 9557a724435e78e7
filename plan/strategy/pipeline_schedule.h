// SPDX-License-Identifier: Apache-2.0
//
// Schedules of pipelines: in which order a device passes its blocks. A block is all forwards, or
// all backwards, of one micro-batch in one chunk of the device's ops. With F forwards and B
// backwards of micro-batches 0..3, on the first of two stages:
//
//     gpipe         F0 F1 F2 F3 B0 B1 B2 B3     every forward before any backward
//     1f1b          F0 F1 B0 F2 B1 F3 B2 B3     a forward waits for the backward `window` before it
//     eager-1f1b    F0 F1 F2 B0 F3 B1 B2 B3     the same with a wider window, which hides transfers
//     interleaved   F0 F1 f0 f1 F2 b0 F3 b1 ... two chunks (F, f) of the model on each device
//     zb-h1         F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3     1f1b; the gradients of weights are
//                   blocks of their own (W), which fill what are bubbles there: on stage s a W comes
//                   after the B of s micro-batches later
//
// A schedule is one row of a table: its window, in blocks, and whether the gradients of weights are
// apart say everything. What stages and chunks are follows from the strategy (stages.h).
// Source: RULES.md 22; Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019,
// and Megatron-LM, SC 2021, section 2.2; Zhuang et al., On Optimizing the Communication of Model
// Parallelism, MLSys 2023, section 4; Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024,
// section 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/strategy/pass.h"

namespace partita::plan {

enum class ScheduleKind : std::uint8_t {
    none,
    gpipe,
    one_f_one_b,
    eager_1f1b,
    interleaved,
    zero_bubble_h1
};

struct Schedule {
    ScheduleKind kind = ScheduleKind::none;
    int chunks = 1;  ///< of the model on each device
    friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// "none", "1f1b", "interleaved".
std::string_view name_of(ScheduleKind kind);
/// "none", "1f1b", "interleaved:2".
std::string to_text(Schedule schedule);
std::optional<Schedule> schedule_from_text(std::string_view text);
/// All of them, for messages: "none, gpipe, ..., interleaved:V".
std::string schedule_names();

/// Chunks beyond that are refused.
inline constexpr int kMostChunks = 64;

/// Does the backward leave the gradients of weights to a pass of its own?
bool splits_backward_of(Schedule schedule);

struct Block {
    /// forward, backward or weights; what runs again is part of the backward.
    Pass pass = Pass::forward;
    int chunk = 0;
    int micro_batch = 0;
    friend bool operator==(const Block&, const Block&) = default;
};

struct PipelineShape {
    int stages = 1;
    int micro_batches = 1;
    bool training = true;  ///< inference has no backward blocks
};

/// How many forward blocks a stage may be ahead of its backward blocks.
int window_of(Schedule schedule, const PipelineShape& shape, int stage);

/// Of how many forward blocks a stage holds what is saved for backward, at most: of its window, and
/// of those whose gradients of weights are still to come.
int held_blocks(Schedule schedule, const PipelineShape& shape, int stage);

/// All blocks of a stage in order. Interleaved: the micro-batches must be a multiple of the stages.
std::vector<Block> sequence_of(Schedule schedule, const PipelineShape& shape, int stage);

}  // namespace partita::plan
