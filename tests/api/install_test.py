#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installed Partita can be used without the source tree.

Installs a build into a temporary prefix and there

1. compiles every public header alone, with the prefix as the only include folder;
2. configures, builds and runs examples/api through find_package(partita);
3. names a machine that only the prefix has, so that the data files must come from there;
4. does the same with every whole program in docs/api.md and the README.

Usage: install_test.py SOURCE BUILD COMPILER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def run(*command, **options):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n"
                 f"{result.stdout}{result.stderr}")
    return result.stdout


def check_headers(prefix, compiler):
    headers = sorted((prefix / "include" / "partita").glob("*.h"))
    if len(headers) < 8:
        sys.exit(f"expected the public headers in {prefix}, got {[h.name for h in headers]}")
    for header in headers:
        run(compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
            "-I", prefix / "include", "-include", header, "-x", "c++", "/dev/null")


def check_example(source, prefix, compiler, folder):
    # A copy: nothing beside it may help.
    example = shutil.copytree(source / "examples" / "api", folder / "example")
    build = folder / "build"
    run("cmake", "-S", example, "-B", build, "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", build)
    machines = prefix / "share" / "partita" / "machines"
    shutil.copy(machines / "dgx-a100.json", machines / "only-here.json")
    plan = folder / "plan.json"
    output = run(build / "plan_transformer", "only-here", plan)
    if "the plan is legal" not in output or not plan.exists():
        sys.exit(f"expected a legal plan, got:\n{output}")
    for page in (source / "README.md", source / "docs" / "api.md"):
        check_programs(page, example, build, folder)


def check_programs(page, example, build, folder):
    text = page.read_text(encoding="utf-8")
    programs = [p for p in re.findall(r"^```cpp\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
                if "int main" in p]
    if not programs:
        sys.exit(f"expected a program in {page}")
    for program in programs:
        (example / "plan_transformer.cpp").write_text(program, encoding="utf-8")
        run("cmake", "--build", build)
        if not run(build / "plan_transformer", cwd=folder):
            sys.exit(f"a program of {page} prints nothing")


def main(source, build, compiler):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        run("cmake", "--install", build, "--prefix", prefix)
        check_headers(prefix, compiler)
        check_example(source, prefix, compiler, folder)
        run(prefix / "bin" / "partita", "machine", "show", "only-here")
    print("installed, found, compiled, planned")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
