// SPDX-License-Identifier: Apache-2.0
#include "api/onnx_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include "api/onnx_nodes.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "importers/onnx/external_data.h"
#include "importers/onnx/model_file.h"

namespace partita::api {
namespace {

using graph::OpId;

using Names = std::vector<std::string>;

/// Adds what the graph of an attribute reads from outside.
void add_captured(const onnx::GraphProto& body, Names& names);

/// All that the node needs, its bodies included.
Names reads_of(const onnx::NodeProto& node) {
    Names names;
    for (const std::string& input : node.input()) {
        if (!input.empty()) names.push_back(input);
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) add_captured(attribute.g(), names);
        for (const onnx::GraphProto& body : attribute.graphs()) add_captured(body, names);
    }
    return names;
}

void add_captured(const onnx::GraphProto& body, Names& names) {
    std::set<std::string_view> own;
    for (const onnx::ValueInfoProto& input : body.input()) own.insert(input.name());
    for (const onnx::TensorProto& tensor : body.initializer()) own.insert(tensor.name());
    for (const onnx::SparseTensorProto& tensor : body.sparse_initializer()) {
        own.insert(tensor.values().name());
    }
    const auto add = [&](const std::string& name) {
        if (!own.contains(name)) names.push_back(name);
    };
    for (const onnx::NodeProto& node : body.node()) {
        for (const std::string& name : reads_of(node)) add(name);
        for (const std::string& output : node.output()) own.insert(output);
    }
    for (const onnx::ValueInfoProto& output : body.output()) add(output.name());
}

/// What runs on a device in one go.
struct Part {
    int device = 0;
    std::vector<int> nodes;  ///< of the file, in its order
    std::set<int> before;    ///< parts whose results it reads
};

/// Puts nodes into parts, in the file's order, so that no part waits for itself.
class Parts {
public:
    /// `sources`: parts that make what the node reads.
    int add(int node, int device, const std::set<int>& sources) {
        const auto known = latest_.find(device);
        int part = known == latest_.end() ? -1 : known->second;
        const bool waits_for_itself = part >= 0 && std::ranges::any_of(sources, [&](int source) {
                                          return source != part && depends(source, part);
                                      });
        if (part < 0 || waits_for_itself) {
            part = static_cast<int>(parts_.size());
            parts_.push_back({.device = device, .nodes = {}, .before = {}});
            latest_[device] = part;
        }
        Part& own = parts_[static_cast<std::size_t>(part)];
        own.nodes.push_back(node);
        own.before.insert(sources.begin(), sources.end());
        own.before.erase(part);
        return part;
    }
    [[nodiscard]] const std::vector<Part>& list() const { return parts_; }
    [[nodiscard]] int device_of(int part) const {
        return parts_[static_cast<std::size_t>(part)].device;
    }

    /// Numbers of the parts, those first that others wait for.
    [[nodiscard]] std::vector<int> order() const {
        std::vector<int> order;
        std::vector<char> done(parts_.size(), 0);
        while (order.size() < parts_.size()) {
            for (std::size_t part = 0; part < parts_.size(); ++part) {
                const bool ready = std::ranges::all_of(parts_[part].before, [&](int of) {
                    return done[static_cast<std::size_t>(of)];
                });
                if (done[part] != 0 || !ready) continue;
                done[part] = 1;
                order.push_back(static_cast<int>(part));
            }
        }
        return order;
    }

private:
    [[nodiscard]] bool depends(int part, int on) const {
        std::vector<char> seen(parts_.size(), 0);
        std::vector<int> open{part};
        while (!open.empty()) {
            const int next = open.back();
            open.pop_back();
            if (next == on) return true;
            if (std::exchange(seen[static_cast<std::size_t>(next)], 1) != 0) continue;
            const std::set<int>& before = parts_[static_cast<std::size_t>(next)].before;
            open.insert(open.end(), before.begin(), before.end());
        }
        return false;
    }

    std::vector<Part> parts_;
    std::map<int, int> latest_;  ///< per device
};

/// "node0-gpu1" of "node0/gpu1".
std::string file_name(std::string device) {
    for (char& c : device) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
        if (!plain) c = '-';
    }
    return device;
}

class ModelCutter {
public:
    /// Takes the model's graph.
    ModelCutter(onnx::ModelProto& model, const plan::Problem& problem,
                const plan::Strategy& strategy)
        : problem_(problem), strategy_(strategy), nodes_(problem.graph()) {
        try {
            onnx::shape_inference::InferShapes(model);
            // What it does not know it leaves open. NOLINTNEXTLINE(bugprone-empty-catch)
        } catch (const std::exception&) {
        }
        graph_.Swap(model.mutable_graph());
        model.clear_graph();
        frame_.Swap(&model);
        for (const auto* values : {&graph_.value_info(), &graph_.input(), &graph_.output()}) {
            for (const onnx::ValueInfoProto& value : *values) types_.emplace(value.name(), &value);
        }
        for (const onnx::ValueInfoProto& output : graph_.output()) sent_.insert(output.name());
        for (const onnx::TensorProto& tensor : graph_.initializer()) {
            constants_.insert(tensor.name());
        }
        for (const onnx::SparseTensorProto& tensor : graph_.sparse_initializer()) {
            constants_.insert(tensor.values().name());
        }
    }

    std::vector<OnnxPart> cut() {
        place_nodes();
        find_sent();
        std::vector<OnnxPart> written;
        std::map<std::string, int> files;  // by device
        for (const int part : parts_.order()) {
            written.push_back(write(part));
            const std::string name =
                file_name(problem_.machine().device(written.back().device).name);
            const int count = ++files[name];
            written.back().file =
                count == 1 ? name + ".onnx" : fmt::format("{}.{}.onnx", name, count);
        }
        return written;
    }

private:
    // Which part.

    /// nullopt: the node is no op of the plan.
    [[nodiscard]] std::optional<int> planned_device(const onnx::NodeProto& node) const {
        const std::optional<OpId> op = nodes_.op(node);
        if (!op) return std::nullopt;
        const plan::DeviceSet& devices = strategy_.config(*op).devices;
        if (devices.size() == 1) return devices[0];
        throw UsageError(fmt::format(
            "parts: op '{}' is on {} devices, and files of parts hold whole ops; plan with "
            "--dims O.",
            problem_.graph().op(*op).name, devices.size()));
    }

    /// Made of constants alone, so that everybody makes it who reads it; but for what the model gives.
    [[nodiscard]] bool is_constant(const onnx::NodeProto& node) const {
        return std::ranges::all_of(reads_of(node),
                                   [&](const auto& name) { return constants_.contains(name); }) &&
               std::ranges::none_of(node.output(),
                                    [&](const auto& name) { return sent_.contains(name); });
    }

    void place_nodes() {
        for (int n = 0; n < graph_.node_size(); ++n) {
            const onnx::NodeProto& node = graph_.node(n);
            if (is_constant(node)) {
                for (const std::string& output : node.output()) {
                    constants_.insert(output);
                    constant_nodes_.emplace(output, n);
                }
                continue;
            }
            std::set<int> sources;
            for (const std::string& name : reads_of(node)) {
                const auto made = part_of_value_.find(name);
                if (made != part_of_value_.end()) sources.insert(made->second);
            }
            const std::optional<int> planned = planned_device(node);
            const int device = planned           ? *planned
                               : sources.empty() ? 0
                                                 : parts_.device_of(*sources.rbegin());
            const int part = parts_.add(n, device, sources);
            for (const std::string& output : node.output()) {
                if (!output.empty()) part_of_value_.emplace(output, part);
            }
        }
    }

    /// What other parts read, beside what the model gives.
    void find_sent() {
        for (std::size_t part = 0; part < parts_.list().size(); ++part) {
            for (const int n : parts_.list()[part].nodes) {
                for (const std::string& name : reads_of(graph_.node(n))) {
                    const auto made = part_of_value_.find(name);
                    const bool here =
                        made == part_of_value_.end() || made->second == static_cast<int>(part);
                    if (!here) sent_.insert(name);
                }
            }
        }
    }

    // The files.

    [[nodiscard]] onnx::ValueInfoProto value(const std::string& name) const {
        const auto known = types_.find(name);
        if (known != types_.end()) return *known->second;
        onnx::ValueInfoProto value;
        value.set_name(name);
        if (const std::optional<graph::TensorId> tensor = nodes_.tensor(name)) {
            value.mutable_type()->mutable_tensor_type()->set_elem_type(
                static_cast<std::int32_t>(problem_.graph().tensor(*tensor).dtype));
        }
        return value;
    }

    /// With what it is made of, each once.
    void add_constant(const std::string& name, std::set<std::string>& there,
                      onnx::GraphProto& graph) const {
        const auto node = constant_nodes_.find(name);
        if (node == constant_nodes_.end()) {
            there.insert(name);  // an initializer
            return;
        }
        const onnx::NodeProto& made_by = graph_.node(node->second);
        for (const std::string& output : made_by.output()) there.insert(output);
        for (const std::string& read : reads_of(made_by)) {
            if (!there.contains(read)) add_constant(read, there, graph);
        }
        *graph.add_node() = made_by;
    }

    void add_initializers(const std::set<std::string>& names, onnx::GraphProto& graph) const {
        for (const onnx::TensorProto& tensor : graph_.initializer()) {
            if (names.contains(tensor.name())) *graph.add_initializer() = tensor;
        }
        for (const onnx::SparseTensorProto& tensor : graph_.sparse_initializer()) {
            if (names.contains(tensor.values().name())) *graph.add_sparse_initializer() = tensor;
        }
    }

    [[nodiscard]] OnnxPart write(int number) const {
        const Part& part = parts_.list()[static_cast<std::size_t>(number)];
        OnnxPart written{
            .file = {}, .device = part.device, .inputs = {}, .outputs = {}, .bytes = {}};
        onnx::ModelProto own = frame_;
        onnx::GraphProto& graph = *own.mutable_graph();
        graph.set_name(graph_.name());
        std::set<std::string> there;
        for (const int n : part.nodes) {
            for (const std::string& name : reads_of(graph_.node(n))) {
                if (there.contains(name)) continue;
                if (constants_.contains(name)) {
                    add_constant(name, there, graph);
                    continue;
                }
                there.insert(name);
                written.inputs.push_back(name);
                *graph.add_input() = value(name);
            }
            *graph.add_node() = graph_.node(n);
            for (const std::string& output : graph_.node(n).output()) {
                there.insert(output);
                if (!sent_.contains(output)) {
                    if (types_.contains(output)) *graph.add_value_info() = value(output);
                    continue;
                }
                written.outputs.push_back(output);
                *graph.add_output() = value(output);
            }
        }
        add_initializers(there, graph);
        written.bytes = own.SerializeAsString();
        return written;
    }

    onnx::GraphProto graph_;  ///< the model's
    onnx::ModelProto frame_;  ///< all but that
    const plan::Problem& problem_;
    const plan::Strategy& strategy_;
    OnnxNodes nodes_;
    std::set<std::string> constants_;
    std::map<std::string, int> constant_nodes_;  ///< of those that nodes make
    std::map<std::string, int> part_of_value_;   ///< of all others that nodes make
    std::set<std::string> sent_;                 ///< outputs of files
    std::unordered_map<std::string_view, const onnx::ValueInfoProto*> types_;
    Parts parts_;
};

std::string quoted(const Names& names) {
    Names texts;
    for (const std::string& name : names) texts.push_back(json_quoted(name));
    return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string manifest(const std::vector<OnnxPart>& parts, const plan::Problem& problem) {
    Names rows;
    for (const OnnxPart& part : parts) {
        rows.push_back(fmt::format(R"(  {{"file": {}, "device": {}, "inputs": {}, "outputs": {}}})",
                                   json_quoted(part.file),
                                   json_quoted(problem.machine().device(part.device).name),
                                   quoted(part.inputs), quoted(part.outputs)));
    }
    return fmt::format(
        "{{\"format\": \"partita-parts\", \"version\": 1, \"model\": {}, \"machine\": {},\n"
        " \"parts\": [\n{}]}}\n",
        json_quoted(problem.graph().name), json_quoted(problem.machine().name()),
        fmt::join(rows, ",\n"));
}

/// By location. Weights that are not there are not there for the parts either.
std::map<std::string, std::filesystem::path> external_data(const onnx::ModelProto& proto,
                                                           const std::filesystem::path& model) {
    std::map<std::string, std::filesystem::path> files;
    for (const std::string& location : importers::external_locations(proto)) {
        const importers::ExternalFile found =
            importers::find_external(model.parent_path(), location);
        if (found.missing) continue;
        if (!found.fault.empty()) {
            throw InputError(fmt::format("{}: {}.", model.filename().string(), found.fault));
        }
        files.emplace(location, found.path);
    }
    return files;
}

/// A new folder beside the one that is to be, and gone with what is in it unless it was renamed.
class UnfinishedFolder {
public:
    explicit UnfinishedFolder(const std::filesystem::path& wanted) {
        std::error_code error;
        for (int i = 0; i == 0 || std::filesystem::exists(path_, error); ++i) {
            path_ = wanted;
            path_ += fmt::format(".partial{}", i);
        }
        if (std::filesystem::create_directories(path_, error)) return;
        throw UsageError(
            fmt::format("-o {}: cannot be made ({}).", wanted.string(), error.message()));
    }
    ~UnfinishedFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    UnfinishedFolder(const UnfinishedFolder&) = delete;
    UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::error_code error;
    std::filesystem::create_directories(to.parent_path(), error);
    std::filesystem::create_hard_link(from, to, error);
    if (error) std::filesystem::copy_file(from, to, error);
    if (error) {
        throw UsageError(fmt::format("{}: cannot be written ({}).", to.string(), error.message()));
    }
}

}  // namespace

std::vector<OnnxPart> write_onnx_parts(const std::filesystem::path& model,
                                       const std::filesystem::path& output,
                                       const plan::Problem& problem,
                                       const plan::Strategy& strategy) {
    const std::filesystem::path folder = output.has_filename() ? output : output.parent_path();
    std::error_code error;
    if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error)) {
        throw UsageError(fmt::format(
            "-o {}: there is something already. Name a folder that is empty or not there.",
            folder.string()));
    }
    const auto proto = importers::parse_file(model, model.filename().string());
    const auto data = external_data(*proto, model);
    std::vector<OnnxPart> parts = ModelCutter(*proto, problem, strategy).cut();
    const UnfinishedFolder unfinished(folder);
    const std::filesystem::path& written = unfinished.path();
    for (const OnnxPart& part : parts) write_file(written / part.file, part.bytes);
    for (const auto& [location, file] : data) link_or_copy(file, written / location);
    write_file(written / "parts.json", manifest(parts, problem));
    std::filesystem::remove(folder, error);  // it is empty
    std::filesystem::rename(written, folder, error);
    if (error) {
        throw UsageError(
            fmt::format("-o {}: cannot be written ({}).", folder.string(), error.message()));
    }
    return parts;
}

}  // namespace partita::api
