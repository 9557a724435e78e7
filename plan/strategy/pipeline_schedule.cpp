// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

namespace partita::plan {

namespace {

struct ScheduleRow {
    ScheduleKind kind;
    std::string_view name;
    bool has_chunks;
    /// p stages, stage s from 0, m micro-batches, v chunks.
    int (*window)(int p, int s, int m, int v);
    bool splits_backward = false;
};

constexpr std::array kSchedules = {
    ScheduleRow{ScheduleKind::none, "none", false, [](int, int, int m, int v) { return m * v; }},
    ScheduleRow{ScheduleKind::gpipe, "gpipe", false, [](int, int, int m, int v) { return m * v; }},
    ScheduleRow{ScheduleKind::one_f_one_b, "1f1b", false,
                [](int p, int s, int, int) { return p - s; }},
    ScheduleRow{ScheduleKind::eager_1f1b, "eager-1f1b", false,
                [](int p, int s, int, int) { return 2 * (p - s) - 1; }},
    ScheduleRow{ScheduleKind::interleaved, "interleaved", true,
                [](int p, int s, int, int v) { return 2 * (p - 1 - s) + (v - 1) * p + 1; }},
    ScheduleRow{ScheduleKind::zero_bubble_h1, "zb-h1", false,
                [](int p, int s, int, int) { return p - s; }, true},
};

const ScheduleRow& row_of(ScheduleKind kind) {
    const auto row = std::ranges::find(kSchedules, kind, &ScheduleRow::kind);
    assert(row != kSchedules.end());
    return *row;
}

/// The i-th block of one direction: micro-batches in groups as large as the pipeline, each group
/// through all chunks before the next one starts. One chunk: simply the i-th micro-batch.
Block block_of(int i, Pass pass, int chunks, int stages) {
    if (chunks == 1) return {.pass = pass, .chunk = 0, .micro_batch = i};
    const int group = i / (stages * chunks);
    const int within = i % (stages * chunks);
    const int chunk = within / stages;
    return {.pass = pass,
            .chunk = pass == Pass::forward ? chunk : chunks - 1 - chunk,
            .micro_batch = group * stages + within % stages};
}

}  // namespace

bool splits_backward_of(Schedule schedule) {
    return row_of(schedule.kind).splits_backward;
}

std::string_view name_of(ScheduleKind kind) {
    return row_of(kind).name;
}

std::string to_text(Schedule schedule) {
    const ScheduleRow& row = row_of(schedule.kind);
    return row.has_chunks ? fmt::format("{}:{}", row.name, schedule.chunks) : std::string(row.name);
}

std::optional<Schedule> schedule_from_text(std::string_view text) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const auto row = std::ranges::find(kSchedules, text.substr(0, colon), &ScheduleRow::name);
    if (row == kSchedules.end() || row->has_chunks != (colon < text.size())) return std::nullopt;
    if (!row->has_chunks) return Schedule{.kind = row->kind};
    const std::string_view number = text.substr(colon + 1);
    int chunks = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), chunks);
    const bool whole = error == std::errc{} && end == number.data() + number.size();
    if (!whole || chunks < 2 || chunks > kMostChunks) return std::nullopt;
    return Schedule{.kind = row->kind, .chunks = chunks};
}

std::string schedule_names() {
    std::string names;
    for (const ScheduleRow& row : kSchedules) {
        names +=
            fmt::format("{}{}{}", names.empty() ? "" : ", ", row.name,
                        row.has_chunks ? fmt::format(":V with V from 2 to {}", kMostChunks) : "");
    }
    return names;
}

int window_of(Schedule schedule, const PipelineShape& shape, int stage) {
    return row_of(schedule.kind).window(shape.stages, stage, shape.micro_batches, schedule.chunks);
}

int held_blocks(Schedule schedule, const PipelineShape& shape, int stage) {
    // sequence_of(): a W comes after the B of `stage` micro-batches later.
    const int pending = splits_backward_of(schedule) ? stage : 0;
    return std::min(shape.micro_batches * schedule.chunks,
                    window_of(schedule, shape, stage) + pending);
}

std::vector<Block> sequence_of(Schedule schedule, const PipelineShape& shape, int stage) {
    const int chunks = schedule.chunks;
    assert(chunks == 1 || shape.micro_batches % shape.stages == 0);
    const int count = shape.micro_batches * chunks;
    const int window = std::min(count, window_of(schedule, shape, stage));
    const bool splits = splits_backward_of(schedule);
    std::vector<Block> blocks;
    const auto add = [&](int i, Pass pass) {
        if (i >= 0) blocks.push_back(block_of(i, pass, chunks, shape.stages));
    };
    const auto add_backward = [&](int i) {
        add(i, Pass::backward);
        if (splits) add(i - stage, Pass::weights);
    };
    for (int i = 0; i < count; ++i) {
        if (shape.training && i >= window) add_backward(i - window);
        add(i, Pass::forward);
    }
    if (!shape.training) return blocks;
    for (int i = count - window; i < count; ++i) add_backward(i);
    for (int i = count - stage; splits && i < count; ++i) add(i, Pass::weights);
    return blocks;
}

}  // namespace partita::plan
