// SPDX-License-Identifier: Apache-2.0
//
// Mutants of the conformance node tests end with a result or an error that names what is wrong:
// nothing that ONNX's inference lets pass makes a kernel read beyond its operands, divide by zero
// or go on for ever.
//
// PARTITA_HOSTILE_CASE=test_topk:17 runs one of them alone, in this process, and says what came of
// it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/operators/op_rule.h"
#include "importers/onnx/onnx_importer.h"
#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"
#include "tests/runtime/hostile_models.h"
#include "tests/runtime/node_test.h"
#include "tests/support/draws.h"
#include "tests/support/paths.h"

namespace partita::runtime {
namespace {

namespace fs = std::filesystem;
using graph::HostTensor;

enum class HostileOutcome { ran, refused, failed, too_large, wrong };

struct HostileResult {
    HostileOutcome outcome = HostileOutcome::ran;
    std::string reason;  ///< of all but `ran`
};

/// Slow is not endless: what ATen does for minutes because the model says so is left out.
bool is_too_large(const graph::OpGraph& graph) {
    constexpr Bytes kMost{std::int64_t{64} << 20};
    constexpr Flops kMostWork{1'000'000'000};
    for (const graph::Tensor& tensor : graph.tensors()) {
        if (tensor.bytes() > kMost) return true;
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::OpId op(i);
        if (graph.op(op).kind != graph::OpKind::compute) continue;
        if (graph::rule_of(graph, op).flops > kMostWork) return true;
    }
    return false;
}

HostileResult import_and_run(const HostileModel& hostile) {
    const importers::OnnxModel model = importers::import_onnx(
        std::as_bytes(std::span(hostile.onnx)), {}, "hostile.onnx", "/nonexistent");
    check_kernels(model.graph);
    if (is_too_large(model.graph)) return {HostileOutcome::too_large, ""};
    const auto source = [&](const graph::Tensor& tensor) {
        HostTensor read{
            .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}};
        read.bytes.resize(static_cast<std::size_t>(tensor.bytes().raw()));
        model.source->read(tensor.name, Bytes{0}, read.bytes);
        return to_aten(read);
    };
    Tensors inputs;
    for (const HostTensor& input : hostile.inputs) inputs.push_back(to_aten(input));
    const TimeLimit limit(std::chrono::seconds(5));
    static_cast<void>(run_graph(model.graph, inputs, source));
    return {};
}

/// Every op on the CPU for at most 5 s. Refused: InputError or UsageError. Failed: ATen's own
/// refusal, or the end of the time. Too large: not run, for it has tensors of more than 64 MiB or
/// does more than 1 GFLOP. Wrong: anything else that is thrown.
HostileResult run(const HostileModel& model) {
    try {
        return import_and_run(model);
    } catch (const InputError& error) {
        return {HostileOutcome::refused, error.what()};
    } catch (const UsageError& error) {
        return {HostileOutcome::refused, error.what()};
    } catch (const std::runtime_error& error) {  // what run_graph() makes of ATen's errors
        return {HostileOutcome::failed, error.what()};
    } catch (const std::exception& error) {
        return {HostileOutcome::wrong, error.what()};
    }
}

constexpr std::size_t kOutcomes = 5;

/// Of each node test.
std::size_t mutants() {
    return support::draws(std::size_t{2});
}

/// What a child leaves, however it ends.
struct Shared {
    std::size_t next = 0;  ///< the mutant at work, of all of all node tests
    std::array<int, kOutcomes> counts{};
    std::array<char, 400> wrong{};  ///< the last one of that outcome, and why
};

class SharedMemory {
public:
    SharedMemory()
        : shared_(static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
        new (shared_) Shared;
    }
    ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    Shared* operator->() const { return shared_; }
    Shared& operator*() const { return *shared_; }

private:
    Shared* shared_;
};

class MutantRun {
public:
    explicit MutantRun(std::vector<fs::path> folders) : folders_(std::move(folders)) {}

    /// "test_topk:17"
    [[nodiscard]] std::string name(std::size_t mutant) const {
        return folders_[mutant / mutants()].filename().string() + ":" +
               std::to_string(mutant % mutants());
    }

    /// All mutants, in a child; one that dies takes only itself along.
    void run_all() {
        while (shared_->next < folders_.size() * mutants()) {
            const pid_t child = ::fork();
            if (child == 0) run_rest();
            int status = 0;
            ::waitpid(child, &status, 0);
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
            ADD_FAILURE() << name(shared_->next) << " ends by signal " << WTERMSIG(status);
            ++shared_->next;
        }
        const std::string wrong = shared_->wrong.data();
        EXPECT_EQ(wrong, "");
    }

    [[nodiscard]] int count(HostileOutcome outcome) const {
        return shared_->counts[static_cast<std::size_t>(outcome)];
    }

private:
    [[noreturn]] void run_rest() {
        constexpr unsigned kSeconds = 20;  // importing included
        at::set_num_threads(1);
        std::optional<HostileModels> models;
        for (bool first = true; shared_->next < folders_.size() * mutants(); ++shared_->next) {
            const std::size_t index = shared_->next % mutants();
            if (index == 0 || first) models = models_of(folders_[shared_->next / mutants()]);
            first = false;
            if (!models) continue;
            ::alarm(kSeconds);
            const HostileResult result = run(models->mutant(static_cast<int>(index)));
            ++shared_->counts[static_cast<std::size_t>(result.outcome)];
            if (result.outcome != HostileOutcome::wrong) continue;
            const std::string text = name(shared_->next) + ": " + result.reason;
            std::strncpy(shared_->wrong.data(), text.c_str(), shared_->wrong.size() - 1);
        }
        ::_exit(0);
    }

    static std::optional<HostileModels> models_of(const fs::path& folder) {
        try {
            return HostileModels(folder);
        } catch (const InputError&) {  // not of numbers
            return std::nullopt;
        }
    }

    std::vector<fs::path> folders_;
    SharedMemory shared_;
};

/// PARTITA_HOSTILE_CASE.
void run_alone(const std::string& name) {
    const std::size_t colon = name.find(':');
    const HostileModel mutant = HostileModels(tests::node_tests() / name.substr(0, colon))
                                    .mutant(std::stoi(name.substr(colon + 1)));
    std::cout << mutant.text << std::flush;
    std::cout << run(mutant).reason << "\n";
}

TEST(HostileModels, EndWithAResultOrAnErrorThatNamesWhatIsWrong) {
    if (const char* const name = std::getenv("PARTITA_HOSTILE_CASE")) return run_alone(name);
    const auto folders = node_test_folders();
    ASSERT_FALSE(folders.empty()) << "no conformance node tests; run scripts/setup";
    MutantRun mutants(folders);
    mutants.run_all();
    const int ran = mutants.count(HostileOutcome::ran);
    const int refused = mutants.count(HostileOutcome::refused);
    std::cout << ran << " mutants ran, " << refused << " were refused, "
              << mutants.count(HostileOutcome::failed) << " failed in ATen, "
              << mutants.count(HostileOutcome::too_large) << " were too large\n";
    EXPECT_GT(ran, refused / 3) << "most mutants do not come to a kernel";
}

}  // namespace
}  // namespace partita::runtime
