// SPDX-License-Identifier: Apache-2.0
//
// Which collectives of a tensor may be fused with those of others, and at which block of parts:
// TensorTasks::fusion_blocks and TensorTasks::fusible. Private to plan/tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

class FusionBlocks {
public:
    /// What of a tensor moves with that of others in its bucket.
    struct Bucket {
        bool gradients = false;  ///< and new values
        bool fetches = false;
    };

    /// All else that the tasks say but for their totals must be known.
    void find(const TensorEvents& events, Bucket bucket, TensorTasks& tasks);

private:
    void find_depths(const TensorTasks& tasks);

    // Per task, kept for their memory.
    std::vector<std::int32_t> before_;  ///< the one block of parts that it waits for
    std::vector<std::int32_t> after_;   ///< the one block of parts that waits for it
    std::vector<std::int32_t> depths_;  ///< bucket_depth()
};

}  // namespace partita::plan
