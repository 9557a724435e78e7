// SPDX-License-Identifier: Apache-2.0
//
// What the library throws, all derived from std::runtime_error. what() is a whole sentence: graph
// or file, op or field, what was expected, what came, what to do.
//
//     UsageError      an argument or option is wrong: a searcher or preset that does not exist, a
//                     symbolic dim without a value, an output that cannot be written
//     InputError      a graph, model, machine or plan is unreadable or inconsistent: an unknown
//                     operator, shapes that do not fit, a cycle, an unconnected device
//     OverflowError   an InputError: a quantity leaves the range of its unit
//     MismatchError   two things do not belong together: a plan and another model
//
// Options are named as the program spells them: `--bind` is ImportOptions::bindings,
// `--micro-batches` is PlanOptions::micro_batches. That no plan fits is not an error but a Status
// (search.h). Memory that runs out throws std::bad_alloc; anything else thrown is a bug of the
// library.
#pragma once

#include "base/error.h"
