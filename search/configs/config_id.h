// SPDX-License-Identifier: Apache-2.0
//
// Configs by number: a change of an op is a few bytes, and what is known of a config can be looked
// up. Numbers mean something together with the ConfigTable that gave them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/strategy/strategy.h"
#include "search/configs/degree_lists.h"
#include "search/configs/device_sets.h"

namespace partita::search {

/// A number of micro-batches: its place in the order in which the table was asked for them.
using MicroBatchesId = std::size_t;

/// A config of one op. Equal configs of an op have equal ids; the default is the config of nothing
/// on no device.
struct ConfigId {
    DegreesId degrees = 0;
    DevicesId devices = 0;
    friend bool operator==(ConfigId, ConfigId) = default;
};

/// An UpdateConfig; the default is the default one.
struct UpdateId {
    ConfigId update;
    bool accumulate_locally = false;
    bool refetch = false;
    friend bool operator==(UpdateId, UpdateId) = default;
};

/// An OpDecision.
struct DecisionId {
    ConfigId config;
    UpdateId update;
    plan::Recompute recompute = plan::Recompute::none;
    friend bool operator==(const DecisionId&, const DecisionId&) = default;
};

}  // namespace partita::search
