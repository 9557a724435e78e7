// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <stop_token>

#include <fmt/format.h>

#include "python/bindings/core.h"

namespace partita::python {
namespace {

/// Calls what Python gave, and looks whether Ctrl-C was pressed. Runs without the GIL.
class Watch {
public:
    Watch(nb::object progress, std::stop_source& stop)
        : progress_(std::move(progress)), stop_(stop) {}

    void operator()(const Progress& now) {
        const nb::gil_scoped_acquire acquired;
        if (PyErr_CheckSignals() != 0) {
            if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0) throw nb::python_error();
            PyErr_Clear();
            interrupted_ = true;
            stop_.request_stop();
        }
        if (!progress_.is_none()) progress_(now);
    }

    [[nodiscard]] bool interrupted() const { return interrupted_; }

private:
    nb::object progress_;
    std::stop_source& stop_;
    bool interrupted_ = false;
};

SearchResult find(const Model& model, const Machine& machine,
                  const std::map<std::string, std::string>& texts, const std::optional<Plan>& start,
                  nb::object progress) {
    PlanOptions options;
    for (const auto& [option, text] : texts) options.set(option, text);
    options.start = start;
    std::stop_source stop;
    Watch watch(std::move(progress), stop);
    options.progress = [&watch](const Progress& now) { watch(now); };
    options.stop = stop.get_token();
    SearchResult result = [&] {
        const nb::gil_scoped_release released;
        return find_plan(model, machine, options);
    }();
    if (watch.interrupted() && !result.feasible()) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
    return result;
}

Plan price_texts(const Model& model, const Machine& machine, const std::vector<OpPlan>& ops,
                 const std::map<std::string, std::string>& texts) {
    PlanOptions options;
    for (const auto& [option, text] : texts) options.set(option, text);
    const nb::gil_scoped_release released;
    return price(model, machine, ops, options);
}

std::optional<double> optional_seconds(const std::optional<Time>& time) {
    return time ? std::optional(seconds(*time)) : std::nullopt;
}

}  // namespace

void bind_search(nb::module_& m) {
    nb::class_<Progress>(m, "Progress", "How far a search is; valid during the call only.")
        .def_ro("evaluations", &Progress::evaluations)
        .def_prop_ro(
            "best", [](const Progress& now) { return optional_seconds(now.best); },
            "Seconds of the best plan that fits; None: none yet.")
        .def_prop_ro("lower_bound", &seconds_of<Progress, &Progress::lower_bound>)
        .def_prop_ro(
            "elapsed",
            [](const Progress& now) { return std::chrono::duration<double>(now.elapsed).count(); })
        .def_prop_ro("searcher", [](const Progress& now) { return std::string(now.searcher); })
        .def_prop_ro("detail", [](const Progress& now) { return std::string(now.detail); });
    nb::class_<Baseline>(m, "Baseline", "A well-known plan to compare with.")
        .def_ro("name", &Baseline::name)
        .def_ro("configuration", &Baseline::configuration)
        .def_prop_ro(
            "value", [](const Baseline& of) { return optional_seconds(of.value); },
            "Seconds; None: it does not fit.");
    nb::class_<SearchResult>(m, "SearchResult")
        .def_prop_ro("status",
                     [](const SearchResult& result) { return std::string(to_text(result.status)); })
        .def_prop_ro("plan", &SearchResult::plan, "The best; UsageError where there is none.")
        .def_prop_ro("feasible", &SearchResult::feasible)
        .def_ro("shortage", &SearchResult::shortage, "Without a plan: what is short, by how much.")
        .def_prop_ro("lower_bound", &seconds_of<SearchResult, &SearchResult::lower_bound>,
                     "Seconds that no legal plan is below.")
        .def_ro("gap", &SearchResult::gap, "value / lower bound - 1.")
        .def_ro("limited_by", &SearchResult::limited_by)
        .def_ro("searcher", &SearchResult::searcher)
        .def_ro("evaluations", &SearchResult::evaluations)
        .def_prop_ro("elapsed",
                     [](const SearchResult& result) {
                         return std::chrono::duration<double>(result.elapsed).count();
                     })
        .def_ro("baselines", &SearchResult::baselines)
        .def("__repr__", [](const SearchResult& result) {
            return fmt::format("<partita.SearchResult {}{}>", to_text(result.status),
                               result.best ? ": " + to_text(result.best->value()) : "");
        });
    nb::class_<OptionInfo>(m, "OptionInfo")
        .def_ro("name", &OptionInfo::name)
        .def_ro("value", &OptionInfo::value)
        .def_ro("help", &OptionInfo::help);
    nb::class_<SearcherInfo>(m, "SearcherInfo")
        .def_ro("name", &SearcherInfo::name)
        .def_ro("summary", &SearcherInfo::summary);
    m.def("plan_options", &plan_options);
    m.def("searchers", &searchers, "What the option searcher may name.");
    m.def("price", &price_texts, nb::arg("model"), nb::arg("machine"), nb::arg("ops"),
          nb::arg("options"));
    m.def("find_plan", &find, nb::arg("model"), nb::arg("machine"), nb::arg("options"),
          nb::arg("start") = nb::none(), nb::arg("progress") = nb::none());
}

}  // namespace partita::python
