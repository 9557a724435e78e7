// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/profiled_cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace partita::cost {

namespace {

/// At least 1, so that every ratio is finite.
Time roofline(const Work& work, const Device& device) {
    return std::max(Roofline().price(work, device)->time, Time{1});
}

Work work_of(const MeasuredWork& row) {
    return {.type = row.type,
            .phase = row.phase,
            .flops = row.flops,
            .bytes = row.bytes,
            .dtype = row.dtype,
            .matrix_product = row.matrix_product,
            .product_type = row.product_type};
}

double log_of(Int128 amount) {
    return std::log(std::max(static_cast<double>(amount), 1.0));
}

/// median / analytic, rounded down.
Share share_of(Time median, Time analytic) {
    const Int128 share = (static_cast<Int128>(median.raw()) << 32U) / analytic.raw();
    return {static_cast<std::int64_t>(std::min<Int128>(share, Share{}.raw))};
}

}  // namespace

ProfiledCostModel::ProfiledCostModel(const Profile& profile, const Machine& machine) {
    constexpr std::size_t kDigits = 16;
    name_ = "profile " + profile.digest().substr(0, kDigits);
    for (const Device& device : machine.devices()) {
        const DeviceProfile* rows = profile.find(device_key(device));
        if (rows == nullptr || find(device) != nullptr) continue;
        tables_.push_back(table_of(device, *rows));
    }
}

ProfiledCostModel::Table ProfiledCostModel::table_of(const Device& device,
                                                     const DeviceProfile& profile) {
    Table table{.device = device, .rows = {}, .families = {}, .shares = {}};
    std::vector<const MeasuredWork*> rows;
    for (const MeasuredWork& row : profile.works) {
        rows.push_back(&row);
        table.rows.push_back({row.signature.text, row.time.median});
    }
    std::ranges::sort(table.rows, {}, &Known::text);
    std::ranges::stable_sort(
        rows, {}, [](const auto* row) -> const std::string& { return row->signature.family; });
    for (const MeasuredWork* row : rows) {
        const Time analytic = roofline(work_of(*row), device);
        if (table.families.empty() || table.families.back().name != row->signature.family) {
            table.families.push_back({row->signature.family, {}});
        }
        table.families.back().points.push_back(
            {.log_flops = log_of(row->flops.raw()),
             .log_bytes = log_of(row->bytes.raw()),
             .log_ratio = log_of(row->time.median.raw()) - log_of(analytic.raw())});
        const auto kind = std::tie(row->phase, row->type);
        const auto by_kind = [](const Least& least) { return std::tie(least.phase, least.type); };
        auto least = std::ranges::lower_bound(table.shares, kind, {}, by_kind);
        if (least == table.shares.end() || by_kind(*least) != kind) {
            least = table.shares.insert(least, {row->phase, row->type, Share{}});
        }
        least->share = std::min(least->share, share_of(row->time.median, analytic));
    }
    return table;
}

const ProfiledCostModel::Table* ProfiledCostModel::find(const Device& device) const {
    const auto found = std::ranges::find_if(
        tables_, [&](const Table& table) { return priced_alike(table.device, device); });
    return found == tables_.end() ? nullptr : &*found;
}

Share ProfiledCostModel::least_share(const Work& work, const Device& device) const {
    const Table* table = find(device);
    if (table == nullptr || work.given != nullptr) return {};
    const auto least = std::ranges::find_if(table->shares, [&](const Least& of) {
        return of.phase == work.phase && of.type == work.type;
    });
    return least == table->shares.end() ? Share{} : least->share;
}

std::optional<double> ProfiledCostModel::log_ratio(const Table& table, const std::string& family,
                                                   const Work& work) {
    const auto known = std::ranges::lower_bound(table.families, family, {}, &Family::name);
    if (known == table.families.end() || known->name != family) return std::nullopt;
    const double gap = std::log(kGap);
    const double flops = log_of(work.flops.raw());
    const double bytes = log_of(work.bytes.raw());
    struct Neighbour {
        double distance = std::numeric_limits<double>::infinity();
        double log_ratio = 0;
    };
    std::array<Neighbour, kNeighbours> nearest;  // rising
    bool smaller = false;
    bool larger = false;
    for (const Point& point : known->points) {
        const double by_flops = point.log_flops - flops;
        const double by_bytes = point.log_bytes - bytes;
        if (std::abs(by_flops) > gap || std::abs(by_bytes) > gap) continue;
        smaller = smaller || (by_flops <= 0 && by_bytes <= 0);
        larger = larger || (by_flops >= 0 && by_bytes >= 0);
        const double distance = std::hypot(by_flops, by_bytes);
        if (distance >= nearest.back().distance) continue;  // ties: the first by text
        nearest.back() = {distance, point.log_ratio};
        std::ranges::stable_sort(nearest, {}, &Neighbour::distance);
    }
    const double reach = smaller && larger ? nearest.front().distance : std::log(kReach);
    if (std::isinf(nearest.front().distance) || nearest.front().distance > reach) {
        return std::nullopt;
    }
    constexpr double kSame = 1e-6;  // another text of the same size: as good as its own row
    double weights = 0;
    double sum = 0;
    for (const Neighbour& neighbour : nearest) {
        const double weight = 1 / std::max(neighbour.distance * neighbour.distance, kSame);
        weights += weight;
        sum += weight * neighbour.log_ratio;
    }
    return sum / weights;
}

std::optional<Price> ProfiledCostModel::price(const Work& work, const Device& device) const {
    const Table* table = find(device);
    if (table == nullptr || work.given != nullptr) return std::nullopt;
    if (work.signature == nullptr && work.elements < 0) return std::nullopt;
    std::optional<WorkSignature> own;
    if (work.signature == nullptr) own = element_signature(work);
    const WorkSignature& signature = own ? *own : *work.signature;

    const Time analytic = roofline(work, device);
    Int128 least = static_cast<Int128>(analytic.raw()) * least_share(work, device).raw;
    least = (least + Share{}.raw - 1) / Share{}.raw;
    const auto known = std::ranges::lower_bound(table->rows, signature.text, {}, &Known::text);
    if (known != table->rows.end() && known->text == signature.text) {
        // A row that says less of its size than the work has: never below what bounds count on.
        return Price{.time = std::max(known->time, Time(static_cast<std::int64_t>(least))),
                     .source = CostSource::measured};
    }
    if (work.alias) return std::nullopt;
    const std::optional<double> ratio = log_ratio(*table, signature.family, work);
    if (!ratio) return std::nullopt;
    const double time = std::ceil(static_cast<double>(analytic.raw()) * std::exp(*ratio));
    if (!(time < static_cast<double>(Time::max().raw()))) return std::nullopt;
    return Price{.time = Time(std::max<std::int64_t>(static_cast<std::int64_t>(time),
                                                     static_cast<std::int64_t>(least))),
                 .source = CostSource::interpolated};
}

}  // namespace partita::cost
