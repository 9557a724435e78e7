// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/exact/highs.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <interfaces/highs_c_api.h>

namespace partita::search {

namespace {

/// What is used of its C interface, under the names that it has there.
struct Library {
    decltype(&Highs_version) version = nullptr;
    decltype(&Highs_getSizeofHighsInt) size_of_int = nullptr;
    decltype(&Highs_create) create = nullptr;
    decltype(&Highs_destroy) destroy = nullptr;
    decltype(&Highs_setBoolOptionValue) set_bool = nullptr;
    decltype(&Highs_setIntOptionValue) set_int = nullptr;
    decltype(&Highs_setDoubleOptionValue) set_double = nullptr;
    decltype(&Highs_setStringOptionValue) set_string = nullptr;
    decltype(&Highs_passMip) pass_mip = nullptr;
    decltype(&Highs_setCallback) set_callback = nullptr;
    decltype(&Highs_startCallback) start_callback = nullptr;
    decltype(&Highs_run) run = nullptr;
    decltype(&Highs_getModelStatus) model_status = nullptr;
    decltype(&Highs_getIntInfoValue) int_info = nullptr;
    decltype(&Highs_getInt64InfoValue) int64_info = nullptr;
    decltype(&Highs_getDoubleInfoValue) double_info = nullptr;
    decltype(&Highs_getSolution) solution = nullptr;
    HighsVersion found;
};

template <class Function>
bool load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

bool load_all(void* from, Library& library) {
    return load(from, "Highs_version", library.version) &&
           load(from, "Highs_getSizeofHighsInt", library.size_of_int) &&
           load(from, "Highs_create", library.create) &&
           load(from, "Highs_destroy", library.destroy) &&
           load(from, "Highs_setBoolOptionValue", library.set_bool) &&
           load(from, "Highs_setIntOptionValue", library.set_int) &&
           load(from, "Highs_setDoubleOptionValue", library.set_double) &&
           load(from, "Highs_setStringOptionValue", library.set_string) &&
           load(from, "Highs_passMip", library.pass_mip) &&
           load(from, "Highs_setCallback", library.set_callback) &&
           load(from, "Highs_startCallback", library.start_callback) &&
           load(from, "Highs_run", library.run) &&
           load(from, "Highs_getModelStatus", library.model_status) &&
           load(from, "Highs_getIntInfoValue", library.int_info) &&
           load(from, "Highs_getInt64InfoValue", library.int64_info) &&
           load(from, "Highs_getDoubleInfoValue", library.double_info) &&
           load(from, "Highs_getSolution", library.solution);
}

/// Never closed: its worker threads, of which one is asked for, may outlive main().
Library open_library() {
    Library library;
    void* const from = dlopen(PARTITA_HIGHS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (from == nullptr || !load_all(from, library)) {
        const char* const why = dlerror();
        library.found.missing = fmt::format("{}. Install HiGHS with scripts/setup and build again",
                                            why == nullptr ? "HiGHS does not open" : why);
        return library;
    }
    // Structures that callbacks get are those of the header.
    const std::string version = library.version();
    if (version != PARTITA_HIGHS_VERSION || library.size_of_int(nullptr) != sizeof(HighsInt)) {
        library.found.missing = fmt::format("{} is HiGHS {}, this build is for {}. Build again",
                                            PARTITA_HIGHS_LIBRARY, version, PARTITA_HIGHS_VERSION);
        return library;
    }
    library.found.text = version;
    return library;
}

const Library& library() {
    static const Library kLibrary = open_library();
    return kLibrary;
}

struct Solver {
    explicit Solver(const Library& of) : lib(of), handle(of.create()) {}
    ~Solver() { lib.destroy(handle); }
    Solver(const Solver&) = delete;
    Solver& operator=(const Solver&) = delete;

    const Library& lib;
    void* handle;
    const MilpOptions* options = nullptr;
    std::int64_t iterations = 0;
    bool accepted = true;  ///< all that was set

    void accept(HighsInt status) { accepted = accepted && status != kHighsStatusError; }
    void set(const char* name, bool value) { accept(lib.set_bool(handle, name, value ? 1 : 0)); }
    void set(const char* name, HighsInt value) { accept(lib.set_int(handle, name, value)); }
    void set(const char* name, double value) { accept(lib.set_double(handle, name, value)); }
    void set(const char* name, const char* value) { accept(lib.set_string(handle, name, value)); }
};

void ask_whether_to_stop(int /*type*/, const char* /*message*/, const HighsCallbackDataOut* out,
                         HighsCallbackDataIn* in, void* data) {
    auto& solver = *static_cast<Solver*>(data);
    solver.iterations = std::max(solver.iterations, out->mip_total_lp_iterations);
    const MilpOptions& options = *solver.options;
    const bool stop = solver.iterations >= options.iterations || (options.stop && options.stop());
    in->user_interrupt = stop ? 1 : 0;
}

void configure(Solver& solver, const MilpOptions& options) {
    solver.options = &options;
    solver.set("output_flag", false);
    solver.set("threads", HighsInt{1});
    solver.set("parallel", "off");
    solver.set("random_seed", HighsInt{options.seed});
    solver.set("mip_heuristic_effort", options.heuristics);
    solver.set("mip_rel_gap", 0.0);
    solver.set("mip_abs_gap", options.tolerance);
    solver.set("mip_feasibility_tolerance", options.tolerance);
    solver.set("primal_feasibility_tolerance", options.tolerance);
    solver.set("dual_feasibility_tolerance", options.tolerance);
    if (options.seconds < Milp::kInfinity) solver.set("time_limit", options.seconds);
    solver.accept(solver.lib.set_callback(solver.handle, ask_whether_to_stop, &solver));
    solver.accept(solver.lib.start_callback(solver.handle, kHighsCallbackMipInterrupt));
}

void pass(Solver& solver, const Milp& program) {
    std::vector<HighsInt> kinds;
    for (const char whole : program.integral) {
        kinds.push_back(whole != 0 ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
    }
    const std::vector<HighsInt> start(program.start.begin(), program.start.end() - 1);
    const std::vector<HighsInt> index(program.index.begin(), program.index.end());
    solver.accept(solver.lib.pass_mip(
        solver.handle, static_cast<HighsInt>(program.columns()),
        static_cast<HighsInt>(program.rows()), static_cast<HighsInt>(program.entries()),
        kHighsMatrixFormatRowwise, kHighsObjSenseMinimize, /*offset=*/0, program.cost.data(),
        program.lower.data(), program.upper.data(), program.row_lower.data(),
        program.row_upper.data(), start.data(), index.data(), program.value.data(), kinds.data()));
}

MilpStatus status_of(HighsInt model_status) {
    if (model_status == kHighsModelStatusOptimal) return MilpStatus::optimal;
    if (model_status == kHighsModelStatusInfeasible) return MilpStatus::infeasible;
    const bool limit = model_status == kHighsModelStatusTimeLimit ||
                       model_status == kHighsModelStatusInterrupt ||
                       model_status == kHighsModelStatusSolutionLimit ||
                       model_status == kHighsModelStatusIterationLimit;
    return limit ? MilpStatus::stopped : MilpStatus::failed;
}

/// Empty: none was found.
std::vector<double> solution_of(const Solver& solver, const Milp& program) {
    constexpr HighsInt kFeasiblePoint = 2;
    HighsInt known = 0;
    solver.lib.int_info(solver.handle, "primal_solution_status", &known);
    if (known != kFeasiblePoint) return {};
    std::vector<double> x(program.columns());
    std::vector<double> column_duals(program.columns());
    std::vector<double> rows(program.rows());
    std::vector<double> row_duals(program.rows());
    solver.lib.solution(solver.handle, x.data(), column_duals.data(), rows.data(),
                        row_duals.data());
    return x;
}

}  // namespace

const HighsVersion& highs_version() {
    return library().found;
}

MilpResult solve_with_highs(const Milp& program, const MilpOptions& options) {
    MilpResult result;
    if (highs_version().text.empty()) return result;
    Solver solver(library());
    configure(solver, options);
    pass(solver, program);
    if (!solver.accepted || solver.lib.run(solver.handle) == kHighsStatusError) return result;
    result.status = status_of(solver.lib.model_status(solver.handle));
    result.iterations = solver.iterations;
    solver.lib.int64_info(solver.handle, "mip_node_count", &result.nodes);
    if (result.status == MilpStatus::failed) return result;
    if (result.status == MilpStatus::infeasible) {
        result.bound = Milp::kInfinity;
        return result;
    }
    solver.lib.double_info(solver.handle, "mip_dual_bound", &result.bound);
    result.x = solution_of(solver, program);
    return result;
}

}  // namespace partita::search
