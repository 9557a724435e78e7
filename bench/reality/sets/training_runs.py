# SPDX-License-Identifier: Apache-2.0
"""Published runs with complete configurations: data/published/training_runs.csv."""
from rows import (OLD_MEGATRON, Row, gpt, llama, nodes, padded_vocabulary, table, training, whole)


def lines(data, prefix):
    """Rows of the file whose id begins so."""
    found = table(data / "published" / "training_runs.csv")
    return [line for line in found if line["id"].startswith(prefix)]


def seconds_of(line):
    """The measured step: as printed, or from tokens a second, or from FLOP/s."""
    if line["iter_time_s"]:
        return float(line["iter_time_s"])
    batch, sequence, gpus = whole(line, "global_batch_seqs", "seq_len", "gpus")
    if line["tokens_per_s_per_gpu"]:
        return batch * sequence / (float(line["tokens_per_s_per_gpu"]) * gpus)
    if line["recompute"] == "full":
        return megatron_flops(line) / (float(line["tflops_per_gpu"]) * 1e12 * gpus)
    layers, hidden = whole(line, "layers", "hidden")     # model FLOPs: 6 a parameter and token
    attention = 12 * layers * hidden * sequence / 2      # causal
    flops = batch * sequence * (6e9 * float(line["params_b"]) + attention)
    return flops / (float(line["tflops_per_gpu"]) * 1e12 * gpus)


def megatron_flops(line):
    """96 B s l h^2 (1 + s/(6h) + V/(16 l h)), with full recomputation (SC'21, section 5.1)."""
    batch, sequence, layers, hidden, words = whole(line, "global_batch_seqs", "seq_len", "layers",
                                                   "hidden", "vocab")
    return 96 * batch * sequence * layers * hidden**2 * (
        1 + sequence / (6 * hidden) + words / (16 * layers * hidden))


def degrees(line, **more):
    """The text of --strategy."""
    given = {name: line[name] for name in ("dp", "tp", "pp") if line[name]}
    if line["vpp"] not in ("", "1"):
        given["vpp"] = line["vpp"]
    return ",".join(f"{name}={value}" for name, value in {**given, **more}.items())


def schedule(line):
    """1F1B; chunks bring their own."""
    return [] if line["vpp"] not in ("", "1") else ["--schedule", "1f1b"]


def row_of(line, model, options, micro_batch=None):
    """A row; `micro_batch` where the file has none."""
    layers, batch, gpus = whole(line, "layers", "global_batch_seqs", "gpus")
    tp, pp = (int(line[name] or 1) for name in ("tp", "pp"))
    dp = int(line["dp"]) if line["dp"] else gpus // (tp * pp)
    micro_batch = micro_batch or int(line["micro_batch"])
    memory = float(line["mem_gb"]) * 1e9 / (1 << 30) if line["mem_gb"] else None
    return Row(id=line["id"], model=model, options=options, samples=dp * micro_batch,
               micro_batches=batch // (dp * micro_batch), measured_s=seconds_of(line),
               measured_gib=memory, group=f"{line['id'].split('-')[0]}-{line['hidden']}-{layers}"
               f"-{line['heads']}-{batch}-{gpus}-{line['seq_len']}",
               facts={"gpus": gpus, "tp": tp, "dp": dp, "pp": pp, "micro_batch": micro_batch,
                      "hidden": int(line["hidden"])},
               layers=layers, sharers=dp * tp, stages=pp)


def old_gpt(line, precision, strategy, more=()):
    """GPT under Megatron-LM before flash attention, on DGX A100."""
    sequence, gpus, tp = whole(line, "seq_len", "gpus", "tp")
    words = padded_vocabulary(int(line["vocab"]), tp)
    model = gpt(line["layers"], line["hidden"], line["heads"], words, sequence, "products")
    options = [*training(nodes("dgx-a100", gpus), sequence), *OLD_MEGATRON, "--precision",
               precision, "--recompute", line["recompute"], *schedule(line), "--strategy", strategy,
               *more]
    return row_of(line, model, options)


def sc21(data):
    """Narayanan et al., SC'21, table 1."""
    return [old_gpt(line, "fp16,grads=weights", degrees(line, zero=0, sp=0))
            for line in lines(data, "sc21-")]


def selective(data):
    """Korthikanti et al., table 5: full recomputation, and selective with sequence parallelism."""
    return [old_gpt(line, "fp16,grads=weights",
                    degrees(line, zero=0, sp=line["seq_parallel"] or 0))
            for line in lines(data, "selrec-")]


def mt_nlg(data):
    """Megatron-Turing NLG 530B; its micro-batch is taken to be 1, which the file has not."""
    found = lines(data, "mtnlg-")
    for line in found:
        line["micro_batch"] = line["micro_batch"] or "1"
    return [old_gpt(line, "bf16,grads=fp32", degrees(line, zero=0, sp=0)) for line in found]


def bloom(data):
    """BLOOM's trials: nodes with 4 x 100 Gb/s, ZeRO-1."""
    return [old_gpt(line, "bf16,grads=fp32", degrees(line, zero=1, sp=0),
                    ["--set", "network.bandwidth=6.25GB/s"]) for line in lines(data, "bloom-")]


def llama_model(line):
    """Arguments of transformer_onnx.py."""
    return llama(*(line[name] for name in ("layers", "hidden", "heads", "kv_heads", "ffn",
                                           "vocab")))


def llama3(data):
    """Llama 3 405B on 8,192 H100; its micro-batch is taken to be 1. Nothing says what is computed once
    more, and without any of it a device needs 84 GiB."""
    found = []
    for line in lines(data, "llama3-"):
        options = [*training(nodes("dgx-h100", int(line["gpus"])), line["seq_len"]), "--framework",
                   "megatron", "--precision", "bf16", "--recompute", "auto", "--strategy",
                   degrees(line, zero=1) + ",sp",
                   *schedule(line)]
        found.append(row_of(line, llama_model(line), options, 1))
    return found


def torchtitan(data):
    """The bf16 rows: H100 with HBM2e of 2.4 TB/s, FSDP2, some with tensor parallelism."""
    found = []
    for line in lines(data, "titan-"):
        if line["precision"] != "bf16":
            continue
        strategy = degrees(line, zero=3) + (",sp" if line["tp"] != "1" else "")
        options = [*training(nodes("dgx-h100", int(line["gpus"])), line["seq_len"]), "--set",
                   "device.memory_bandwidth=2.4TB/s", "--set", "device.memory=96GB", "--framework",
                   "fsdp", "--precision", "bf16", "--recompute", line["recompute"], "--strategy",
                   strategy]
        found.append(row_of(line, llama_model(line), options))
    return found
