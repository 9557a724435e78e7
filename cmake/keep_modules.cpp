// SPDX-License-Identifier: Apache-2.0
//
// In programs that are built with sanitizers, in place of libc's: what a program has loaded stays
// loaded, so that a report at its end names the modules in its stacks. OpenMPI unloads its plugins
// before that.
#include <dlfcn.h>

extern "C" int dlclose(void* /*module*/) noexcept {
    return 0;
}
