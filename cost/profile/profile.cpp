// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <tuple>

#include "base/sha256.h"

namespace partita::cost {

DeviceKey device_key(const Device& device) {
    return device_key(device, device.threads);
}

DeviceKey device_key(const Device& device, int threads) {
    return {.model = device.model,
            .setting = device.kind == DeviceKind::cpu ? fmt::format("threads={}", threads) : ""};
}

bool priced_alike(const Device& one, const Device& other) {
    const auto figures = [](const Device& device) {
        return std::tie(device.kind, device.memory_bandwidth, device.launch_interval,
                        device.matrix_flops, device.tf32_flops, device.vector_flops,
                        device.compute_efficiency, device.memory_efficiency, device.kernels);
    };
    return figures(one) == figures(other) && device_key(one) == device_key(other);
}

MeasuredWork measured_work(const Work& work, Measurement time) {
    assert(work.signature != nullptr || work.elements >= 0);
    return {.signature = work.signature != nullptr ? *work.signature : element_signature(work),
            .type = std::string(work.type),
            .phase = work.phase,
            .flops = work.flops,
            .bytes = work.bytes,
            .dtype = work.dtype,
            .matrix_product = work.matrix_product,
            .product_type = work.product_type,
            .time = std::move(time)};
}

const DeviceProfile* Profile::find(const DeviceKey& device) const {
    const auto found = std::ranges::lower_bound(devices, device, {}, &DeviceProfile::device);
    return found != devices.end() && found->device == device ? &*found : nullptr;
}

std::string Profile::digest() const {
    Sha256 sha;
    for (const DeviceProfile& device : devices) {
        sha.add(device.device.model).add(device.device.setting);
        sha.add(std::ssize(device.works)).add(std::ssize(device.transfers));
        for (const MeasuredWork& work : device.works) {
            sha.add(work.signature.text).add(work.signature.family).add(work.type);
            sha.add(name_of(work.phase)).add(name_of(work.dtype));
            sha.add(static_cast<std::int64_t>(work.flops.raw())).add(work.bytes.raw());
            sha.add(std::int64_t{work.matrix_product}).add(work.time.median.raw());
        }
        for (const MeasuredTransfer& transfer : device.transfers) {
            sha.add(transfer.copy ? "copy" : name_of(transfer.kind));
            sha.add(std::int64_t{transfer.ranks}).add(std::int64_t{transfer.nodes});
            sha.add(transfer.bytes.raw()).add(transfer.time.median.raw());
        }
    }
    return sha.finish();
}

std::string utc_date(std::int64_t seconds) {
    using namespace std::chrono;
    const sys_seconds moment{std::chrono::seconds(seconds)};
    const auto day = floor<days>(moment);
    const year_month_day date(day);
    const hh_mm_ss time(moment - day);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                       time.hours().count(), time.minutes().count(), time.seconds().count());
}

}  // namespace partita::cost
