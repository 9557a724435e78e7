#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps and inference of whole models in eager PyTorch on the GPU of this host, as CSV: what predictions for
one device are held against.

    bench/gpu/steps.py OUT            all, in two minutes on an H200
    bench/gpu/steps.py OUT gpt2       models whose names begin so

Models are those of examples/models, built by transformers and torchvision with made-up weights and without dropout;
attention is F.scaled_dot_product_attention. Types: float32, tf32, bfloat16 (weights too; AdamW's state is then in
bfloat16), autocast (float32 weights, products in bfloat16).
"""
import argparse
import contextlib
import csv
import gc
import pathlib
import statistics
import sys
import time

import torch

WARM = 2
MEASURED = 5
COLUMNS = ("model", "mode", "type", "batch", "length", "optimizer", "forward_ms", "backward_ms", "optimizer_ms", "step_ms",
           "host_ms", "peak_allocated_bytes", "parameters")
LONGEST = 60.0  # seconds of one row; what takes longer is left


def gpt2(layers, width, heads):
    from transformers import GPT2Config, GPT2LMHeadModel
    return lambda: GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=width, n_head=heads, resid_pdrop=0, embd_pdrop=0,
                                              attn_pdrop=0, use_cache=False))


def bert(layers, width, heads):
    from transformers import BertConfig, BertForMaskedLM
    return lambda: BertForMaskedLM(BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
                                              intermediate_size=4 * width, hidden_dropout_prob=0,
                                              attention_probs_dropout_prob=0))


def llama(layers):
    """Llama 3 8B, some of its layers."""
    from transformers import LlamaConfig, LlamaForCausalLM
    return lambda: LlamaForCausalLM(LlamaConfig(
        num_hidden_layers=layers, hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192, use_cache=False))


def vision(name):
    def make():
        import torchvision
        return getattr(torchvision.models, name)()
    return make


MODELS = {"gpt2-small": lambda: gpt2(12, 768, 12), "gpt2-medium": lambda: gpt2(24, 1024, 16),
          "gpt2-large": lambda: gpt2(36, 1280, 20), "bert-base": lambda: bert(12, 768, 12),
          "bert-large": lambda: bert(24, 1024, 16), "llama-3-8b-4-layers": lambda: llama(4),
          "llama-3-8b": lambda: llama(32), "resnet50": lambda: vision("resnet50"), "vgg16": lambda: vision("vgg16"),
          "vit_b_16": lambda: vision("vit_b_16"), "inception_v3": lambda: vision("inception_v3"),
          "alexnet": lambda: vision("alexnet")}
VISION = {"resnet50", "vgg16", "vit_b_16", "inception_v3", "alexnet"}

# model, types, (batch, length) of training, of inference
RUNS = [
    ("gpt2-small", ("float32", "tf32", "bfloat16", "autocast"), ((1, 1024), (8, 1024), (16, 512)), ((1, 128), (8, 1024))),
    ("bert-base", ("float32", "tf32", "bfloat16"), ((8, 128), (32, 512)), ((1, 128), (32, 512))),
    ("resnet50", ("float32", "tf32", "bfloat16"), ((16, 224), (128, 224)), ((1, 224), (128, 224))),
    ("llama-3-8b-4-layers", ("bfloat16",), ((1, 2048), (4, 2048), (1, 8192)), ((1, 512), (4, 2048))),
    ("gpt2-medium", ("float32", "tf32", "bfloat16"), ((2, 1024), (8, 1024)), ((8, 1024),)),
    ("vit_b_16", ("float32", "tf32", "bfloat16"), ((64, 224),), ((64, 224),)),
    ("bert-large", ("float32", "bfloat16"), ((4, 512), (16, 512)), ((16, 512),)),
    ("vgg16", ("float32", "tf32", "bfloat16"), ((64, 224),), ((64, 224),)),
    ("llama-3-8b", ("bfloat16",), (), ((1, 512), (1, 2048), (4, 2048))),
    ("gpt2-large", ("float32", "bfloat16"), ((4, 1024),), ((4, 1024),)),
    ("inception_v3", ("float32", "bfloat16"), ((64, 299),), ((64, 299),)),
    ("alexnet", ("float32", "bfloat16"), ((256, 224),), ((256, 224),)),
]


def operands(name, model, batch, length, dtype, device):
    """A loss of one batch."""
    if name in VISION:
        images = torch.randn(batch, 3, length, length, device=device, dtype=dtype)
        labels = torch.randint(1000, (batch,), device=device)

        def loss():
            out = model(images)
            out = getattr(out, "logits", out)
            return torch.nn.functional.cross_entropy(out.float(), labels)
        return loss, lambda: model(images)
    tokens = torch.randint(30000, (batch, length), device=device)
    return lambda: model(input_ids=tokens, labels=tokens).loss, lambda: model(input_ids=tokens).logits


class Clock:
    """Events between the phases of a step."""

    def __init__(self, count, cuda):
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(count)] if cuda else None
        self._times = [0.0] * count

    def mark(self, number):
        if self._events:
            self._events[number].record()
        self._times[number] = time.perf_counter()

    def spans(self):
        if not self._events:
            return [1e3 * (b - a) for a, b in zip(self._times, self._times[1:])]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(self._events, self._events[1:])]

    def host(self):
        return 1e3 * (self._times[-1] - self._times[0])


def measure(step, clock):
    """Medians of the phases, of the whole and of what the host took to launch it."""
    begin = time.perf_counter()
    for _ in range(WARM):
        step()
        clock.spans()
    rows, hosts = [], []
    for _ in range(MEASURED):
        step()
        rows.append(clock.spans())
        hosts.append(clock.host())
        if time.perf_counter() - begin > LONGEST:
            break
    return [statistics.median(each) for each in zip(*rows)], statistics.median(map(sum, rows)), statistics.median(hosts)


def train(loss, model, clock):
    cuda = next(model.parameters()).is_cuda
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True if cuda else None)

    def step():
        clock.mark(0)
        value = loss()
        clock.mark(1)
        value.backward()
        clock.mark(2)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        clock.mark(3)
    return step


def infer(forward, clock):
    def step():
        with torch.no_grad():
            clock.mark(0)
            forward()
            clock.mark(1)
    return step


@contextlib.contextmanager
def prepared(name, mode, kind, batch, length, device):
    """A step, the clock that it marks and the model, under the settings of its type."""
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    torch.backends.cudnn.allow_tf32 = kind == "tf32"
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = MODELS[name]()()
    torch.set_default_dtype(torch.float32)
    model.train(mode == "training")
    with torch.autocast(device, torch.bfloat16, enabled=kind == "autocast"):
        loss, forward = operands(name, model, batch, length, dtype, device)
        clock = Clock(4 if mode == "training" else 2, device == "cuda")
        step = train(loss, model, clock) if mode == "training" else infer(forward, clock)
        yield step, clock, model


def run(name, mode, kind, batch, length, device):
    with prepared(name, mode, kind, batch, length, device) as (step, clock, model):
        phases, whole, host = measure(step, clock)
        count = sum(each.numel() for each in model.parameters())
    phases = (phases + [0.0, 0.0])[:3]
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return (name, mode, kind, batch, length, "adamw" if mode == "training" else "", *(f"{each:.4f}" for each in phases),
            f"{whole:.4f}", f"{host:.4f}", peak, count)


def all_runs(runs, names):
    for name, kinds, training, inference in runs:
        if names and not any(name.startswith(each) for each in names):
            continue
        for mode, sizes in (("training", training), ("inference", inference)):
            for kind in kinds:
                if kind == "autocast" and mode == "inference":
                    continue
                for batch, length in sizes:
                    yield name, mode, kind, batch, length


def write_table(name, columns, runs, rows_of, about):
    """The program: NAME.csv of the rows of each run; one run that fails leaves the others."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    count = failed = 0
    with (arguments.out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for each in all_runs(runs, arguments.names):
            if time.perf_counter() - start > arguments.seconds:
                print(f"{name}: stopped before {each}", file=sys.stderr)
                break
            try:
                writer.writerows(rows_of(*each, arguments.device))
                file.flush()
                count += 1
            except Exception as error:  # one run that fails leaves the others
                failed += 1
                print(f"{name}: {each}: {type(error).__name__} {str(error).splitlines()[0][:200]}", file=sys.stderr)
    print(f"{name}: {count} runs, {failed} failed, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    write_table("steps", COLUMNS, RUNS, lambda *of: [run(*of)], __doc__)
