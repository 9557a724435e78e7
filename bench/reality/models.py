# SPDX-License-Identifier: Apache-2.0
"""ONNX files of the models, written once each by transformer_onnx.py into a folder."""
import hashlib
import pathlib
import subprocess
import threading

WRITER = pathlib.Path(__file__).with_name("transformer_onnx.py")


class Models:
    """Writes models on demand. `python`: an interpreter that has onnx and numpy."""

    def __init__(self, folder, python):
        self._folder, self._python = pathlib.Path(folder), python
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()

    def path(self, model):
        """The file of a Row's `model`."""
        if len(model) == 1:
            return pathlib.Path(model[0])
        name = hashlib.sha256(repr((model, WRITER.read_text())).encode()).hexdigest()[:16]
        file = self._folder / f"{model[0]}-{name}.onnx"
        with self._lock:
            if not file.exists():
                self._write(model, file)
        return file

    def _write(self, model, file):
        part = file.with_name("part-" + file.name)
        done = subprocess.run([self._python, WRITER, *model, "-o", part], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{WRITER.name} {' '.join(model)}: {done.stderr.strip()[-300:]}")
        part.rename(file)
