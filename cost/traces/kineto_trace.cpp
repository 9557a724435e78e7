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
#include "cost/traces/nested_calls.h"
#include "cost/traces/trace_readers.h"

namespace partita::cost {

namespace {

using Json = nlohmann::json;
using graph::DType;
using graph::Shape;

constexpr std::string_view kOperator = "cpu_op";

struct Event {
    NestedCall call;
    std::int64_t process = 0;
    std::int64_t thread = 0;
    double begin = 0;  ///< microseconds
    double length = 0;
    std::int64_t id = -1;
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
        return {.calls = listed_calls(nested()), .device = device_, .is_flat = false};
    }

private:
    void add_operator(const Json& json, const Json& args, double length) {
        Event event{.call = {.name = text_of(json, "name"), .shapes = {}, .dtype = {}},
                    .process = number_of(json, "pid"),
                    .thread = number_of(json, "tid"),
                    .begin = real_of(json, "ts"),
                    .length = length,
                    .id = number_of(args, "External id")};
        NestedCall& call = event.call;
        if (const auto dims = args.find("Input Dims"); dims != args.end() && dims->is_array()) {
            has_shapes_ = true;
            for (const Json& each : *dims) call.shapes.push_back(shape_of(each));
        }
        if (const auto types = args.find("Input type"); types != args.end() && types->is_array()) {
            for (const Json& each : *types) {
                if (!each.is_string() || call.dtype) continue;
                call.dtype = dtype_of(each.get<std::string>());
            }
        }
        events_.push_back(std::move(event));
    }

    /// Kernels count for the operator that launched them and all around it.
    std::vector<NestedCall> nested() {
        std::ranges::stable_sort(events_, {}, [](const Event& event) {
            return std::tuple(event.process, event.thread, event.begin, -event.length);
        });
        std::vector<NestedCall> calls;
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < events_.size(); ++i) {
            const Event& event = events_[i];
            while (!open.empty() && !is_within(event, events_[open.back()])) open.pop_back();
            NestedCall& call = calls.emplace_back(event.call);
            if (!open.empty()) call.outer = static_cast<std::ptrdiff_t>(open.back());
            call.microseconds = has_kernels_ ? own_kernels(event) : event.length;
            open.push_back(i);
        }
        if (!has_kernels_) return calls;
        // What is inside comes behind.
        for (std::size_t i = calls.size(); i-- > 0;) {
            if (calls[i].outer < 0) continue;
            calls[static_cast<std::size_t>(calls[i].outer)].microseconds += calls[i].microseconds;
        }
        return calls;
    }

    [[nodiscard]] double own_kernels(const Event& event) const {
        const auto own = kernels_.find(event.id);
        return own != kernels_.end() && event.id >= 0 ? own->second : 0;
    }

    static bool is_within(const Event& inner, const Event& outer) {
        return inner.process == outer.process && inner.thread == outer.thread &&
               inner.begin < outer.begin + outer.length;
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
