// SPDX-License-Identifier: Apache-2.0
//
// The algorithm and protocol of the plan's collectives as NCCL's example tuner plugin reads them
// (ext-tuner/example, environment variable NCCL_TUNER_CONFIG_FILE): CSV, the first row that matches
// a call wins.
//
//     coll,min,max,algo,proto,channels,nNodes,nRanks,numPipeOps,regBuff
//     allreduce,1024,65536,tree,ll,-1,2,16,-1,-1
//
// Bytes are counted as NCCL does, of the whole buffer; -1 leaves a choice to NCCL or matches any.
// A row stands for one run of the plan's sizes that agree; sizes outside of all rows are NCCL's.
//
// NCCL sees numbers of ranks and nodes, not which devices. Where groups of the same shape and size
// should differ, the choice wins on which the plan spends more time, then the earlier in
// cost::Algorithm and cost::Protocol; a comment says so. Comments also say what is left out:
// collectives that NCCL does not tune, algorithms that it does not have, and measured times of
// which only NCCL knows how they came about.
//
// Errors: none; without a row the file is comments. Source: NVIDIA/nccl ext-tuner/example/plugin.c:
// it takes lines of up to 255 characters with 8 to 10 fields, and reads names that it does not know
// as allreduce, ring or simple, hence nothing else may be written.
#pragma once

#include <string>

#include "plan/exporters/exporter.h"

namespace partita::plan {

std::string nccl_tuner(const ExportInput& input);

}  // namespace partita::plan
