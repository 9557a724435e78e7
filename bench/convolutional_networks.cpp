// SPDX-License-Identifier: Apache-2.0
//
// LeNet-5 (LeCun et al. 1998), AlexNet (Krizhevsky 2014, widths of torchvision), VGG-16 (Simonyan,
// Zisserman 2015), ResNet (He et al. 2016), DenseNet (Huang et al.
// 2017).
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "bench/network_builder.h"
#include "bench/networks.h"

namespace partita::bench {

using graph::OpGraph;
using graph::TensorId;

namespace {

constexpr std::int64_t kClasses = 1'000;
constexpr std::int64_t kImage = 224;

TensorId max_pool_3_2(NetworkBuilder& net, TensorId x) {
    return net.pool("MaxPool", x, square(3, 2));
}

/// 1x1, 3x3, 1x1; `shortcut`: the input is added to the result, through a projection where extents
/// or channels change.
TensorId bottleneck(NetworkBuilder& net, TensorId x, std::int64_t width, std::int64_t stride,
                    bool first, bool shortcut) {
    const TensorId narrow = net.conv(x, width, square(1));
    const TensorId middle = net.conv(narrow, width, square(3, stride));
    const TensorId wide = net.conv(middle, 4 * width, square(1));
    if (!shortcut) return wide;
    return net.add(wide, first ? net.conv(x, 4 * width, square(1, stride)) : x);
}

OpGraph resnet(std::string_view name, std::int64_t batch, std::array<int, 4> blocks,
               bool shortcuts) {
    NetworkBuilder net(name);
    net.enter("stem");
    TensorId x = net.conv(net.image(batch, 3, kImage), 64, square(7, 2));
    x = max_pool_3_2(net, x);
    std::int64_t width = 64;
    for (std::size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
        for (int block = 0; block < blocks[stage]; ++block) {
            net.enter(fmt::format("stage{}.{}", stage + 1, block));
            const bool first = block == 0;
            x = bottleneck(net, x, width, first && stage > 0 ? 2 : 1, first, shortcuts);
        }
    }
    net.enter("head");
    return net.finish(net.dense(net.flatten(net.pool_globally(x)), kClasses));
}

/// Every layer adds `growth` channels to what all layers before it made.
TensorId dense_block(NetworkBuilder& net, TensorId x, int number, int layers) {
    constexpr std::int64_t kGrowth = 32;
    for (int layer = 0; layer < layers; ++layer) {
        net.enter(fmt::format("dense{}.{}", number, layer));
        const TensorId narrow = net.conv(x, 4 * kGrowth, square(1));
        x = net.concat({x, net.conv(narrow, kGrowth, square(3))}, 1);
    }
    return x;
}

}  // namespace

OpGraph make_alexnet(std::int64_t batch) {
    NetworkBuilder net("alexnet");
    TensorId x = net.image(batch, 3, kImage);
    x = net.conv(x, 64, {.height = 11, .width = 11, .stride = 4, .rows = 2, .columns = 2});
    x = net.pool("MaxPool", x, unpadded(3, 2));
    x = net.conv(x, 192, square(5));
    x = net.pool("MaxPool", x, unpadded(3, 2));
    x = net.conv(x, 384, square(3));
    x = net.conv(x, 256, square(3));
    x = net.conv(x, 256, square(3));
    x = net.pool("MaxPool", x, unpadded(3, 2));
    x = net.flatten(x);
    x = net.dense(x, 4'096);
    x = net.dense(x, 4'096);
    return net.finish(net.dense(x, kClasses));
}

OpGraph make_lenet_5(std::int64_t batch) {
    NetworkBuilder net("lenet-5");
    TensorId x = net.conv(net.image(batch, 1, 32), 6, unpadded(5));
    x = net.pool("AveragePool", x, unpadded(2, 2));
    x = net.conv(x, 16, unpadded(5));
    x = net.pool("AveragePool", x, unpadded(2, 2));
    x = net.dense(net.flatten(x), 120);
    return net.finish(net.dense(net.dense(x, 84), 10));
}

OpGraph make_vgg_16(std::int64_t batch) {
    constexpr std::array kLayers = {2, 2, 3, 3, 3};
    NetworkBuilder net("vgg-16");
    TensorId x = net.image(batch, 3, kImage);
    std::int64_t width = 64;
    for (const int layers : kLayers) {
        for (int layer = 0; layer < layers; ++layer) x = net.conv(x, width, square(3));
        x = net.pool("MaxPool", x, unpadded(2, 2));
        width = std::min<std::int64_t>(2 * width, 512);
    }
    x = net.dense(net.dense(net.flatten(x), 4'096), 4'096);
    return net.finish(net.dense(x, kClasses));
}

OpGraph make_resnet_50(std::int64_t batch) {
    return resnet("resnet-50", batch, {3, 4, 6, 3}, /*shortcuts=*/true);
}

OpGraph make_resnet_101(std::int64_t batch) {
    return resnet("resnet-101", batch, {3, 4, 23, 3}, /*shortcuts=*/true);
}

OpGraph make_resnet_101_chain(std::int64_t batch) {
    return resnet("resnet-101-chain", batch, {3, 4, 23, 3}, /*shortcuts=*/false);
}

OpGraph make_densenet_121(std::int64_t batch) {
    constexpr std::array kLayers = {6, 12, 24, 16};
    NetworkBuilder net("densenet-121");
    net.enter("stem");
    TensorId x = net.conv(net.image(batch, 3, kImage), 64, square(7, 2));
    x = max_pool_3_2(net, x);
    std::int64_t channels = 64;
    for (std::size_t block = 0; block < kLayers.size(); ++block) {
        x = dense_block(net, x, static_cast<int>(block) + 1, kLayers[block]);
        channels += 32 * std::int64_t{kLayers[block]};
        if (block + 1 == kLayers.size()) break;
        net.enter(fmt::format("transition{}", block + 1));
        channels /= 2;
        x = net.pool("AveragePool", net.conv(x, channels, square(1)), unpadded(2, 2));
    }
    net.enter("head");
    return net.finish(net.dense(net.flatten(net.pool_globally(x)), kClasses));
}

}  // namespace partita::bench
