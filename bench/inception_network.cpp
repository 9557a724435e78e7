// SPDX-License-Identifier: Apache-2.0
//
// Inception-v3 (Szegedy et al. 2016), layer by layer as in torchvision, without the auxiliary head.
// Each module runs branches side by side on its input and joins their channels:
//
//     a  35 x 35   1x1 | 1x1 5x5 | 1x1 3x3 3x3 | pool 1x1
//     b  to 17     3x3 | 1x1 3x3 3x3 | max pool
//     c  17 x 17   1x1 | 1x1 1x7 7x1 | 1x1 7x1 1x7 7x1 1x7 | pool 1x1
//     d  to 8      1x1 3x3 | 1x1 1x7 7x1 3x3 | max pool
//     e  8 x 8     1x1 | 1x1 (1x3, 3x1) | 1x1 3x3 (1x3, 3x1) | pool 1x1
#include <string>

#include "bench/network_builder.h"
#include "bench/networks.h"

namespace partita::bench {

using graph::TensorId;

namespace {

Kernel row(std::int64_t width) {
    return {.height = 1, .width = width, .columns = width / 2};
}

Kernel column(std::int64_t height) {
    return {.height = height, .width = 1, .rows = height / 2};
}

TensorId pooled(NetworkBuilder& net, TensorId x, std::int64_t channels) {
    return net.conv(net.pool("AveragePool", x, square(3)), channels, square(1));
}

TensorId module_a(NetworkBuilder& net, TensorId x, std::int64_t pool_channels) {
    const TensorId one = net.conv(x, 64, square(1));
    const TensorId five = net.conv(net.conv(x, 48, square(1)), 64, square(5));
    const TensorId three =
        net.conv(net.conv(net.conv(x, 64, square(1)), 96, square(3)), 96, square(3));
    return net.concat({one, five, three, pooled(net, x, pool_channels)}, 1);
}

TensorId module_b(NetworkBuilder& net, TensorId x) {
    const TensorId three = net.conv(x, 384, unpadded(3, 2));
    const TensorId twice =
        net.conv(net.conv(net.conv(x, 64, square(1)), 96, square(3)), 96, unpadded(3, 2));
    return net.concat({three, twice, net.pool("MaxPool", x, unpadded(3, 2))}, 1);
}

TensorId module_c(NetworkBuilder& net, TensorId x, std::int64_t width) {
    const TensorId one = net.conv(x, 192, square(1));
    const TensorId once =
        net.conv(net.conv(net.conv(x, width, square(1)), width, row(7)), 192, column(7));
    TensorId twice = net.conv(net.conv(x, width, square(1)), width, column(7));
    twice = net.conv(net.conv(twice, width, row(7)), width, column(7));
    twice = net.conv(twice, 192, row(7));
    return net.concat({one, once, twice, pooled(net, x, 192)}, 1);
}

TensorId module_d(NetworkBuilder& net, TensorId x) {
    const TensorId three = net.conv(net.conv(x, 192, square(1)), 320, unpadded(3, 2));
    const TensorId seven =
        net.conv(net.conv(net.conv(x, 192, square(1)), 192, row(7)), 192, column(7));
    return net.concat(
        {three, net.conv(seven, 192, unpadded(3, 2)), net.pool("MaxPool", x, unpadded(3, 2))}, 1);
}

TensorId module_e(NetworkBuilder& net, TensorId x) {
    const TensorId one = net.conv(x, 320, square(1));
    const TensorId once = net.conv(x, 384, square(1));
    const TensorId twice = net.conv(net.conv(x, 448, square(1)), 384, square(3));
    return net.concat(
        {one, net.conv(once, 384, row(3)), net.conv(once, 384, column(3)),
         net.conv(twice, 384, row(3)), net.conv(twice, 384, column(3)), pooled(net, x, 192)},
        1);
}

TensorId stem(NetworkBuilder& net, TensorId x) {
    x = net.conv(x, 32, unpadded(3, 2));
    x = net.conv(x, 32, unpadded(3));
    x = net.conv(x, 64, square(3));
    x = net.pool("MaxPool", x, unpadded(3, 2));
    x = net.conv(x, 80, unpadded(1));
    x = net.conv(x, 192, unpadded(3));
    return net.pool("MaxPool", x, unpadded(3, 2));
}

}  // namespace

graph::OpGraph make_inception_v3(std::int64_t batch) {
    NetworkBuilder net("inception-v3");
    net.enter("stem");
    TensorId x = stem(net, net.image(batch, 3, 299));
    int number = 0;
    const auto enter = [&] { net.enter("module" + std::to_string(number++)); };
    for (const std::int64_t pool_channels : {32, 64, 64}) {
        enter();
        x = module_a(net, x, pool_channels);
    }
    enter();
    x = module_b(net, x);
    for (const std::int64_t width : {128, 160, 160, 192}) {
        enter();
        x = module_c(net, x, width);
    }
    enter();
    x = module_d(net, x);
    for (int i = 0; i < 2; ++i) {
        enter();
        x = module_e(net, x);
    }
    net.enter("head");
    return net.finish(net.dense(net.flatten(net.pool_globally(x)), 1'000));
}

}  // namespace partita::bench
