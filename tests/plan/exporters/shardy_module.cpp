// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/exporters/shardy_module.h"

#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace partita::plan {
namespace {

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
    return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

const std::regex kSharding(R"(<@(\w+), \[([^\]]*)\](?:, unreduced=\{([^}]*)\})?>)");
const std::regex kMesh(R"(^  sdy.mesh @(\w+) = <\[(.*?)\](?:, device_ids=\[(.*?)\])?>)");
const std::regex kEnd(R"re((%\w+: )?tensor<[^>]*> \{partita.name = "(\w+)", )re"
                      R"re(sdy.sharding = #sdy.sharding(<.*>)\})re");
const std::regex kReshard(R"(^    (%\w+) = sdy.reshard (%\w+) (<.*>) : tensor)");
const std::regex kOp(R"re(^    (.*) = "[\w.]+"\((.*?)\) \{name = "(\w+)", )re"
                     R"re(sdy.sharding = #sdy.sharding_per_value<\[(.*)\]>\} : )re");
const std::regex kUnsaid(R"(// (%\w+) as the next op reads it: not expressible)");
const std::regex kUpdated(R"(// (%\w+): updated as (<.*>)$)");
const std::regex kValue(R"(%\w+)");

class ModuleReader {
public:
    ShardyModule run(const std::string& text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) read_line(line);
        return std::move(module_);
    }

private:
    void read_line(const std::string& line) {
        std::smatch m;
        if (std::regex_search(line, m, kMesh)) {
            read_mesh(m[1], m[2], m[3], m[3].matched);
        } else if (std::regex_search(line, m, kEnd)) {
            if (m[1].matched) {
                const std::string value = m[1].str().substr(0, m[1].length() - 2);
                module_.ops[m[2]].results = {values_[value] = sharding(m[3])};
                names_[value] = m[2];
            } else {
                module_.ops[m[2]].operands = {sharding(m[3])};
            }
        } else if (std::regex_search(line, m, kReshard)) {
            values_[m[1]] = sharding(m[3]);
        } else if (std::regex_search(line, m, kOp)) {
            read_op(m[1], m[2], m[3], m[4]);
        } else if (std::regex_search(line, m, kUnsaid)) {
            unsaid_.insert(m[1]);
        } else if (std::regex_search(line, m, kUpdated)) {
            module_.ops[names_.at(m[1])].update = {sharding(m[2])};
        }
    }

    void read_mesh(const std::string& name, const std::string& axes, const std::string& ids,
                   bool has_ids) {
        ShardyMeshText& mesh = module_.meshes[name];
        std::int64_t devices = 1;
        for (const auto& m : matches(axes, std::regex(R"re("(\w+)"=(\d+))re"))) {
            mesh.axes.emplace_back(m[1], std::stoll(m[2]));
            devices *= mesh.axes.back().second;
        }
        for (const auto& m : matches(ids, std::regex(R"(\d+)")))
            mesh.ids.push_back(std::stoi(m[0]));
        if (has_ids) return;
        mesh.ids.resize(static_cast<std::size_t>(devices));
        std::iota(mesh.ids.begin(), mesh.ids.end(), 0);
    }

    void read_op(const std::string& results, const std::string& operands, const std::string& name,
                 const std::string& shardings) {
        ShardyOp& op = module_.ops[name];
        for (const auto& m : matches(operands, kValue)) {
            op.operands.push_back(values_.at(m[0]));
            if (unsaid_.contains(m[0])) op.operands.back().open = true;
        }
        for (const auto& m : matches(shardings, kSharding)) op.results.push_back(sharding(m[0]));
        const auto ids = matches(results, kValue);
        if (ids.size() != op.results.size()) throw std::runtime_error("shardings of " + name);
        for (std::size_t i = 0; i < ids.size(); ++i) values_[ids[i][0]] = op.results[i];
        unsaid_.clear();
    }

    ShardyShardingText sharding(const std::string& text) const {
        std::smatch m;
        if (!std::regex_match(text, m, kSharding)) throw std::runtime_error("sharding " + text);
        ShardyShardingText sharding{.text = text, .mesh = m[1]};
        const ShardyMeshText& mesh = module_.meshes.at(sharding.mesh);
        const std::string dims = m[2];
        for (const auto& dim : matches(dims, std::regex(R"(\{([^}]*)\})"))) {
            sharding.dims.push_back(axes(mesh, dim[1]));
            sharding.open = sharding.open || dim[1].str().find('?') != std::string::npos;
        }
        sharding.unreduced = axes(mesh, m[3]);
        return sharding;
    }

    static std::vector<ShardyAxis> axes(const ShardyMeshText& mesh, const std::string& text) {
        std::vector<ShardyAxis> axes;
        for (const auto& m : matches(text, std::regex(R"re("(\w+)"(?::\((\d+)\)(\d+))?)re"))) {
            ShardyAxis axis{.name = m[1]};
            for (const auto& [name, size] : mesh.axes) {
                if (name == axis.name) axis.size = size;
            }
            if (axis.size == 0) throw std::runtime_error("axis " + text);
            if (m[2].matched) {
                const std::int64_t whole = axis.size;
                axis.before = std::stoll(m[2]);
                axis.size = std::stoll(m[3]);
                if (axis.size < 2 || axis.size == whole || whole % (axis.before * axis.size) != 0) {
                    throw std::runtime_error("sub-axis " + text);
                }
                if (!axes.empty() && axes.back().name == axis.name &&
                    axes.back().before * axes.back().size == axis.before) {
                    throw std::runtime_error("two sub-axes that are one: " + text);
                }
            }
            axes.push_back(axis);
        }
        return axes;
    }

    ShardyModule module_;
    std::map<std::string, ShardyShardingText> values_;
    std::map<std::string, std::string> names_;  ///< of what arguments hold
    std::set<std::string> unsaid_;              ///< operands of the op to come
};

}  // namespace

std::int64_t ShardyMeshText::coordinate(const ShardyAxis& axis, std::int64_t position) const {
    for (std::size_t i = axes.size(); i-- > 0; position /= axes[i].second) {
        if (axes[i].first != axis.name) continue;
        const std::int64_t after = axes[i].second / (axis.before * axis.size);
        return position % axes[i].second / after % axis.size;
    }
    throw std::runtime_error("no axis " + axis.name);
}

ShardyModule read_shardy(const std::string& text) {
    return ModuleReader().run(text);
}

}  // namespace partita::plan
