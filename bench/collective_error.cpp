// SPDX-License-Identifier: Apache-2.0
//
// How wrong the collective models are on the measured logs of data/collectives: mean of
// |predicted / measured - 1| per set and collective, from 1 KiB and from 1 MiB up, for
//
//     alpha-beta     one pair for the whole set, T = steps (alpha + S / n beta), fitted to all of it
//     five           T = a + b log2 n + c log2 m + K S (d in one node, e between nodes), K = steps/n
//     NCCL-like      nccl_model.h, 16 constants
//     table          each size predicted from the others of its curve
//
// "five" and "NCCL-like" predict each number of ranks from the others. Where a set has two, one is
// left to fit; where it has one, nothing is left: those are fitted to what they predict, marked *,
// and stay out of the means. A point is the median of all rows of one size (in and out of place).
//
// It also prints the constants fitted to whole sets, as data/collectives/models holds them, and
// measures price().
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bench/collective_fit.h"
#include "cost/collective_log.h"
#include "cost/collective_table.h"
#include "cost/machine_file.h"
#include "cost/nccl_model.h"
#include "graph/json.h"

namespace partita::bench {
namespace {

using cost::Collective;

/// What is known of a machine without measuring its collectives: GB/s of NVLink (or one link of a
/// mesh) and of one node's network that NCCL's topology search would assume, as in data/machines.
struct MachineRow {
    const char* set;
    const char* file;
    double node_rate;
    double net_rate;
    std::map<int, double> links;  ///< of the ring over the first so many devices
};
const std::vector<MachineRow>& machines() {
    static const std::vector<MachineRow> kRows = {
        {"echo-ndv4", "a100_40g_ndv4_ib200", 240, 8 * 24 * 0.6, {}},
        {"vtrain-a100", "a100_node8_vtrain", 240, 8 * 24 * 0.6, {}},
        // The hybrid cube mesh: 1 link joins gpu0 and gpu1, each of 4 has 4 to the others, of 8 has 6.
        {"vtrain-v100", "v100_node8_vtrain", 22, 4 * 12, {{2, 1}, {4, 4}, {8, 6}}},
        {"galvatron-nvlink8", "nvlink8_galvatron", 240, 8 * 24 * 0.6, {}},
        {"aws-p5", "h100_p5_efa", 370, 8 * 48, {}},
        {"vidur-a100_dgx", "a100_dgx_vidur", 240, 8 * 24 * 0.6, {}},
        {"vidur-h100_dgx", "h100_dgx_vidur", 370, 8 * 48, {}},
        // Two dies of one package share 4 links of Infinity Fabric, others at least 1.
        {"nnscaler-mi200", "mi200_nnscaler", 50, 8 * 24, {{2, 2}, {8, 1}}},
    };
    return kRows;
}

struct Series {
    const MachineRow* machine;
    Collective kind;
    bool send_recv;
    std::vector<Point> points;
    std::vector<cost::MeasuredCollective> rows;
};

int both_ways(Collective kind) {
    return kind == Collective::all_reduce ? 2 : 1;
}

std::vector<Series> read_series() {
    const std::filesystem::path folder =
        std::filesystem::path(PARTITA_SOURCE_DIR) / "data" / "collectives";
    std::vector<Series> all;
    for (const MachineRow& machine : machines()) {
        const auto path = folder / (std::string(machine.file) + ".csv");
        std::map<Collective, std::vector<cost::MeasuredCollective>> by_kind;
        for (auto& row : cost::read_collective_log(graph::read_text_file(path), path.string())) {
            // Start-up of the first size: see the README of the data.
            const bool first = row.set == "echo-ndv4" && row.ranks == 64 && row.bytes.raw() == 1024;
            if (row.bytes.raw() >= 1024 && !first) by_kind[row.kind].push_back(std::move(row));
        }
        for (auto& [kind, rows] : by_kind) {
            std::map<std::tuple<int, int, std::int64_t>, std::vector<double>> times;
            for (const auto& row : rows) {
                times[{row.ranks, row.nodes, row.bytes.raw()}].push_back(to_milliseconds(row.time) *
                                                                         1e3);
            }
            Series series{&machine, kind, kind == Collective::broadcast, {}, std::move(rows)};
            for (auto& [key, list] : times) {
                std::ranges::sort(list);
                const double median = (list[(list.size() - 1) / 2] + list[list.size() / 2]) / 2;
                const auto [ranks, nodes, bytes] = key;
                series.points.push_back({ranks, nodes, Bytes(bytes), median});
            }
            all.push_back(std::move(series));
        }
    }
    return all;
}

// --- models -----------------------------------------------------------------------------------

PointModel alpha_beta(Collective kind) {
    return [kind](std::span<const double> x, const Point& p) {
        const double steps = both_ways(kind) * (p.ranks - 1);
        return steps * (x[0] + static_cast<double>(p.bytes.raw()) / p.ranks * x[1]);
    };
}
Prior alpha_beta_prior() {
    return {{5, 1e-5}, {100, 100}};
}

PointModel five(Collective kind) {
    return [kind](std::span<const double> x, const Point& p) {
        const double share = both_ways(kind) * (p.ranks - 1.0) / p.ranks;
        const double rate = p.nodes == 1 ? x[3] : x[4];
        return x[0] + x[1] * std::log2(p.ranks) + x[2] * std::log2(p.nodes) +
               share * static_cast<double>(p.bytes.raw()) * rate;
    };
}
Prior five_prior() {
    return {{10, 5, 10, 5e-6, 1e-5}, {100, 100, 100, 100, 100}};
}

PointModel nccl_like(const Series& series) {
    return [&series](std::span<const double> x, const Point& p) {
        cost::NcclConstants constants{.values = {}, .links = series.machine->links};
        std::ranges::copy(x, constants.values.begin());
        return cost::nccl_time(constants, series.kind, p.bytes, p.ranks, p.nodes).microseconds;
    };
}

/// NCCL's constants (hops and network half again as long: its own latencies are of one channel);
/// base latencies of LL128 and Simple, share of LL and copy: the middle of what the sets show.
Prior nccl_prior(const MachineRow& machine) {
    return {{6.6, 28, 35, 0.9, 2.85, 5.1, 4.05, 6, 14, 0.02, 0.4, machine.node_rate, 0.1, 0.5,
             machine.net_rate, 1.2},
            {0.4, 0.4, 0.7, 0.5, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7, 0.5, 0.2, 0.7, 0.5, 0.5, 0.5}};
}

std::vector<double> fit_nccl(const Series& series, std::span<const Point> points) {
    const Prior prior = nccl_prior(*series.machine);
    std::vector<std::vector<double>> starts(4, prior.values);
    for (std::size_t i = 3; i < 6; ++i) starts[1][i] *= 1.6;
    for (std::size_t i = 6; i < 9; ++i) starts[1][i] *= 2;
    for (std::size_t i = 0; i < 9; ++i) starts[2][i] *= 0.67;
    for (const std::size_t i : {9, 12}) starts[3][i] *= 0.37;
    return fit(nccl_like(series), points, prior, starts);
}

// --- errors -----------------------------------------------------------------------------------

struct Errors {
    double sum = 0;
    double sum_large = 0;
    int count = 0;
    int count_large = 0;

    void add(double predicted, const Point& point) {
        const double error = std::abs(predicted / point.microseconds - 1);
        sum += error;
        ++count;
        if (point.bytes.raw() < (1 << 20)) return;
        sum_large += error;
        ++count_large;
    }
    void add(const Errors& other) {
        sum += other.sum;
        sum_large += other.sum_large;
        count += other.count;
        count_large += other.count_large;
    }
    [[nodiscard]] std::string text() const {
        return fmt::format("{:>6.1f} {:>6.1f}", 100 * sum / std::max(count, 1),
                           100 * sum_large / std::max(count_large, 1));
    }
};

std::set<int> rank_counts(const Series& series) {
    std::set<int> counts;
    for (const Point& point : series.points) counts.insert(point.ranks);
    return counts;
}

/// Errors of a model that is fitted without the number of ranks that it predicts.
Errors leave_ranks_out(const Series& series, const PointModel& model, const auto& fit_to) {
    Errors errors;
    const std::set<int> counts = rank_counts(series);
    for (const int left_out : counts) {
        std::vector<Point> rest;
        for (const Point& point : series.points) {
            if (point.ranks != left_out || counts.size() == 1) rest.push_back(point);
        }
        const std::vector<double> parameters = fit_to(rest);
        for (const Point& point : series.points) {
            if (point.ranks == left_out) errors.add(model(parameters, point), point);
        }
    }
    return errors;
}

/// Errors of a table without the size that it predicts; the first and last sizes stay.
Errors leave_sizes_out(const Series& series) {
    Errors errors;
    for (std::size_t i = 1; i + 1 < series.points.size(); ++i) {
        const auto same_curve = [&](const Point& other) {
            return other.ranks == series.points[i].ranks && other.nodes == series.points[i].nodes;
        };
        const Point& point = series.points[i];
        if (!same_curve(series.points[i - 1]) || !same_curve(series.points[i + 1])) continue;
        std::vector<cost::MeasuredCollective> rest;
        for (const auto& row : series.rows) {
            if (row.ranks == point.ranks && row.nodes == point.nodes && row.bytes != point.bytes) {
                rest.push_back(row);
            }
        }
        const cost::CollectiveTable table(rest, "rest");
        const auto price = table.time_of(series.kind, point.bytes, point.ranks, point.nodes);
        errors.add(to_milliseconds(price->time) * 1e3, point);
    }
    return errors;
}

using AllErrors = std::array<Errors, 4>;

AllErrors errors_of(const Series& series) {
    const PointModel pair = alpha_beta(series.kind);
    AllErrors errors;
    const std::vector<double> whole = fit(pair, series.points, alpha_beta_prior());
    for (const Point& point : series.points) errors[0].add(pair(whole, point), point);
    const PointModel plain = five(series.kind);
    errors[1] = leave_ranks_out(series, plain, [&](std::span<const Point> points) {
        return fit(plain, points, five_prior());
    });
    errors[2] = leave_ranks_out(series, nccl_like(series), [&](std::span<const Point> points) {
        return fit_nccl(series, points);
    });
    errors[3] = leave_sizes_out(series);
    return errors;
}

void print_row(const std::string& name, const std::string& kind, const std::string& counts,
               const AllErrors& errors) {
    fmt::print("{:<18}{:<15}{:<13}{:>5}", name, kind, counts, errors[2].count);
    for (const Errors& each : errors) fmt::print("  {}", each.text());
    fmt::print("\n");
}

void print_errors(const std::vector<Series>& all) {
    fmt::print("\nmean error in %, from 1 KiB and from 1 MiB up\n{:<18}{:<15}{:<13}{:>5}", "set",
               "collective", "ranks", "n");
    for (const char* model : {"alpha-beta", "five", "NCCL-like", "table"}) {
        fmt::print("  {:>13}", model);
    }
    fmt::print("\n");
    AllErrors pooled;
    AllErrors three;
    AllErrors by_nccl_tests;
    std::array<double, 2> of_sets{};
    int sets = 0;
    for (const Series& series : all) {
        const AllErrors errors = errors_of(series);
        const std::set<int> counts = rank_counts(series);
        const bool alone = counts.size() == 1;
        print_row(series.machine->set,
                  series.send_recv ? "send-recv" : std::string(name_of(series.kind)),
                  fmt::format("{}{}", fmt::join(counts, " "), alone ? " *" : ""), errors);
        if (alone) continue;
        for (std::size_t i = 0; i < errors.size(); ++i) {
            pooled[i].add(errors[i]);
            if (counts.size() < 3) continue;
            three[i].add(errors[i]);
            // The others are kernel times of a profiler, bimodal by the wait for the peer.
            if (!std::string_view(series.machine->set).starts_with("vidur")) {
                by_nccl_tests[i].add(errors[i]);
            }
        }
        of_sets[0] += errors[2].sum / errors[2].count;
        of_sets[1] += errors[2].sum_large / errors[2].count_large;
        ++sets;
    }
    print_row("all points", "", "2 or more", pooled);
    print_row("all points", "", "3 or more", three);
    print_row("  by nccl-tests", "", "3 or more", by_nccl_tests);
    fmt::print("NCCL-like, mean over the {} sets: {:.1f} {:.1f}\n", sets, 100 * of_sets[0] / sets,
               100 * of_sets[1] / sets);
}

void print_constants(const std::vector<Series>& all) {
    for (const Series& series : all) {
        if (series.send_recv) continue;
        const std::vector<double> x = fit_nccl(series, series.points);
        Errors errors;
        for (const Point& p : series.points) errors.add(nccl_like(series)(x, p), p);
        fmt::print("\n{} {}, error of the whole fit {}:\n{{", series.machine->set,
                   name_of(series.kind), errors.text());
        for (std::size_t i = 0; i < x.size(); ++i) {
            fmt::print("{}\"{}\": {:.4g}", i == 0 ? "" : ", ", cost::kNcclConstants[i], x[i]);
        }
        fmt::print("}}\n");
    }
}

void collective_error(benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) {
        const std::vector<Series> all = read_series();
        print_errors(all);
        print_constants(all);
    }
}
BENCHMARK(collective_error)->Iterations(1)->Unit(benchmark::kSecond);

void price(benchmark::State& state, const char* machine_name, Collective kind, int ranks) {
    const cost::Machine machine = cost::load_machine(machine_name);
    const auto model = cost::collective_model_of(machine);
    std::vector<int> devices(static_cast<std::size_t>(ranks));
    std::iota(devices.begin(), devices.end(), 0);
    std::int64_t bytes = 1 << 20;
    for ([[maybe_unused]] auto _ : state) {
        bytes = bytes % (1 << 28) + 4099;
        benchmark::DoNotOptimize(model->price({kind, devices, Bytes{bytes}}, machine));
    }
}
BENCHMARK_CAPTURE(price, table, "dgx-a100", Collective::all_reduce, 8);
BENCHMARK_CAPTURE(price, fitted, "dgx-a100:4", Collective::all_reduce, 32);
BENCHMARK_CAPTURE(price, tuning, "dgx-a100:4", Collective::all_gather, 32);
BENCHMARK_CAPTURE(price, alpha_beta_8, "p100-cluster:2", Collective::all_reduce, 8);
BENCHMARK_CAPTURE(price, alpha_beta_16, "p100-cluster:4", Collective::all_gather, 16);

}  // namespace
}  // namespace partita::bench
