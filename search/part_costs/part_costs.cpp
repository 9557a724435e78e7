// SPDX-License-Identifier: Apache-2.0
#include "search/part_costs/part_costs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/op_graph.h"
#include "search/coarsening/op_signature.h"

namespace partita::search {

using graph::Op;
using graph::OpId;
using plan::PartSize;
using plan::Problem;

namespace {

/// All ways to make so many parts are priced.
constexpr std::int64_t kMostPriced = 16;

/// Per class of devices by number of parts.
using Table = std::vector<std::vector<PartCost>>;

/// A factor that may be split, and the tensors of the op that it cuts.
struct Splittable {
    std::int64_t extent = 1;  ///< in one micro-batch
    std::vector<std::int64_t> divisors;
    struct Dim {
        std::size_t tensor = 0;  ///< operands, then results
        bool window = false;
    };
    std::vector<Dim> dims;
};

/// What the parts of one op handle.
struct Sizes {
    std::vector<std::int64_t> tensors;  ///< operands, then results
    Int128 flops = 0;
    std::int64_t share = kWholeShare;
};

/// Of extents beyond 2^40, which no device holds, not all: bounds need the narrowest parts alone,
/// and these are of the whole extent.
std::vector<std::int64_t> divisors_of(std::int64_t number) {
    constexpr std::int64_t kMostTried = std::int64_t{1} << 20;
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= kMostTried && d * d <= number; ++d) {
        if (number % d != 0) continue;
        divisors.push_back(d);
        if (d * d < number) divisors.push_back(number / d);
    }
    return divisors;
}

/// How many positions the largest of `degree` parts may have: splits of splits, and splits of each
/// of some equal blocks, can leave larger ones than ceil(extent / degree). Rising.
std::vector<std::int64_t> widths(const Splittable& factor, std::int64_t degree) {
    std::vector<std::int64_t> found{(factor.extent + degree - 1) / degree};
    for (const std::int64_t first : divisors_of(degree)) {
        if (first == 1) continue;
        for (const std::int64_t block : factor.divisors) {
            if (!graph::is_legal_degree(block, first)) continue;
            const std::int64_t second = degree / first;
            const std::int64_t part = factor.extent / block * ((block + first - 1) / first);
            found.push_back((part + second - 1) / second);
        }
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

std::vector<Splittable> splittable_factors(const Problem& problem, const MicroBatchCosts& times,
                                           OpId op) {
    const graph::OpRule& rule = problem.facts().rule(op);
    const auto& digits = problem.facts().batch_digits(op);
    std::vector<Splittable> factors;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (!rule.factors[f].splittable || !problem.constraints().may_split(op, f)) continue;
        Splittable factor{.extent = rule.factors[f].extent};
        if (digits[f].extent > 0) factor.extent /= times.runs(op);
        if (factor.extent < 2) continue;
        factor.divisors = divisors_of(factor.extent);
        for (std::size_t t = 0; t < rule.operands.size() + rule.results.size(); ++t) {
            const bool operand = t < rule.operands.size();
            const graph::TensorRule& tensor =
                operand ? rule.operands[t] : rule.results[t - rule.operands.size()];
            for (const graph::DimRule& dim : tensor.dims) {
                if (std::ranges::count(dim.factors, static_cast<int>(f)) == 0) continue;
                factor.dims.push_back({t, dim.window.has_value()});
            }
        }
        factors.push_back(std::move(factor));
    }
    return factors;
}

/// The least prices of each number of parts up to `most`, over all degrees of an op's factors.
class Enumeration {
public:
    Enumeration(const Problem& problem, const MicroBatchCosts& times, OpId op,
                const std::vector<int>& devices, std::int64_t most)
        : problem_(problem),
          op_(op),
          devices_(devices),
          most_(most),
          factors_(splittable_factors(problem, times, op)),
          found_(static_cast<std::size_t>(most) + 1) {}

    Table run(const PartSize& whole) {
        Sizes sizes{.tensors = whole.operands, .flops = whole.flops.raw()};
        operands_ = whole.operands.size();
        sizes.tensors.insert(sizes.tensors.end(), whole.results.begin(), whole.results.end());
        split(0, 1, sizes);
        Table table(devices_.size());
        for (std::int64_t parts = 1; parts <= most_; ++parts) {
            auto& rows = found_[static_cast<std::size_t>(parts)];
            for (std::size_t i = 0; i < rows.size(); ++i) {
                if (is_worse(rows, i)) continue;
                for (std::size_t c = 0; c < table.size(); ++c) table[c].push_back(rows[i][c]);
            }
        }
        return table;
    }

private:
    using Row = std::vector<PartCost>;  ///< per class of devices

    void split(std::size_t f, std::int64_t parts, const Sizes& sizes) {
        if (f == factors_.size()) {
            price(parts, sizes);
            return;
        }
        split(f + 1, parts, sizes);
        const Splittable& factor = factors_[f];
        for (std::int64_t d = 2; d <= factor.extent && parts * d <= most_; ++d) {
            for (const std::int64_t width : widths(factor, d)) {
                split(f + 1, parts * d, part_of(sizes, factor, d, width));
            }
        }
    }

    /// Of parts as wide as the largest; read through windows an even share.
    static Sizes part_of(Sizes sizes, const Splittable& factor, std::int64_t degree,
                         std::int64_t width) {
        sizes.flops = sizes.flops * width / factor.extent;
        sizes.share = (sizes.share * width + factor.extent - 1) / factor.extent;
        for (const Splittable::Dim& dim : factor.dims) {
            std::int64_t& volume = sizes.tensors[dim.tensor];
            volume = dim.window ? volume / degree
                                : static_cast<std::int64_t>(Int128{volume} * width / factor.extent);
        }
        return sizes;
    }

    void price(std::int64_t parts, const Sizes& sizes) {
        const auto results = sizes.tensors.begin() + static_cast<std::ptrdiff_t>(operands_);
        const PartSize size{.operands = {sizes.tensors.begin(), results},
                            .results = {results, sizes.tensors.end()},
                            .flops = Flops(sizes.flops)};
        Row& row = row_of(parts, sizes.share);
        for (std::size_t c = 0; c < devices_.size(); ++c) {
            if (problem_.facts().has_forward(op_)) {
                const Time time = problem_.prices().forward_price(op_, size, devices_[c]).time;
                row[c].forward = std::min(row[c].forward, time);
            }
            if (problem_.facts().has_backward(op_)) {
                const Time time = problem_.prices().backward_price(op_, size, devices_[c]).time -
                                  problem_.prices().weights_price(op_, size, devices_[c]).time;
                row[c].backward = std::min(row[c].backward, time);
            }
        }
    }

    Row& row_of(std::int64_t parts, std::int64_t share) {
        std::vector<Row>& rows = found_[static_cast<std::size_t>(parts)];
        for (Row& row : rows) {
            if (row[0].largest == share) return row;
        }
        const PartCost unknown{parts, parts,
                               problem_.facts().has_forward(op_) ? Time::max() : Time{0},
                               problem_.facts().has_backward(op_) ? Time::max() : Time{0}, share};
        return rows.emplace_back(devices_.size(), unknown);
    }

    /// Is there a row of as few parts that is as quick everywhere and may have larger parts; of
    /// equal rows the first stays.
    static bool is_worse(const std::vector<Row>& rows, std::size_t i) {
        for (std::size_t j = 0; j < rows.size(); ++j) {
            if (j == i || rows[j][0].largest < rows[i][0].largest) continue;
            bool quicker = true;
            for (std::size_t c = 0; c < rows[i].size(); ++c) {
                quicker = quicker && rows[j][c].forward <= rows[i][c].forward &&
                          rows[j][c].backward <= rows[i][c].backward;
            }
            if (quicker) return true;  // shares differ, so no two rows are equal
        }
        return false;
    }

    const Problem& problem_;
    OpId op_;
    const std::vector<int>& devices_;
    std::int64_t most_;
    std::vector<Splittable> factors_;
    std::size_t operands_ = 0;
    std::vector<std::vector<Row>> found_;  ///< by number of parts
};

/// Even shares of the whole, beyond `priced` parts: 17 to 32, 33 to 64, ...
void add_even_shares(const Problem& problem, OpId op, int device, std::int64_t priced,
                     std::int64_t limit, std::vector<PartCost>& parts) {
    const PartCost whole = parts.front();
    const Time launch = problem.bounds().least_task_time(op, device);
    const auto share = [&](Time time, std::int64_t count) {
        return std::max({Time{0}, Time((time.raw() - 1) / count), std::min(time, launch)});
    };
    while (priced < limit) {
        const std::int64_t most = std::min(limit, 2 * priced);
        parts.push_back(
            {priced + 1, most, share(whole.forward, most), share(whole.backward, most)});
        priced = most;
    }
}

}  // namespace

PartCosts::PartCosts(const Problem& problem, const MicroBatchCosts& times,
                     const std::vector<int>& devices) {
    std::map<OpSignature, std::size_t> known;  // first rows
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        const std::int64_t limit = problem.constraints().split_limit(op);
        const auto share = limit > 1 ? times.share_of(op) : std::nullopt;
        const bool runs = problem.facts().has_forward(op) || problem.facts().has_backward(op);
        if (share && runs) {
            const auto [at, added] =
                known.try_emplace(op_signature(problem, op, times.runs(op), limit), rows_.size());
            if (!added) {
                first_.push_back(at->second);
                continue;
            }
        }
        Table table(devices.size(), {PartCost{}});
        std::int64_t priced = 1;
        if (share && runs) {
            priced = std::min(limit, kMostPriced);
            table = Enumeration(problem, times, op, devices, priced).run(*share);
        }
        for (std::size_t c = 0; c < devices.size(); ++c) {
            table[c].front() = {1, 1, times.forward(op, devices[c]).run,
                                times.backward(op, devices[c]).run};
            if (runs) add_even_shares(problem, op, devices[c], priced, limit, table[c]);
        }
        add(table);
    }
    rows_.push_back(parts_.size());
}

void PartCosts::add(const Table& of_class) {
    first_.push_back(rows_.size());
    for (const std::vector<PartCost>& parts : of_class) {
        rows_.push_back(parts_.size());
        parts_.insert(parts_.end(), parts.begin(), parts.end());
    }
}

}  // namespace partita::search
