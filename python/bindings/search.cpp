// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <stop_token>

#include <fmt/format.h>

#include <nanobind/stl/function.h>

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

ImportReport import_texts(const Model& model, const Machine& machine,
                          const std::filesystem::path& file, const std::filesystem::path& database,
                          const std::map<std::string, std::string>& texts) {
    PlanOptions options;
    for (const auto& [option, text] : texts) options.set(option, text);
    const nb::gil_scoped_release released;
    return import_times(model, machine, options, file, database);
}

ImportReport write_costs_of(const Model& model, const Machine& machine,
                            const std::function<std::optional<double>(const Work&)>& costs,
                            const std::filesystem::path& database,
                            const std::map<std::string, std::string>& texts) {
    PlanOptions options;
    for (const auto& [option, text] : texts) options.set(option, text);
    return write_costs(
        model, machine, options,
        [&costs](const Work& work) -> std::optional<Time> {
            const std::optional<double> seconds = costs(work);
            constexpr double kMilliseconds = 1e3;
            return seconds ? std::optional(time_from_milliseconds(*seconds * kMilliseconds))
                           : std::nullopt;
        },
        database);
}

std::optional<double> optional_seconds(const std::optional<Time>& time) {
    return time ? std::optional(seconds(*time)) : std::nullopt;
}

void bind_import(nb::module_& m) {
    using Missing = ImportReport::Missing;
    using Unused = ImportReport::Unused;
    nb::class_<Missing>(m, "MissingWork", "A work of a step that has no time.")
        .def_ro("work", &Missing::work)
        .def_ro("tasks", &Missing::tasks)
        .def_prop_ro("predicted", &seconds_of<Missing, &Missing::predicted>,
                     "Seconds of all tasks.")
        .def_ro("why", &Missing::why);
    nb::class_<Unused>(m, "UnusedCall", "An operator of the file that no work is made of.")
        .def_ro("call", &Unused::call)
        .def_ro("calls", &Unused::calls)
        .def_prop_ro("time", &seconds_of<Unused, &Unused::time>, "Seconds of all calls.");
    nb::class_<ImportReport>(m, "ImportReport", "What of a step has a measured time now.")
        .def_ro("device", &ImportReport::device)
        .def_ro("measured_on", &ImportReport::measured_on)
        .def_ro("operators", &ImportReport::operators)
        .def_ro("rows", &ImportReport::rows, "Works written; other parts of the step's too.")
        .def_ro("unknown", &ImportReport::unknown)
        .def_ro("works", &ImportReport::works, "Different works of a step.")
        .def_ro("found", &ImportReport::found, "How many of these have a time.")
        .def_prop_ro("predicted", &seconds_of<ImportReport, &ImportReport::predicted>)
        .def_prop_ro("predicted_found", &seconds_of<ImportReport, &ImportReport::predicted_found>)
        .def_prop_ro("measured_found", &seconds_of<ImportReport, &ImportReport::measured_found>)
        .def_ro("missing", &ImportReport::missing, "The longest first.")
        .def_ro("unused", &ImportReport::unused, "The longest first.")
        .def("__repr__", [](const ImportReport& report) {
            return fmt::format("<partita.ImportReport {} of {} works: predicted {}, measured {}>",
                               report.found, report.works, to_text(report.predicted_found),
                               to_text(report.measured_found));
        });
    m.def("import_times", &import_texts, nb::arg("model"), nb::arg("machine"), nb::arg("file"),
          nb::arg("database"), nb::arg("options"));
    nb::class_<Work>(m, "Work", "Something that a task of a plan does, on one device.")
        .def_ro("text", &Work::text,
                "\"forward MatMul.13 (float32[8,64], float32[64,32]) -> (float32[8,32])\".")
        .def_ro("flops", &Work::flops)
        .def_prop_ro("bytes", &bytes_of<Work, &Work::bytes>, "Read and written.")
        .def_prop_ro("predicted", &seconds_of<Work, &Work::predicted>,
                     "Seconds by the prices without it.")
        .def("__repr__", [](const Work& work) {
            return fmt::format("<partita.Work {}: {}>", work.text, to_text(work.predicted));
        });
    nb::class_<TransferTime>(m, "TransferTime",
                             "A copy or a collective among devices, as somebody measured it.")
        .def(
            "__init__",
            [](TransferTime* time, std::string kind, int ranks, std::int64_t bytes,
               double seconds) {
                constexpr double kMilliseconds = 1e3;
                new (time) TransferTime{.kind = std::move(kind),
                                        .ranks = ranks,
                                        .bytes = Bytes{bytes},
                                        .time = time_from_milliseconds(seconds * kMilliseconds)};
            },
            nb::arg("kind"), nb::arg("ranks"), nb::arg("bytes"), nb::arg("seconds"))
        .def_ro("kind", &TransferTime::kind)
        .def_ro("ranks", &TransferTime::ranks)
        .def_prop_ro("bytes", &bytes_of<TransferTime, &TransferTime::bytes>,
                     "Of all-reduce, broadcast and reduce the buffer; of all-gather, "
                     "reduce-scatter, scatter and gather the whole one; of all-to-all that of one "
                     "rank; of a copy the message.")
        .def_prop_ro("seconds", &seconds_of<TransferTime, &TransferTime::time>)
        .def("__repr__", [](const TransferTime& time) {
            return fmt::format("<partita.TransferTime {} among {}, {}: {}>", time.kind, time.ranks,
                               to_text(time.bytes), to_text(time.time));
        });
    m.def(
        "write_transfers",
        [](const Machine& machine, const std::vector<TransferTime>& transfers,
           const std::filesystem::path& database) {
            write_transfers(machine, transfers, database);
        },
        nb::arg("machine"), nb::arg("transfers"), nb::arg("database"),
        "Adds rows to a profile database, for all machines with such devices.");
    m.def("write_costs", &write_costs_of, nb::arg("model"), nb::arg("machine"), nb::arg("costs"),
          nb::arg("database"), nb::arg("options"));
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
    // Attributes of its own: partita.plan() leaves the model there, for notebooks.
    nb::class_<SearchResult>(m, "SearchResult", nb::dynamic_attr())
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
    bind_import(m);
    m.def("plan_options", &plan_options);
    m.def("searchers", &searchers, "What the option searcher may name.");
    m.def("price", &price_texts, nb::arg("model"), nb::arg("machine"), nb::arg("ops"),
          nb::arg("options"));
    m.def("find_plan", &find, nb::arg("model"), nb::arg("machine"), nb::arg("options"),
          nb::arg("start") = nb::none(), nb::arg("progress") = nb::none());
}

}  // namespace partita::python
