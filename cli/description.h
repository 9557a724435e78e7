// SPDX-License-Identifier: Apache-2.0
//
// What a plan is, in a few lines for people and in JSON for programs (plan/description).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/description/bottleneck.h"
#include "plan/description/communication.h"
#include "plan/description/parallelism.h"
#include "plan/description/throughput.h"
#include "plan/evaluation/priced.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::cli {

/// "33.5 samples/s, 137,101 tokens/s (8,569 per device); 447 TFLOP/s per device, MFU 45.2 %"; "" where
/// nothing is known.
std::string throughput_line(const plan::Throughput& throughput);
/// What is not known is null.
nlohmann::ordered_json throughput_json(const plan::Throughput& throughput);

/// Degrees, what is split how, where it lies (plan::lines_of), with the level of ZeRO.
std::string strategy_lines(const plan::Problem& problem, const plan::Strategy& strategy);
nlohmann::ordered_json strategy_json(const plan::Problem& problem, const plan::Strategy& strategy);

/// How an op is split and where its parts lie: "m 2, n 4 on gpu0 .. gpu7", "whole on gpu3"; of a
/// parameter that others update than keep it, who does; whether it runs again.
std::string config_text(const plan::Problem& problem, graph::OpId op,
                        const plan::OpDecision& decision);

/// "97.5 MiB all-reduce of gradients in 12 ms; ...; 2 other kinds", most time first; "" where nothing
/// moves.
std::string communication_line(const std::vector<plan::Communication>& communication);
nlohmann::ordered_json communication_json(const std::vector<plan::Communication>& communication);

/// "12.3 %" of the whole; a dash where there is none.
std::string share_of(Time time, Time whole);
/// "computing 68.0 %, work of other devices 20.1 %, ..., the rest 1.2 %": six parts by name.
std::string time_parts_line(const std::vector<plan::TimeOf>& parts, Time whole);
nlohmann::ordered_json time_parts_json(const std::vector<plan::TimeOf>& parts);

/// What devices do and wait for on average; "" where nothing waits, or there is no timeline.
std::string waits_line(const plan::Problem& problem, const plan::Priced& priced);

}  // namespace partita::cli
