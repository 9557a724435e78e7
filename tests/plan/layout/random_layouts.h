// SPDX-License-Identifier: Apache-2.0
//
// Random layouts of one small tensor, by way of random ops that produce or read it: dims of uneven
// extents, merged ones whose shards are strided, halos, splits of splits in any order, replicas,
// partial tensors of every kind, devices in any order.
#pragma once

#include <string>

#include "graph/operators/op_rule.h"
#include "plan/layout/layout.h"
#include "plan/strategy/strategy.h"
#include "search/support/random.h"
#include "tests/support/draws.h"

namespace partita::plan {

using support::draw;

/// `count` of that many devices; sorted half of the time.
DeviceSet draw_devices(search::Random& random, int count, int devices);

graph::Shape draw_shape(search::Random& random);

/// An op around the tensor and how it is split. A producer has it as result 0, a consumer as
/// operand 0, where windows may overlap or leave gaps.
struct SplitOp {
    graph::OpRule rule;
    OpConfig config;
};

SplitOp draw_producer(search::Random& random, const graph::Shape& shape, int devices);
/// `summands` > 1: takes the tensor as that many addends.
SplitOp draw_consumer(search::Random& random, const graph::Shape& shape, int devices,
                      int summands = 1);

Layout layout_of(const SplitOp& op, Side side, const graph::Shape& shape, RegionTable& regions);

/// "4x7, max of 2: 0: [0-1 | 0-6] +0, 3: ...": per piece device, region and summand.
std::string text_of(const Layout& layout, const RegionTable& regions);

}  // namespace partita::plan
