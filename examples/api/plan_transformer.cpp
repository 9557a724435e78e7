// SPDX-License-Identifier: Apache-2.0
//
// Plans the training of a small transformer that is built by hand, without ONNX:
//
//     plan_transformer [MACHINE [PLAN]]      default: dgx-a100, and no file
//
// Shows how progress is followed and how a search is ended early: it stops itself once the plan is
// within 5 % of the lower bound, or when no better one came up in 300 evaluations.
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <partita/partita.h>

namespace {

struct Sizes {
    std::int64_t batch = 32;
    std::int64_t positions = 256;
    std::int64_t width = 512;
    std::int64_t heads = 8;
    std::int64_t words = 8'192;
    int layers = 4;
};

/// x w + b
partita::Tensor linear(partita::Graph& graph, const std::string& name, const partita::Tensor& x,
                       std::int64_t in, std::int64_t out) {
    const auto product = graph.add("MatMul", {x, graph.parameter(name + ".w", {in, out})}, {},
                                   {.name = name + "/MatMul"});
    return graph.add("Add", {product, graph.parameter(name + ".b", {out})}, {},
                     {.name = name + "/Add"});
}

partita::Tensor normalized(partita::Graph& graph, const std::string& name, const partita::Tensor& x,
                           std::int64_t width) {
    return graph.add(
        "LayerNormalization",
        {x, graph.parameter(name + ".scale", {width}), graph.parameter(name + ".shift", {width})},
        {{"epsilon", 1e-5}}, {.name = name + "/LayerNormalization"});
}

/// [batch positions width] -> [batch positions heads width/heads] -> the order of `axes`
partita::Tensor heads_of(partita::Graph& graph, const std::string& name, const partita::Tensor& x,
                         const Sizes& sizes, std::vector<std::int64_t> axes) {
    const auto target = graph.integers(name + ".shape", {0, 0, sizes.heads, -1});
    const auto split = graph.add("Reshape", {x, target}, {}, {.name = name + "/Reshape"});
    return graph.add("Transpose", {split}, {{"perm", std::move(axes)}},
                     {.name = name + "/Transpose"});
}

partita::Tensor attention(partita::Graph& graph, const std::string& name, const partita::Tensor& x,
                          const Sizes& sizes) {
    const auto project = [&](const std::string& part) {
        return linear(graph, name + "/" + part, x, sizes.width, sizes.width);
    };
    const auto query = heads_of(graph, name + "/q", project("q"), sizes, {0, 2, 1, 3});
    const auto key = heads_of(graph, name + "/k", project("k"), sizes, {0, 2, 3, 1});
    const auto value = heads_of(graph, name + "/v", project("v"), sizes, {0, 2, 1, 3});
    auto scores = graph.add("MatMul", {query, key}, {}, {.name = name + "/scores"});
    scores = graph.add("Div", {scores, graph.constant(name + ".scale", {})});
    const auto weights = graph.add("Softmax", {scores}, {{"axis", -1}});
    auto mixed = graph.add("MatMul", {weights, value}, {}, {.name = name + "/mixed"});
    mixed = graph.add("Transpose", {mixed}, {{"perm", {0, 2, 1, 3}}});
    mixed = graph.add("Reshape", {mixed, graph.integers(name + ".merged", {0, 0, -1})});
    return linear(graph, name + "/out", mixed, sizes.width, sizes.width);
}

partita::Tensor layer(partita::Graph& graph, const std::string& name, partita::Tensor x,
                      const Sizes& sizes) {
    x = graph.add("Add", {x, attention(graph, name + "/attention", x, sizes)});
    x = normalized(graph, name + "/norm1", x, sizes.width);
    auto h = linear(graph, name + "/up", x, sizes.width, 4 * sizes.width);
    h = linear(graph, name + "/down", graph.add("Gelu", {h}), 4 * sizes.width, sizes.width);
    return normalized(graph, name + "/norm2", graph.add("Add", {x, h}), sizes.width);
}

partita::Graph transformer(const Sizes& sizes) {
    partita::Graph graph("transformer");
    const auto words =
        graph.input("words", {sizes.batch, sizes.positions}, {.dtype = partita::DType::int64});
    auto x = graph.add("Gather", {graph.parameter("embedding", {sizes.words, sizes.width}), words});
    for (int i = 0; i < sizes.layers; ++i) {
        x = layer(graph, "layer." + std::to_string(i), x, sizes);
    }
    graph.output(linear(graph, "head", x, sizes.width, sizes.words));
    return graph;
}

/// Prints each better plan, and ends a search that no longer pays.
class Watcher {
public:
    void see(const partita::Progress& progress) {
        if (progress.best && progress.best != best_) {
            best_ = progress.best;
            found_ = progress.evaluations;
            std::cout << "after " << progress.evaluations << " evaluations, by "
                      << progress.searcher << ": " << partita::to_text(*best_) << '\n';
        }
        if (!best_) return;
        const bool close = *best_ / progress.lower_bound < 1.05;
        if (close || progress.evaluations - found_ >= 300) stop_.request_stop();
    }

    [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

private:
    std::stop_source stop_;
    std::optional<partita::Time> best_;
    std::int64_t found_ = 0;
};

void print(const partita::SearchResult& result) {
    const partita::Plan& plan = result.plan();
    std::cout << partita::to_text(result.status) << ": a step takes "
              << partita::to_text(plan.value()) << ", and no plan takes less than "
              << partita::to_text(result.lower_bound) << '\n';
    for (const partita::DeviceUse& device : plan.devices()) {
        std::cout << "  " << device.name << ": busy " << partita::to_text(device.busy)
                  << ", memory " << partita::to_text(device.memory) << " of "
                  << partita::to_text(device.capacity) << '\n';
    }
}

/// Which dims of the results are cut, and into how many parts.
void explain(const partita::Model& model, const partita::Plan& plan,
             const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        const partita::OpPlan op = plan.op(name);
        std::cout << "  " << name << ": on " << op.devices.size() << " devices";
        for (const auto& [factor, degree] : op.degrees) {
            std::cout << ", " << factor << " in " << degree << " parts";
            for (const partita::FactorInfo& info : model.factors(name)) {
                if (info.name != factor) continue;
                for (const partita::DimOf& dim : info.results) {
                    std::cout << " (dim " << dim.dim << " of the result)";
                }
            }
        }
        std::cout << '\n';
    }
}

int run(const std::string& machine_name, const char* file) {
    const partita::Model model(transformer({}));
    const partita::Machine machine = partita::Machine::load(machine_name);

    Watcher watcher;
    const partita::SearchResult result = partita::find_plan(
        model, machine,
        {.mode = partita::Mode::training,
         .optimizer = partita::Optimizer::adam,
         .searchers = {"auto", "mcmc"},
         .evaluations = 2'000,
         .progress = [&](const partita::Progress& progress) { watcher.see(progress); },
         .stop = watcher.token()});
    if (!result.feasible()) {
        std::cout << "infeasible: " << result.shortage << '\n';
        return 4;
    }
    print(result);
    explain(model, result.plan(), {"layer.0/up/MatMul", "layer.0/attention/scores", "head/MatMul"});

    for (const std::string& line : result.plan().description(model).lines) {
        std::cout << line << '\n';
    }
    const partita::Throughput throughput = result.plan().throughput(model);
    std::cout << throughput.samples_per_second << " samples/s, MFU " << 100 * throughput.mfu
              << " %\n";

    const auto faults = result.plan().verify(model);
    for (const std::string& fault : faults) std::cout << "not legal: " << fault << '\n';
    if (!faults.empty()) return 1;
    std::cout << "the plan is legal\n";
    if (file != nullptr) result.plan().save(file);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc > 1 ? argv[1] : "dgx-a100", argc > 2 ? argv[2] : nullptr);
    } catch (const std::exception& error) {
        std::cerr << "plan_transformer: " << error.what() << '\n';
        return 3;
    }
}
