// SPDX-License-Identifier: Apache-2.0
//
// Events of Kineto's Chrome traces: an operator ("cpu_op") has an "External id", which the kernels
// that it launched repeat; operators of one thread lie inside one another by their times.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cost/traces/aten_operators.h"
#include "cost/traces/trace_readers.h"

namespace partita::cost {

namespace {

using Json = nlohmann::json;
using graph::DType;
using graph::Shape;

constexpr std::string_view kOperator = "cpu_op";

struct Event {
    std::string name;
    std::int64_t process = 0;
    std::int64_t thread = 0;
    double begin = 0;  ///< microseconds, as all times here
    double length = 0;
    std::int64_t id = -1;
    std::vector<Shape> shapes;
    std::optional<DType> dtype;
    double device = 0;  ///< of the kernels that it and what it called launched
    std::ptrdiff_t outer = -1;
    bool has_class = false;    ///< operator_class()
    bool calls_class = false;  ///< so has something that it called
};

std::optional<DType> dtype_of(const std::string& name) {
    // As c10::toString() has them, lower-case for C++'s own types.
    static const std::map<std::string, DType> kTypes = {{"float", DType::float32},
                                                        {"double", DType::float64},
                                                        {"c10::Half", DType::float16},
                                                        {"c10::BFloat16", DType::bfloat16}};
    const auto found = kTypes.find(name);
    if (found == kTypes.end()) return std::nullopt;
    return found->second;
}

/// Lists of tensors and what is no tensor have no shape.
Shape shape_of(const Json& dims) {
    Shape shape;
    if (!dims.is_array()) return shape;
    for (const Json& extent : dims) {
        if (!extent.is_number_integer()) return {};
        shape.push_back(extent.get<std::int64_t>());
    }
    return shape;
}

/// "" and 0 where it is something else.
std::string text_of(const Json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}
double real_of(const Json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

/// -1 where it is something else.
std::int64_t number_of(const Json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

class TraceReader {
public:
    void event(const Json& json) {
        if (!json.is_object() || text_of(json, "ph") != "X") return;
        const std::string category = text_of(json, "cat");
        const double length = real_of(json, "dur");
        const Json none = Json::object();
        const auto args = json.find("args");
        const Json& of = args != json.end() && args->is_object() ? *args : none;
        if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
            has_kernels_ = true;
            kernels_[number_of(of, "External id")] += length;
        } else if (category == kOperator) {
            add_operator(json, of, length);
        }
    }

    void device(const Json& properties) {
        if (device_.empty() && properties.is_object()) device_ = text_of(properties, "name");
    }

    OperatorTimes times(const std::string& context) {
        if (events_.empty()) {
            throw InputError(fmt::format(
                "{}: no operators (events of category \"cpu_op\"). Record them: "
                "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], "
                "record_shapes=True).",
                context));
        }
        if (!has_shapes_) {
            throw InputError(
                fmt::format("{}: operators have no shapes (\"Input Dims\"). Record them: "
                            "torch.profiler.profile(record_shapes=True).",
                            context));
        }
        nest();
        OperatorTimes times{.calls = calls(), .device = device_, .is_flat = false};
        return times;
    }

private:
    void add_operator(const Json& json, const Json& args, double length) {
        Event event{.name = text_of(json, "name"),
                    .process = number_of(json, "pid"),
                    .thread = number_of(json, "tid"),
                    .begin = real_of(json, "ts"),
                    .length = length,
                    .id = number_of(args, "External id"),
                    .shapes = {},
                    .dtype = {}};
        event.has_class = !operator_class(event.name).empty();
        if (const auto dims = args.find("Input Dims"); dims != args.end() && dims->is_array()) {
            has_shapes_ = true;
            for (const Json& each : *dims) event.shapes.push_back(shape_of(each));
        }
        if (const auto types = args.find("Input type"); types != args.end() && types->is_array()) {
            for (const Json& each : *types) {
                if (!each.is_string() || event.dtype) continue;
                event.dtype = dtype_of(each.get<std::string>());
            }
        }
        events_.push_back(std::move(event));
    }

    /// Which operator each was called by; kernels count for all of these.
    void nest() {
        std::ranges::stable_sort(events_, {}, [](const Event& event) {
            return std::tuple(event.process, event.thread, event.begin, -event.length);
        });
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < events_.size(); ++i) {
            const Event& event = events_[i];
            while (!open.empty() && !is_within(event, events_[open.back()])) open.pop_back();
            if (!open.empty()) events_[i].outer = static_cast<std::ptrdiff_t>(open.back());
            open.push_back(i);
        }
        // What is inside comes behind.
        for (std::size_t i = events_.size(); i-- > 0;) {
            Event& event = events_[i];
            if (const auto own = kernels_.find(event.id); own != kernels_.end() && event.id >= 0) {
                event.device += own->second;
            }
            if (event.outer < 0) continue;
            Event& outer = events_[static_cast<std::size_t>(event.outer)];
            outer.device += event.device;
            outer.calls_class = outer.calls_class || event.has_class || event.calls_class;
        }
    }

    static bool is_within(const Event& inner, const Event& outer) {
        return inner.process == outer.process && inner.thread == outer.thread &&
               inner.begin < outer.begin + outer.length;
    }

    /// Of what has no class, only the outermost that has none around or inside.
    [[nodiscard]] bool counts(const Event& event) const {
        if (!event.has_class && event.calls_class) return false;
        for (std::ptrdiff_t at = event.outer; at >= 0;) {
            const Event& outer = events_[static_cast<std::size_t>(at)];
            const bool same = operator_class(outer.name) == operator_class(event.name);
            if (event.has_class ? same : outer.has_class || !outer.calls_class) return false;
            at = outer.outer;
        }
        return true;
    }

    [[nodiscard]] std::vector<OperatorCalls> calls() const {
        std::map<std::tuple<std::string, std::vector<Shape>, std::optional<DType>>,
                 std::vector<Time>>
            by_shapes;
        for (const Event& event : events_) {
            const double microseconds = has_kernels_ ? event.device : event.length;
            if (microseconds <= 0 || !counts(event)) continue;
            by_shapes[{event.name, event.shapes, event.dtype}].push_back(
                time_from_milliseconds(1e-3 * microseconds));
        }
        std::vector<OperatorCalls> calls;
        for (const auto& [key, times] : by_shapes) {
            const auto& [name, shapes, dtype] = key;
            calls.push_back({.name = name, .shapes = shapes, .dtype = dtype, .times = times});
        }
        return calls;
    }

    std::vector<Event> events_;
    std::unordered_map<std::int64_t, double> kernels_;  ///< by External id: microseconds in all
    std::string device_;
    bool has_kernels_ = false;
    bool has_shapes_ = false;
};

}  // namespace

OperatorTimes read_kineto(std::string_view json, const std::string& context) {
    constexpr int kEvents = 2;  // depth of what lies in "traceEvents"
    TraceReader reader;
    std::string list;
    bool has_events = false;
    // Traces are large: an event is forgotten as soon as it is read.
    const auto read = [&](int depth, Json::parse_event_t what, Json& parsed) {
        if (what == Json::parse_event_t::key && depth == 1) {
            list = parsed.get<std::string>();
            has_events = has_events || list == "traceEvents";
        }
        if (what != Json::parse_event_t::object_end || depth != kEvents) return true;
        if (list == "traceEvents") reader.event(parsed);
        if (list == "deviceProperties") reader.device(parsed);
        return false;
    };
    try {
        const Json rest = Json::parse(json, read);
    } catch (const Json::exception& error) {
        throw InputError(fmt::format("{}: not JSON: {}", context, error.what()));
    }
    if (!has_events) {
        throw InputError(fmt::format(
            "{}: no \"traceEvents\". Expected what torch.profiler's export_chrome_trace() writes.",
            context));
    }
    return reader.times(context);
}

}  // namespace partita::cost
