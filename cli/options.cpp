// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "search/portfolio/searcher_table.h"

namespace partita::cli {
namespace {

constexpr const char* kModelGroup = "Model";
constexpr const char* kGoalGroup = "What to plan for";
constexpr const char* kSearchGroup = "Search";
constexpr const char* kOutputGroup = "Output";

/// A whole number above 0 that fills all of `text`, or nullopt.
std::optional<std::int64_t> positive_number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1) return std::nullopt;
    return value;
}

double parse_seconds(const std::string& text, std::string_view option) {
    constexpr double kMost = 1e9;  // 30 years
    double seconds = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0) ||
        seconds > kMost) {
        throw UsageError(
            fmt::format("{} {}: expected seconds, a number from 0 to 1e9.", option, text));
    }
    return seconds;
}

void add_binding(std::map<std::string, std::int64_t>& bindings, const std::string& text) {
    const auto split = text.rfind('=');
    const auto value = split == std::string::npos
                           ? std::nullopt
                           : positive_number(std::string_view(text).substr(split + 1));
    if (!value || split == 0) {
        throw UsageError(
            fmt::format("--bind {}: expected NAME=N with N >= 1, e.g. --bind sequence=128.", text));
    }
    bindings[text.substr(0, split)] = *value;
}

void add_shape(std::map<std::string, graph::Shape>& shapes, const std::string& text) {
    const auto fail = [&] {
        throw UsageError(fmt::format(
            "--shape {}: expected INPUT:AxBxC with extents >= 1, e.g. --shape image:8x3x224x224.",
            text));
    };
    const auto split = text.rfind(':');  // names such as "input:0" hold colons too
    if (split == std::string::npos || split == 0) fail();
    graph::Shape shape;
    std::string_view rest = std::string_view(text).substr(split + 1);
    while (!rest.empty()) {
        const auto end = std::min(rest.find('x'), rest.size());
        const auto extent = positive_number(rest.substr(0, end));
        if (!extent || end + 1 == rest.size()) fail();
        shape.push_back(extent.value_or(0));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    shapes[text.substr(0, split)] = shape;
}

/// One name of an enum's values, e.g. for --mode. Throws UsageError naming all of them.
template <class Enum, std::size_t size>
Enum choice(std::string_view option, std::string_view text, const std::array<Enum, size>& values) {
    std::string known;
    for (const Enum value : values) {
        if (name_of(value) == text) return value;
        known += known.empty() ? "" : ", ";
        known += name_of(value);
    }
    throw UsageError(fmt::format("{} {}: unknown. There is: {}.", option, text, known));
}

void set_loss(TrainingOptions& options, const std::string& text) {
    constexpr std::array kLosses{plan::LossKind::sum, plan::LossKind::mse,
                                 plan::LossKind::cross_entropy};
    const auto split = text.find(':');
    options.loss = choice("--loss", text.substr(0, split), kLosses);
    options.loss_output = split == std::string::npos ? "" : text.substr(split + 1);
    if (split != std::string::npos && options.loss_output.empty()) {
        throw UsageError(fmt::format(
            "--loss {}: expected the name of an output after the colon, e.g. --loss sum:logits.",
            text));
    }
}

plan::Scheduler parse_scheduler(const std::string& text) {
    using plan::Scheduler;
    return choice("--scheduler", text,
                  std::array{Scheduler::fifo, Scheduler::rank, Scheduler::pct, Scheduler::msr});
}

template <class Set>
CLI::Option* add_text_option(CLI::App& app, const char* name, const char* type, const char* group,
                             const std::string& help, Set set) {
    return app
        .add_option_function<std::string>(
            name, [set](const std::string& text) { set(text); }, help)
        ->type_name(type)
        ->group(group);
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
    app.add_option("MODEL", options.file, "an .onnx model, or a workload .json")
        ->required()
        ->type_name("");
    add_binding_options(app, options);
}

void add_binding_options(CLI::App& app, ModelOptions& options) {
    app.add_option_function<std::vector<std::string>>(
           "--bind",
           [&options](const std::vector<std::string>& texts) {
               for (const auto& text : texts) add_binding(options.bindings, text);
           },
           "give a symbolic dim a value (repeatable)")
        ->type_name("NAME=N")
        ->allow_extra_args(false)
        ->group(kModelGroup);
    app.add_option_function<std::vector<std::string>>(
           "--shape",
           [&options](const std::vector<std::string>& texts) {
               for (const auto& text : texts) add_shape(options.shapes, text);
           },
           "give an input a shape (repeatable)")
        ->type_name("INPUT:AxBxC")
        ->allow_extra_args(false)
        ->group(kModelGroup);
    add_text_option(
        app, "--batch", "N", kModelGroup, "the sample dim of all inputs",
        [&options](const std::string& text) {
            options.batch = positive_number(text);
            if (!options.batch) {
                throw UsageError(fmt::format("--batch {}: expected a whole number >= 1.", text));
            }
        });
    app.add_option("--inputs", options.inputs,
                   "bind the dims to the shapes of an ONNX test-data-set folder (input_0.pb, ...)")
        ->type_name("DIR")
        ->group(kModelGroup);
    app.add_flag("--unroll", options.unroll, "expand LSTM, GRU, RNN into one op per step")
        ->group(kModelGroup);
}

void add_machine_option(CLI::App& app, std::string& machine) {
    app.add_option("--machine", machine,
                   "a preset (`partita machine list`) with optional size, such as cpu:2 or "
                   "dgx-h100:4, or a machine .json; default: this host, or what a workload names")
        ->type_name("M")
        ->group(kGoalGroup);
}

void add_what_if_options(CLI::App& app, cost::WhatIf& changes) {
    app.add_option("--set", changes.set,
                   "a machine with another figure, such as network.bandwidth=12.5GB/s or "
                   "device.memory=40GiB; may be repeated")
        ->type_name("PATH=VALUE")
        ->allow_extra_args(false)
        ->group(kGoalGroup);
    app.add_option("--scale", changes.scale,
                   "figures of the machine times a factor, such as network=0.25 or compute=2; may "
                   "be repeated")
        ->type_name("PATH=FACTOR")
        ->allow_extra_args(false)
        ->group(kGoalGroup);
}

void add_training_options(CLI::App& app, TrainingOptions& options) {
    add_text_option(app, "--mode", "MODE", kGoalGroup, "inference (default) or training",
                    [&options](const std::string& text) {
                        options.mode =
                            choice("--mode", text,
                                   std::array{plan::Mode::inference, plan::Mode::training});
                    });
    add_text_option(app, "--optimizer", "O", kGoalGroup, "training: sgd (default), momentum, adam",
                    [&options](const std::string& text) {
                        using plan::Optimizer;
                        options.optimizer = choice(
                            "--optimizer", text,
                            std::array{Optimizer::sgd, Optimizer::momentum, Optimizer::adam});
                    });
    add_text_option(app, "--loss", "KIND[:OUTPUT]", kGoalGroup,
                    "training: sum (default), mse or cross-entropy, of one output or of all",
                    [&options](const std::string& text) { set_loss(options, text); });
    add_text_option(app, "--gradient-sync", "SYNC", kGoalGroup,
                    "training: all-reduce (default) or parameter-server, for data parallelism",
                    [&options](const std::string& text) {
                        using plan::GradientSync;
                        options.gradient_sync = choice(
                            "--gradient-sync", text,
                            std::array{GradientSync::all_reduce, GradientSync::parameter_server});
                    });
    app.add_option("--micro-batches", options.micro_batches,
                   fmt::format("parts of the batch that run one after the other; gradients add up "
                               "(default 1; in training the search chooses, up to {})",
                               plan::kMostChosenMicroBatches))
        ->type_name("N")
        ->check(CLI::Range(1, plan::kMostMicroBatches).description(""))
        ->group(kGoalGroup);
    add_text_option(app, "--schedule", "SCHEDULE", kGoalGroup,
                    "order of micro-batches in a pipeline: none (default; in training the search "
                    "chooses), gpipe, 1f1b, eager-1f1b or interleaved:V",
                    [&options](const std::string& text) {
                        options.schedule = plan::schedule_from_text(text);
                        if (options.schedule) return;
                        throw UsageError(fmt::format("--schedule {}: unknown. There is: {}.", text,
                                                     plan::schedule_names()));
                    });
}

/// Letters of S, O, A, P and R, separated by commas.
void parse_dims(const std::string& text, GoalOptions& options) {
    using graph::SoapClass;
    std::map<std::string, SoapClass> left{{"S", SoapClass::sample},
                                          {"A", SoapClass::attribute},
                                          {"P", SoapClass::parameter},
                                          {"R", SoapClass::reduction}};
    const std::size_t kinds = left.size();
    bool places_ops = false;
    std::istringstream letters(text);
    for (std::string letter; std::getline(letters, letter, ',');) {
        places_ops = places_ops || letter == "O";
        if (letter == "O" || left.erase(letter) > 0) continue;
        throw UsageError(fmt::format(
            "--dims {}: expected letters of S, O, A, P and R, each once and separated by "
            "commas, got '{}'.",
            text, letter));
    }
    if (!places_ops) {
        throw UsageError(
            fmt::format("--dims {}: the search always chooses devices op by op. Add O.", text));
    }
    options.whole_ops = left.size() == kinds;
    options.unsplit.clear();
    for (const auto& [letter, soap] : left) options.unsplit.push_back(soap);
}

void add_constraint_options(CLI::App& app, GoalOptions& options) {
    app.add_option("--fix", options.fix, "constraints, JSON (docs/file-formats.md)")
        ->type_name("FILE")
        ->group(kGoalGroup);
    add_text_option(
        app, "--dims", "S,O,A,P,R", kGoalGroup,
        "kinds of splits that the search may use: sample, operator (always), attribute, "
        "parameter, reduction; O alone: whole ops on devices (default all)",
        [&options](const std::string& text) { parse_dims(text, options); });
    add_text_option(app, "--memory-limit", "BYTES", kGoalGroup,
                    "per device, if tighter than the machine's; 8GB and 8GiB work too",
                    [&options](const std::string& text) {
                        options.memory_limit = parse_bytes(text, "--memory-limit");
                    });
}

void add_goal_options(CLI::App& app, GoalOptions& options) {
    add_training_options(app, options.training);
    add_text_option(
        app, "--objective", "GOAL", kGoalGroup,
        "latency (default of inference), step-time (of training), throughput (of "
        "workloads)",
        [&options](const std::string& text) {
            using plan::Objective;
            options.objective =
                choice("--objective", text,
                       std::array{Objective::latency, Objective::throughput, Objective::step_time});
        });
    add_constraint_options(app, options);
    add_profile_option(app, options);
}

void add_profile_option(CLI::App& app, GoalOptions& options) {
    app.add_option("--profile", options.profile,
                   "measured costs, a database that `partita profile` wrote; what it lacks is "
                   "priced by the analytic model")
        ->type_name("DB")
        ->group(kGoalGroup);
}

void add_budget_options(CLI::App& app, SearchOptions& options) {
    add_text_option(
        app, "--scheduler", "RULE", kSearchGroup,
        "which ready task goes first: fifo, rank (frozen priorities of ops), pct (longest path "
        "first, default), msr",
        [&options](const std::string& text) { options.scheduler = parse_scheduler(text); });
    add_text_option(
        app, "--time-limit", "SEC", kSearchGroup,
        "stop searching after SEC seconds (default 10 for searchers that do not end by themselves)",
        [&options](const std::string& text) {
            options.time_limit_seconds = parse_seconds(text, "--time-limit");
        });
    add_text_option(app, "--evaluations", "N", kSearchGroup,
                    "stop searching after N evaluations; no time limit then, unless given",
                    [&options](const std::string& text) {
                        options.evaluations = positive_number(text);
                        if (!options.evaluations) {
                            throw UsageError(fmt::format(
                                "--evaluations {}: expected a whole number >= 1.", text));
                        }
                    });
    add_text_option(
        app, "--seed", "N", kSearchGroup, "of everything random (default 1)",
        [&options](const std::string& text) {
            const auto seed = text == "0" ? 0 : positive_number(text);
            if (!seed) {
                throw UsageError(fmt::format("--seed {}: expected a whole number >= 0.", text));
            }
            options.seed = static_cast<std::uint64_t>(*seed);
        });
    add_text_option(
        app, "--threads", "N", kSearchGroup, "default: one per core",
        [&options](const std::string& text) {
            constexpr std::int64_t kMostThreads = 1024;
            const auto threads = positive_number(text).value_or(0);
            if (threads < 1 || threads > kMostThreads) {
                throw UsageError(fmt::format("--threads {}: expected a whole number from 1 to {}.",
                                             text, kMostThreads));
            }
            options.threads = static_cast<int>(threads);
        });
    add_text_option(app, "--engine", "E", kSearchGroup,
                    "of exact: own (proofs in integers), highs (HiGHS, to its tolerances) or both "
                    "(default), own first",
                    [&options](const std::string& text) {
                        options.exact_engine = search::parse_exact_engine(text);
                    });
    app.add_flag_function(
           "--no-groups", [&options](std::int64_t) { options.groups = false; },
           "let operators part that make no sense apart, such as a constant and its user")
        ->group(kSearchGroup);
}

void add_scheduler_option(CLI::App& app, std::optional<plan::Scheduler>& scheduler) {
    add_text_option(app, "--scheduler", "RULE", kSearchGroup,
                    "order the tasks anew by fifo, rank, pct or msr; default: the plan's order",
                    [&scheduler](const std::string& text) { scheduler = parse_scheduler(text); });
}

void add_search_options(CLI::App& app, SearchOptions& options) {
    app.add_option("--searcher", options.searcher,
                   "one of those below (default auto), or S1,S2: the later starts from the best "
                   "of the earlier")
        ->type_name("S")
        ->group(kSearchGroup);
    app.add_flag("--contiguous", options.contiguous,
                 "throughput: each device gets one contiguous piece of the graph")
        ->group(kSearchGroup);
    add_budget_options(app, options);
}

void add_console_options(CLI::App& app, ConsoleOptions& options, bool with_json) {
    if (with_json) {
        app.add_flag("--json", options.json, "a summary for programs on stdout, nothing else there")
            ->group(kOutputGroup);
    }
    app.add_flag("--quiet", options.quiet, "no notes and no progress bar on stderr")
        ->group(kOutputGroup);
    app.add_flag("--verbose", options.verbose, "say what happens on stderr")->group(kOutputGroup);
}

Bytes parse_bytes(std::string_view text, std::string_view option) {
    struct Suffix {
        std::string_view name;
        std::int64_t factor;
    };
    constexpr std::int64_t kKibi = 1024;
    constexpr std::int64_t kKilo = 1000;
    constexpr std::array kSuffixes = {
        Suffix{"", 1},
        Suffix{"B", 1},
        Suffix{"KiB", kKibi},
        Suffix{"MiB", kKibi * kKibi},
        Suffix{"GiB", kKibi * kKibi * kKibi},
        Suffix{"TiB", kKibi * kKibi * kKibi * kKibi},
        Suffix{"KB", kKilo},
        Suffix{"MB", kKilo * kKilo},
        Suffix{"GB", kKilo * kKilo * kKilo},
        Suffix{"TB", kKilo * kKilo * kKilo * kKilo},
    };
    const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto amount = positive_number(text.substr(0, digits));
    std::string_view unit = text.substr(digits);
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    const auto suffix = std::ranges::find(kSuffixes, unit, &Suffix::name);
    std::int64_t bytes = 0;
    if (!amount || suffix == kSuffixes.end() ||
        __builtin_mul_overflow(*amount, suffix->factor, &bytes)) {
        throw UsageError(fmt::format(
            "{} {}: expected an amount of bytes, e.g. 8000000000, 8GB or 8GiB.", option, text));
    }
    return Bytes(bytes);
}

}  // namespace partita::cli
