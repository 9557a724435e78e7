# SPDX-License-Identifier: Apache-2.0
#
# Writes OUTPUT, which ctest reads: one test per suite of the GoogleTest program PROGRAM, with LABEL. Run
# after the program was built, by partita_test(). Those named ...OnCuda have their process for real GPUs
# (tests/runtime/pretend_gpus/pretend_gpu.h).
execute_process(COMMAND "${PROGRAM}" --gtest_list_tests
    OUTPUT_VARIABLE listed RESULT_VARIABLE code TIMEOUT 120)
if(NOT code EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ended with ${code}:\n${listed}")
endif()
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
        string(APPEND text
            "add_test([==[${suite}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
            "set_tests_properties([==[${suite}]==] PROPERTIES TIMEOUT 1800 LABELS [==[${LABEL}]==]${environment})\n")
    endif()
endforeach()
if(text STREQUAL "")
    message(FATAL_ERROR "${PROGRAM} lists no tests:\n${listed}")
endif()
file(WRITE "${OUTPUT}" "${text}")
