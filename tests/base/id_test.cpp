// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

using RowId = Id<struct RowTag>;

TEST(Id, NoneIsBehindAllOthers) {
    const RowId none;
    EXPECT_FALSE(none.valid());
    EXPECT_TRUE(RowId(0U).valid());
    EXPECT_GT(none, RowId(0xFFFFFFFEU));
    EXPECT_EQ(none, RowId());
}

}  // namespace
}  // namespace partita
