# SPDX-License-Identifier: Apache-2.0
#
# Writes OUTPUT, which ctest reads: one test per suite of the GoogleTest program PROGRAM, with LABEL. Run
# after the program was built, by partita_test(). Those named ...OnCuda have their process for real GPUs
# (tests/runtime/pretend_gpus/pretend_gpu.h).
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND "${PROGRAM}" --gtest_list_tests
    OUTPUT_VARIABLE listed RESULT_VARIABLE code TIMEOUT 120)
if(NOT code EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ended with ${code}:\n${listed}")
endif()
# Those that take half a minute and more begin first, or the last of them runs alone. After the first run
# ctest knows itself what takes how long.
set(longest Runnable/Splits Searchers/EverySearcher Learned/EverySearcher ExecuteTraining Help MpiProcesses
    Exact Execute)
string(REPLACE ";" "\\;" listed "${listed}")
string(REPLACE "\n" ";" lines "${listed}")
set(text "")
foreach(line IN LISTS lines)
    # "Suite." and "Of/Suite.  # TypeParam = ..." begin a line; tests are indented.
    if(line MATCHES "^([^ ]+)\\.( |$)")
        set(suite "${CMAKE_MATCH_1}")
        set(environment "")
        if(suite MATCHES "OnCuda$")
            set(environment " ENVIRONMENT PARTITA_TEST_CUDA=1")
        endif()
        set(cost 0)
        if(suite IN_LIST longest)
            set(cost 100)
        endif()
        string(APPEND text
            "add_test([==[${suite}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
            "set_tests_properties([==[${suite}]==] PROPERTIES TIMEOUT 1800 LABELS [==[${LABEL}]==] COST ${cost}${environment})\n")
    endif()
endforeach()
if(text STREQUAL "")
    message(FATAL_ERROR "${PROGRAM} lists no tests:\n${listed}")
endif()
file(WRITE "${OUTPUT}" "${text}")
