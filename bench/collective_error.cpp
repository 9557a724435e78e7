// SPDX-License-Identifier: Apache-2.0
//
// How wrong the collective models are on the measured logs of data/collectives: mean of
// |predicted / measured - 1| per set and collective, from 1 KiB and from 1 MiB up, for
//
//     alpha-beta     one pair for the whole set, T = steps (alpha + S / n beta), fitted to all of it
//     five           T = a + b log2 n + c log2 m + K S (d in one node, e between nodes), K = steps/n
//     NCCL-like      nccl_model.h, 12 constants
//     table          each size predicted from the others of its curve
//
// "five" and "NCCL-like" predict each number of ranks from the others. Where a set has two, one is
// left to fit; where it has one, nothing is left: those are fitted to what they predict, marked *,
// and stay out of all means. Marked m: the sets of the mean that the NCCL-like model is held to, by
// nccl-tests and with three numbers of ranks or more.
//
// It also prints the constants fitted to whole sets, as data/collectives/models holds them, and
// measures price().
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "bench/collective_fit.h"
#include "bench/collective_models.h"
#include "bench/collective_series.h"
#include "cost/collectives/nccl_model.h"
#include "cost/machine/machine_file.h"

namespace partita::bench {
namespace {

using cost::Collective;

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
    errors[2] = leave_ranks_out_nccl(series);
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
    AllErrors held;
    std::array<double, 2> of_sets{};
    int sets = 0;
    for (const Series& series : all) {
        const AllErrors errors = errors_of(series);
        const std::set<int> counts = series.rank_counts();
        const bool alone = counts.size() == 1;
        print_row(series.machine->set,
                  series.send_recv ? "send-recv" : std::string(name_of(series.kind)),
                  fmt::format("{}{}", fmt::join(counts, " "),
                              alone              ? " *"
                              : series.in_mean() ? " m"
                                                 : ""),
                  errors);
        if (alone) continue;
        for (std::size_t i = 0; i < errors.size(); ++i) {
            pooled[i].add(errors[i]);
            if (counts.size() >= 3) three[i].add(errors[i]);
            if (series.in_mean()) held[i].add(errors[i]);
        }
        if (!series.in_mean()) continue;
        of_sets[0] += errors[2].mean();
        of_sets[1] += errors[2].mean_large();
        ++sets;
    }
    print_row("points of the mean", "", "m", held);
    print_row("all points", "", "3 or more", three);
    print_row("all points", "", "2 or more", pooled);
    fmt::print("NCCL-like, mean over the {} sets marked m: {:.1f} {:.1f}\n", sets,
               100 * of_sets[0] / sets, 100 * of_sets[1] / sets);
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
            fmt::print("{}\"{}\": {:.4g}", i == 0 ? "" : ", ", cost::kNcclFitFields[i].name, x[i]);
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
