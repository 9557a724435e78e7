// SPDX-License-Identifier: Apache-2.0
//
// A number that no plan of a workload can beat in latency (plan/evaluation/subgraph_latency.h):
// number 6 of search/bounds/lower_bound.h. Along one path of the graph ops follow each other,
// whatever the plan is:
//
//     path      v1 ──▶ v2 ──▶ v3 ──▶ v4 ──▶ v5 ──▶ v6
//     plan      ╰─ accelerator ─╯   CPU   ╰─ acc. ─╯       runs: stretches on one device
//
// The calls that hold a run come one after the other, and after those of the run before it, since
// calls do not wait for each other in circles. So the latency is at least the sum over all runs of
//
//     on a CPU             the CPU time of its op (runs of one op)
//     on an accelerator    the accelerator times of its ops
//                          + cost(x) for each x of the run that an op of the path behind it reads
//                          + cost(x) for each x of the path before it that the run reads
//
// where the groups of a run's ops fit one accelerator together. The least sum over all ways to cut
// the path into runs follows by dynamic programming; no plan does better. The bound is the largest
// of some paths: the longest ones by time, bytes, communication and mixtures of these.
//
// What it leaves out: ops beside the path, and that accelerators are few.
// Time: O(ops + edges) and O(ops of the path * ops of a run) for each path. Paths of more than
// 4,000 ops are left out.
#pragma once

#include "base/units.h"
#include "plan/problem/problem.h"

namespace partita::search {

/// 0 when there is nothing to say. The problem's objective must be subgraph latency.
Time call_bound(const plan::Problem& problem);

}  // namespace partita::search
