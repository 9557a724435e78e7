// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/stage_cut.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace partita::search {

namespace {

constexpr std::int64_t kFall = 8;  ///< the next limit is an eighth lower
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> sums_of(const auto& quantities) {
    std::vector<std::int64_t> sums = {0};
    for (const auto& quantity : quantities) sums.push_back(sums.back() + quantity.raw());
    return sums;
}

/// The table of the head of this file.
class CutTable {
public:
    CutTable(const std::vector<CutStage>& stages, const std::vector<Bytes>& bytes)
        : stages_(stages), bytes_(sums_of(bytes)), first_(stages.size()) {
        for (const CutStage& stage : stages) work_.push_back(sums_of(stage.work));
    }

    /// No stage or border of any cut takes longer.
    [[nodiscard]] std::int64_t longest() const {
        std::int64_t longest = 0;
        for (const auto& work : work_) longest = std::max(longest, work.back());
        for (const CutStage& stage : stages_) {
            for (const Time send : stage.send) longest = std::max(longest, send.raw());
        }
        return longest;
    }

    /// The least sum of all work and sending where none takes more than `limit`; kNone: there is no
    /// such cut.
    std::int64_t fill(std::int64_t limit) {
        std::vector<std::int64_t> sum(bytes_.size(), kNone);
        sum.front() = 0;
        for (std::size_t k = 0; k < stages_.size(); ++k) sum = add_stage(k, limit, sum);
        return sum.back();
    }

    /// Of the last fill().
    [[nodiscard]] std::vector<int> stage_of_group() const {
        std::vector<int> stage(bytes_.size() - 1);
        std::size_t end = stage.size();
        for (std::size_t k = stages_.size(); k-- > 0;) {
            const std::size_t begin = first_[k][end];
            for (std::size_t g = begin; g < end; ++g) stage[g] = static_cast<int>(k);
            end = begin;
        }
        return stage;
    }

private:
    /// The best sums with stages 0 .. k, given those with 0 .. k - 1.
    std::vector<std::int64_t> add_stage(std::size_t k, std::int64_t limit,
                                        const std::vector<std::int64_t>& before) {
        const std::vector<std::int64_t>& work = work_[k];
        std::vector<std::int64_t> sum = before;  // the stage stays empty
        first_[k].resize(sum.size());
        std::vector<std::size_t> window;  // where the stage may begin, cost rising
        std::size_t head = 0;
        const auto cost = [&](std::size_t i) { return before[i] + send(k, i) - work[i]; };
        for (std::size_t j = 0; j < sum.size(); ++j) {
            first_[k][j] = j;
            while (head < window.size() && !keeps(k, window[head], j, limit)) ++head;
            if (head < window.size()) {
                const std::int64_t with = cost(window[head]) + work[j];
                if (with < sum[j]) {
                    sum[j] = with;
                    first_[k][j] = window[head];
                }
            }
            if (before[j] == kNone || send(k, j) > limit) continue;
            while (window.size() > head && cost(window.back()) >= cost(j)) window.pop_back();
            window.push_back(j);
        }
        return sum;
    }

    [[nodiscard]] std::int64_t send(std::size_t k, std::size_t i) const {
        const std::vector<Time>& send = stages_[k].send;
        return i == 0 || i >= send.size() ? 0 : send[i].raw();
    }
    [[nodiscard]] bool keeps(std::size_t k, std::size_t i, std::size_t j,
                             std::int64_t limit) const {
        return work_[k][j] - work_[k][i] <= limit &&
               bytes_[j] - bytes_[i] <= stages_[k].memory.raw();
    }

    const std::vector<CutStage>& stages_;
    std::vector<std::int64_t> bytes_;              ///< sums over groups
    std::vector<std::vector<std::int64_t>> work_;  ///< per stage the same
    std::vector<std::vector<std::size_t>> first_;  ///< [stage][end]: its first group
};

}  // namespace

std::vector<StageCut> cut_into_stages(const std::vector<CutStage>& stages,
                                      const std::vector<Bytes>& bytes, int micro_batches) {
    CutTable table(stages, bytes);
    std::vector<StageCut> cuts;
    for (std::int64_t limit = table.longest(); limit > 0; limit -= limit / kFall + 1) {
        const std::int64_t sum = table.fill(limit);
        if (sum == kNone) break;
        const double others = std::max(0.0, static_cast<double>(sum - limit));
        StageCut cut{static_cast<double>(limit) + others / micro_batches, table.stage_of_group()};
        if (!cuts.empty() && cuts.back().stage == cut.stage) {
            cuts.back().estimate = std::min(cuts.back().estimate, cut.estimate);
        } else {
            cuts.push_back(std::move(cut));
        }
    }
    return cuts;
}

}  // namespace partita::search
