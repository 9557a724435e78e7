// SPDX-License-Identifier: Apache-2.0
//
// The three products of a layer on one core, GFLOP/s: oneDNN's, which the kernels take where it
// pays, beside MKL's, which ATen takes (runtime/kernels/matrix_product.h).
//
//     matrix_product_bench
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "runtime/kernels/matrix_product.h"

namespace partita::bench {
namespace {

using Product = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

at::Tensor by_mkl(const at::Tensor& a, const at::Tensor& b) {
    return at::mm(a, b);
}

enum class Form : std::uint8_t { forward, of_input, of_weight };

/// y = x w, dx = dy w^T or dw = x^T dy, for x of rows x inner and w of inner x columns.
void run(benchmark::State& state, Product product, Form form) {
    const std::int64_t rows = state.range(0);
    const std::int64_t inner = state.range(1);
    const std::int64_t columns = state.range(2);
    const at::Tensor x = at::randn({rows, inner});
    const at::Tensor w = at::randn({inner, columns});
    const at::Tensor dy = at::randn({rows, columns});
    for (auto _ : state) {
        switch (form) {
        case Form::forward: benchmark::DoNotOptimize(product(x, w)); break;
        case Form::of_input: benchmark::DoNotOptimize(product(dy, w.t())); break;
        case Form::of_weight: benchmark::DoNotOptimize(product(x.t(), dy)); break;
        }
    }
    const double operations = 2.0 * static_cast<double>(rows * inner * columns);
    state.counters["GFLOP/s"] =
        benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void add(const std::string& name, Product product, Form form) {
    benchmark::RegisterBenchmark(name.c_str(), run, product, form)
        ->Args({128, 768, 768})
        ->Args({256, 768, 3072})
        ->Args({1024, 128, 256})
        ->Args({512, 512, 512})
        ->Args({128, 128, 128})
        ->UseRealTime();
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    using namespace partita::bench;
    at::set_num_threads(1);
    for (const auto& [name, form] : {std::pair("y", Form::forward), std::pair("dx", Form::of_input),
                                     std::pair("dw", Form::of_weight)}) {
        add(std::string(name) + "/MKL", by_mkl, form);
        add(std::string(name) + "/kernel", partita::runtime::matrix_product, form);
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
