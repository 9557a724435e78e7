// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/collective_table.h"

#include <algorithm>
#include <utility>

#include "cost/machine/group_links.h"

namespace partita::cost {

namespace {

std::int64_t median(std::vector<std::int64_t> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    if (values.size() % 2 == 1) return values[middle];
    return values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

/// Pool adjacent violators: the nearest sequence (least squares) that never falls.
void never_fall(std::vector<std::int64_t>& times) {
    struct Block {
        Int128 sum = 0;
        std::int64_t count = 0;
    };
    std::vector<Block> blocks;
    for (const std::int64_t time : times) {
        blocks.push_back({time, 1});
        while (blocks.size() > 1) {
            const Block& last = blocks.back();
            Block& before = blocks[blocks.size() - 2];
            if (before.sum * last.count <= last.sum * before.count) break;
            before.sum += last.sum;
            before.count += last.count;
            blocks.pop_back();
        }
    }
    std::size_t i = 0;
    for (const Block& block : blocks) {
        for (std::int64_t k = 0; k < block.count; ++k) {
            times[i++] = static_cast<std::int64_t>(block.sum / block.count);
        }
    }
}

}  // namespace

CollectiveTable::CollectiveTable(std::span<const MeasuredCollective> rows, std::string name,
                                 std::shared_ptr<const CollectiveModel> below)
    : name_(std::move(name)), below_(std::move(below)) {
    std::map<Key, std::map<std::int64_t, std::vector<std::int64_t>>> found;
    for (const MeasuredCollective& row : rows) {
        found[{row.kind, row.ranks, row.nodes}][row.bytes.raw()].push_back(row.time.raw());
    }
    for (const auto& [key, sizes] : found) {
        std::vector<std::int64_t> times;
        for (const auto& [bytes, all] : sizes) times.push_back(median(all));
        never_fall(times);
        std::vector<Point>& curve = curves_[key];
        for (const auto& [bytes, all] : sizes) curve.push_back({bytes, times[curve.size()]});
    }
}

std::optional<CollectivePrice> CollectiveTable::time_of(Collective kind, Bytes bytes, int ranks,
                                                        int nodes) const {
    const auto found = curves_.find({kind, ranks, nodes});
    if (found == curves_.end()) return std::nullopt;
    const std::vector<Point>& curve = found->second;
    const std::int64_t size = bytes.raw();
    const auto above = std::ranges::lower_bound(curve, size, {}, &Point::bytes);
    const bool measured = above != curve.end() && above->bytes == size;
    CollectivePrice price{.algorithm = Algorithm::library,
                          .source = measured ? CostSource::measured : CostSource::interpolated};
    if (measured || above == curve.begin()) {
        price.time = Time(above->picoseconds);
        return price;
    }
    const Point& low = *(above - 1);
    const Point high = above == curve.end() ? Point{2 * low.bytes, 2 * low.picoseconds} : *above;
    const Int128 rise = high.picoseconds - low.picoseconds;
    const Int128 run = high.bytes - low.bytes;
    const Int128 time = low.picoseconds + (rise * (size - low.bytes) + run - 1) / run;
    if (time > Time::max().raw()) detail::throw_overflow(detail::TimeTag::kName);
    price.time = Time(static_cast<std::int64_t>(time));
    return price;
}

std::optional<CollectivePrice> CollectiveTable::price(const CollectiveCall& call,
                                                      const Machine& machine) const {
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    const auto links = machine.group_links(call.devices);
    if (links->ranks_per_node == 0) return std::nullopt;
    auto price = time_of(call.kind, call.bytes, links->ranks, links->nodes);
    if (!price || below_ == nullptr) return price;
    const Point& first = curves_.at({call.kind, links->ranks, links->nodes}).front();
    if (call.bytes.raw() >= first.bytes) return price;
    if (auto other = below_->price(call, machine); other && other->time < price->time) return other;
    return price;
}

}  // namespace partita::cost
