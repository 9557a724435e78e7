// SPDX-License-Identifier: Apache-2.0
//
// The predicted timeline, and a measured one beside it, in the Trace Event Format that Perfetto and
// chrome://tracing read.
//
//     gpu0 compute    [forward a]╮      [forward c]        one row (tid) per resource that is used
//     gpu0 send                  ╰▶[copy a]╮
//     gpu1 receive                 [copy a]│               a task has one X event on each of its
//     gpu1 compute                         ╰▶[forward b]   resources, so rows never overlap
//     memory gpu0     ▁▁▃▃▃▃▅▅▅                            one counter (C) per device
//
// Arrows (s, t, f) lead from a copy's producer through the copy to its first consumer, and on every
// rank of a collective from what it waits for there to the collective, and on to what reads it
// first. Times are microseconds with all digits down to the picosecond. A memory step stands at the
// start of the task whose commit it belongs to. What was measured is a process of its own: a row
// per device, whose slices have the names of the predicted ones.
//
// Source: "Trace Event Format", the Chromium project.
#pragma once

#include <span>
#include <string>

#include "plan/exporters/exporter.h"
#include "plan/tasks/task_run.h"

namespace partita::plan {

/// Needs input.tasks and input.timeline.
std::string chrome_trace(const ExportInput& input);
std::string chrome_trace(const ExportInput& input, std::span<const TaskRun> measured);

}  // namespace partita::plan
