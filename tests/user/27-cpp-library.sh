#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plan from my own C++ program: a network by hand, progress, an early end, the plan as a file
# needs: cmake
# needs: g++
# says: ^after [0-9]+ evaluations, by
# says: a step takes [0-9.]+ .s, and no plan takes less than
# says: layer.0/up/MatMul: on 4 devices
# says: ^the plan is legal
# says: transformer
cmake --install "$(dirname "$(command -v partita)")" --prefix installed > /dev/null
g++ -std=c++20 -I installed/include examples/api/plan_transformer.cpp -L installed/lib -lpartita -Wl,-rpath,"$PWD/installed/lib" -o plan_transformer
./plan_transformer dgx-a100:1x4 by_hand.json
head -c 300 by_hand.json
