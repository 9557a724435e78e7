// SPDX-License-Identifier: Apache-2.0
#include "cli/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/model_facts.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/soap.h"
#include "search/bounds/lower_bound.h"

namespace partita::cli {
namespace {

using graph::OpId;
using graph::OpKind;
using Json = nlohmann::ordered_json;

/// Most FLOPs first, then most ops, then by name.
std::vector<std::pair<std::string, TypeFacts>> sorted_types(const ModelFacts& facts) {
    std::vector<std::pair<std::string, TypeFacts>> types(facts.types.begin(), facts.types.end());
    std::ranges::stable_sort(types, [](const auto& a, const auto& b) {
        if (a.second.flops != b.second.flops) return a.second.flops > b.second.flops;
        return a.second.ops > b.second.ops;
    });
    return types;
}

std::string type_table(const ModelFacts& facts) {
    Table table({{.title = "operator"},
                 {.title = "ops", .align = Align::right},
                 {.title = "FLOPs", .align = Align::right},
                 {.title = "", .align = Align::right},
                 {.title = ""}});
    for (const auto& [type, each] : sorted_types(facts)) {
        const double share = facts.flops > Flops{0} ? each.flops / facts.flops : 0;
        const bool unsupported = facts.unsupported.contains(type);
        table.add_row({type, with_commas(each.ops), to_text(each.flops), percent(share),
                       unsupported           ? "no rule: never split, priced by bytes"
                       : each.matrix_product ? "matrix product"
                                             : ""});
    }
    return table.to_text();
}

std::string block_line(const ModelFacts& facts) {
    constexpr std::size_t kMaxNamed = 6;
    if (facts.blocks.empty()) return "none known";
    std::string text = count_of(static_cast<std::int64_t>(facts.blocks.size()), "block") + ": ";
    std::size_t named = 0;
    for (const auto& [block, ops] : facts.blocks) {
        if (named++ == kMaxNamed) {
            text += ", ...";
            break;
        }
        text += fmt::format("{}{} ({})", named > 1 ? ", " : "", block, ops);
    }
    return text;
}

std::string path_line(const LoadedModel& model, const CriticalPath& path, const ModelFacts& facts,
                      const plan::Problem* problem) {
    const auto computes = std::ranges::count_if(
        path.ops, [&](OpId op) { return model.graph.op(op).kind == OpKind::compute; });
    std::string text = fmt::format("{} with {}", count_of(computes, "op"), flops_text(path.flops));
    if (facts.flops > Flops{0}) {
        text += fmt::format(", {} of all", percent(path.flops / facts.flops));
    }
    if (problem != nullptr) {
        const search::LowerBound bound = search::lower_bound(*problem);
        text += fmt::format("\nno plan on {} beats {} (critical path {}, work {})",
                            problem->machine().name(), to_text(bound.value),
                            to_text(bound.critical_path), to_text(bound.work));
        if (!bound.limited_by.empty()) text += "\nlimited by " + bound.limited_by;
    }
    return text;
}

/// "m 8 sample, n 32 parameter, k 64 reduction": what the op can be split along.
std::string factors_text(const graph::OpRule& rule, const std::vector<graph::SoapClass>& classes) {
    std::string text;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const graph::Factor& factor = rule.factors[f];
        if (!factor.splittable || factor.extent < 2) continue;
        text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", factor.name, factor.extent,
                            name_of(classes[f]));
    }
    return text.empty() ? "not split" : text;
}

struct OpLine {
    const graph::Op* op;
    Flops flops;
    std::string factors;
};

std::vector<OpLine> op_lines(const LoadedModel& model, const std::vector<graph::OpRule>& rules) {
    const graph::OpGraph& graph = model.graph;
    const auto origins = graph::tensor_origins(graph, rules, model.input_sample_dims);
    std::vector<OpLine> lines;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId op(i);
        if (graph.op(op).kind != OpKind::compute) continue;
        lines.push_back(
            {&graph.op(op), rules[i].flops,
             factors_text(rules[i], graph::soap_classes(graph, op, rules[i], origins))});
    }
    return lines;
}

std::string op_table(const std::vector<OpLine>& lines) {
    constexpr std::size_t kNameWidth = 48;
    Table table({{.title = "op"},
                 {.title = "operator"},
                 {.title = "FLOPs", .align = Align::right},
                 {.title = "can be split along"},
                 {.title = "block"}});
    for (const OpLine& line : lines) {
        table.add_row({shortened(line.op->name, kNameWidth), line.op->type, to_text(line.flops),
                       line.factors, shortened(line.op->block, kNameWidth)});
    }
    return table.to_text();
}

/// A JSON integer where it fits one.
Json flops_json(Flops flops) {
    constexpr Int128 kMost = std::numeric_limits<std::int64_t>::max();
    if (flops.raw() <= kMost) return static_cast<std::int64_t>(flops.raw());
    return to_double(flops);
}

}  // namespace

std::string model_report_text(const LoadedModel& model, const plan::Problem* problem,
                              const ModelReportOptions& options) {
    const auto rules = graph::rules_of(model.graph);
    const ModelFacts facts = facts_of(model.graph, rules);
    std::string text = fact_line("model", model_line(model, facts));
    if (!model.is_workload()) {
        text += fact_line("FLOPs",
                          fmt::format("{} forward, of which {} in matrix products and "
                                      "convolutions",
                                      flops_text(facts.flops), flops_text(facts.matrix_flops)));
        text += fact_line(
            "bytes", fmt::format("{} of parameters, {} of constants",
                                 to_text(facts.parameter_bytes), to_text(facts.constant_bytes)));
        text +=
            fact_line("path", path_line(model, critical_path(model.graph, rules), facts, problem));
        text += fact_line("blocks", block_line(facts));
    } else if (model.machine) {
        text += fact_line("machine", machine_line(*model.machine));
        text += fact_line("together",
                          count_of(static_cast<std::int64_t>(model.together.size()), "set") +
                              " of ops that share a device");
    }
    const std::string unsupported = unsupported_line(facts);
    text += fact_line("unknown", unsupported.empty() ? "none" : unsupported);
    text += '\n' + type_table(facts);
    if (options.ops) text += '\n' + op_table(op_lines(model, rules));
    return text;
}

std::string model_report_json(const LoadedModel& model, const plan::Problem* problem,
                              const ModelReportOptions& options) {
    const auto rules = graph::rules_of(model.graph);
    const ModelFacts facts = facts_of(model.graph, rules);
    const CriticalPath path = critical_path(model.graph, rules);
    Json types = Json::object();
    for (const auto& [type, each] : facts.types) {
        types[type] = {{"ops", each.ops}, {"flops", flops_json(each.flops)}};
    }
    Json path_ops = Json::array();
    for (const OpId op : path.ops) path_ops.push_back(model.graph.op(op).name);
    Json json = {{"model", model.file.filename().string()},
                 {"digest", "sha256:" + graph::digest(model.graph)},
                 {"bindings", model.bindings},
                 {"ops", facts.ops},
                 {"tensors", facts.tensors},
                 {"parameters", facts.parameters},
                 {"parameter_bytes", facts.parameter_bytes.raw()},
                 {"constant_bytes", facts.constant_bytes.raw()},
                 {"flops", flops_json(facts.flops)},
                 {"matrix_flops", flops_json(facts.matrix_flops)},
                 {"types", types},
                 {"unsupported_ops", facts.unsupported},
                 {"blocks", facts.blocks},
                 {"critical_path", {{"flops", flops_json(path.flops)}, {"ops", path_ops}}},
                 {"notes", model.notes}};
    if (problem != nullptr) {
        const search::LowerBound bound = search::lower_bound(*problem);
        json["lower_bound_ps"] = bound.value.raw();
        json["limited_by"] = bound.limited_by;
        json["critical_path"]["time_ps"] = bound.critical_path.raw();
    }
    if (options.ops) {
        Json ops = Json::array();
        for (const OpLine& line : op_lines(model, rules)) {
            ops.push_back({{"name", line.op->name},
                           {"type", line.op->type},
                           {"flops", flops_json(line.flops)},
                           {"splits", line.factors},
                           {"block", line.op->block}});
        }
        json["op_list"] = std::move(ops);
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace partita::cli
