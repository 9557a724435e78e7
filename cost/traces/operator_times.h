// SPDX-License-Identifier: Apache-2.0
//
// What somebody else measured of operators: files that profilers of PyTorch write, as one list.
//
//     trace.json[.pt.trace]   Kineto, of torch.profiler with record_shapes=True: kernels by the
//                             operator that launched them, or, where there are none, time on the host
//     nvtx.csv                nsys stats --report nvtx_gpu_proj_trace --format csv, of a run under
//                             torch.autograd.profiler.emit_nvtx(record_shapes=True)
//     table.csv               columns operator, shapes ("8x64 64x32"), device_us, and calls: the sum
//                             of so many calls (default 1), type: of the elements
//
// An operator that calls others has the time of all of them, and is listed instead of them
// (nested_calls.h); a table.csv says nothing of that.
//
// Pure; any number of threads. Errors: InputError naming the file, what it lacks and what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "graph/dtype.h"
#include "graph/op_graph.h"

namespace partita::cost {

/// Calls of one operator with operands of the same shapes.
struct OperatorCalls {
    std::string name;                   ///< "aten::mm"
    std::vector<graph::Shape> shapes;   ///< per argument; empty: a number, a list, or left out
    std::optional<graph::DType> dtype;  ///< of the first tensor; not known from every file
    std::vector<Time> times;            ///< each > 0
};

struct OperatorTimes {
    std::vector<OperatorCalls> calls;
    std::string device;  ///< that they ran on, "NVIDIA H200"; "": the host, or not said
    /// Rows may be calls inside others: of one class and the same sizes the longest counts.
    bool is_flat = false;
};

/// `context`: the file that `text` is of.
OperatorTimes read_operator_times(std::string_view text, const std::string& context);

}  // namespace partita::cost
