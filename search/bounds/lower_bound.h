// SPDX-License-Identifier: Apache-2.0
//
// A number that no legal plan of the problem can beat. For a timeline the least over all numbers of
// micro-batches that a plan may have (each makes work larger in its own way:
// search/part_costs/micro_batch_costs.h) of the largest of:
//
// 1. Critical path (latency and step time): every task at its best allowed device, in the parts
//    that are quickest of all that its rule, its devices and the problem allow
//    (search/part_costs/part_costs.h), no communication. In training the path goes on through loss,
//    backward and update.
//
// 2. Work. Let x[u][c] in [0, 1] be the share of unit u (an op, or ops that must share a device)
//    that devices of class c take, p[u][c] its time there, b[u][c] the bytes it keeps there,
//    class c with m[c] devices of capacity C[c]. Every legal plan is a point of the linear program
//
//        minimise T   with   sum_c x[u][c] = 1,   sum_u p[u][c] x[u][c] <= m[c] T,
//                            sum_u b[u][c] x[u][c] <= m[c] C[c]
//
//    By weak duality, for any weights w[c] >= 0 (not all 0) and z[c] >= 0
//
//        T  >=  ( sum_u min_c (w[c] p[u][c] + z[c] b[u][c]) - sum_c z[c] m[c] C[c] ) / sum_c w[c] m[c]
//
//    so poor weights cost tightness, never soundness: they are chosen in floating point
//    (dual_prices.h), and the bound follows from them in 128-bit integers. The z terms are
//    what follows from memory: fast devices that cannot hold everything leave work to slower ones.
//
// 3. One unit: all its time on its best device, over the most parts it can have.
//
// 4. Work inside the path (timeline): tasks that cannot start before h and are followed by at least
//    t more have only T - h - t left, hence  T >= h + work(those tasks) + t,  work as in 2 with
//    z = 0. Tried for every h, and for every t or an even choice of 64.
//
// 5. A stage inside the path (timeline): forward and backward of an op run on the same devices,
//    so one of these does its share of all micro-batches, after the head of the first and before
//    the tail of the last. Where micro-batches make paths short, this is what the slowest stage
//    takes.
//
// 6. Calls along a path (subgraph latency): what ops of one path cost that must be cut into runs,
//    each of which fits a device (search/call_latency/call_bound.h). There, calls of a device do
//    not wait for each other and CPUs are as many as are needed, so of the others only the critical
//    path holds.
//
// 7. Work and what must be sent for it (throughput of given costs): placements below a
//    target, excluded by a small branch and bound
//    (search/max_load/branch_and_bound/load_bound.h).
//
// 8. Chains (timeline): few parts make a chain of ops long, many make work larger, different
//    numbers of parts one after the other make elements move, and slow devices serve a chain as
//    often as quick ones that hold as much of it. A mean of the chain's length and the work of all
//    devices, the least over all splits, by dynamic programming along the longest chain
//    (search/bounds/chain_bound.h).
//
// What unavoidable communication amounts to in bytes (a factor of a matrix product that is split is
// missing from one of its three tensors, which then has to be summed or repeated) never limits on
// the machines at hand: it runs beside computation, and links carry it in less time than that
// takes.
//
// Devices share a class when they price alike, hold as much, and are allowed to the same ops.
//
// Valid for: any split of any op (Constraints::whole_ops: none), within memory (overflow 0), any
// schedule. Exact: no.
// Time: O((ops + edges + iterations) * classes + distinct ops * ways to split them in up to 16
// parts) for each number of micro-batches, and number 8 for those that are least; tens of
// milliseconds for models of a thousand ops.
#pragma once

#include <string>

#include "base/units.h"
#include "plan/problem/problem.h"

namespace partita::search {

struct LowerBound {
    Time value;          ///< the largest of those below
    Time critical_path;  ///< 0 for max-load
    Time work;
    Time unit;
    Time windows;           ///< number 4; 0 for max-load
    Time stage;             ///< number 5; 0 for max-load
    Time calls;             ///< number 6; 0 but for subgraph latency, where 2 to 5 are 0
    Time cuts;              ///< number 7; 0 but for the throughput of given costs
    Time chain;             ///< number 8; 0 for max-load and subgraph latency
    int micro_batches = 1;  ///< of the plans with the least bound; but for max-load
    /// Which of these is the largest and where it comes from, e.g. "critical path through 'conv3'",
    /// "memory of 4 devices"; the first of equals. Empty: the value is 0.
    std::string limited_by;
    /// Why no plan can fit, with what is short and by how much: more bytes to keep than all devices
    /// together hold, or an op that fits no device it may use. Empty: not proven.
    std::string shortage;
};

LowerBound lower_bound(const plan::Problem& problem);

}  // namespace partita::search
