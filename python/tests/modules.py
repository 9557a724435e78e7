# SPDX-License-Identifier: Apache-2.0
"""Modules of many kinds, written as people write them, with arguments; small enough for two cores."""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 10)

    def forward(self, x, y):
        return F.mse_loss(self.second(torch.relu(self.first(x))), y)


class Frozen(Mlp):
    """Fine-tuning: the first layer stays."""

    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 32))
            for _ in range(2))
        self.last = nn.Linear(32, 10)

    def forward(self, x, y):
        for block in self.blocks:
            x = x + block(x)
        return F.mse_loss(self.last(x), y)


class Convnet(nn.Module):
    """Batch normalization, and a count in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding="same", groups=2, bias=False), nn.BatchNorm2d(16), nn.SiLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))

    def forward(self, x, y):
        return F.cross_entropy(self.body(x), y)


class Residual(nn.Module):
    """What is changed in place, and read again afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x, y):
        hidden = self.first(x)
        F.relu(hidden, inplace=True)
        again = hidden.clone()
        again += x
        F.silu(again, inplace=True)
        return F.mse_loss(self.second(again + hidden), y)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.low = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x, y):
        high = F.relu(self.down(x))
        low = F.relu(self.low(F.max_pool2d(high, 2)))
        joined = torch.cat([high, F.interpolate(F.avg_pool2d(self.up(low), 2), scale_factor=2)], 1)
        return F.mse_loss(self.last(joined), y)


class Attention(nn.Module):
    def __init__(self, size: int, heads: int, kv_heads: int | None = None, causal: bool = True,
                 rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.causal, self.rotary, self.size = causal, rotary, size // heads
        self.q = nn.Linear(size, heads * self.size, bias=False)
        self.k = nn.Linear(size, self.kv_heads * self.size, bias=False)
        self.v = nn.Linear(size, self.kv_heads * self.size, bias=False)
        self.o = nn.Linear(heads * self.size, size, bias=False)

    def _turned(self, x):
        half = self.size // 2
        angles = torch.outer(torch.arange(x.shape[2]).float(),
                             1e4 ** (-torch.arange(half).float() / half))
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        batch = x.shape[0]
        q = self.q(x).view(batch, -1, self.heads, self.size).transpose(1, 2)
        k = self.k(memory).view(batch, -1, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(memory).view(batch, -1, self.kv_heads, self.size).transpose(1, 2)
        if self.rotary:
            q, k = self._turned(q), self._turned(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal,
                                           enable_gqa=self.kv_heads != self.heads)
        return self.o(y.transpose(1, 2).reshape(batch, -1, self.heads * self.size))


class GptBlock(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.o = nn.LayerNorm(size), nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.ln2, self.fc, self.proj = nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.Linear(
            4 * size, size)

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2)
                   for each in self.qkv(self.ln1(x)).split(size, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).contiguous().view(batch, length, size))
        return x + self.proj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Tied embeddings, fused projections."""

    def __init__(self, words: int = 96, length: int = 16, size: int = 32, heads: int = 4,
                 layers: int = 2) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, size), nn.Embedding(length, size)
        self.blocks = nn.ModuleList(GptBlock(size, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(size), nn.Linear(size, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.ln(x))
        return F.cross_entropy(scores.view(-1, scores.shape[-1]), labels.view(-1))


class LlamaBlock(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(size), nn.RMSNorm(size)
        self.attention = Attention(size, 4, 2, rotary=True)
        self.gate, self.up = nn.Linear(size, 48, bias=False), nn.Linear(size, 48, bias=False)
        self.down = nn.Linear(48, size, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Grouped queries, rotary positions, RMS norms, gated layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.layers = nn.Sequential(LlamaBlock(32), LlamaBlock(32))
        self.head = nn.Linear(32, 64, bias=False)

    def forward(self, tokens, labels):
        scores = self.head(self.layers(self.embed(tokens)))
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


class T5(nn.Module):
    """Encoder and decoder, with biases by relative position."""

    def __init__(self, size: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.embed, self.bias = nn.Embedding(64, size), nn.Embedding(8, heads)
        self.encode, self.norm = nn.Linear(size, 3 * size, bias=False), nn.LayerNorm(size)
        self.own, self.cross = Attention(size, heads), Attention(size, heads, causal=False)
        self.head = nn.Linear(size, 64)

    def _encoded(self, x):
        batch, length, size = x.shape
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2)
                   for each in self.encode(x).chunk(3, -1))
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        bias = self.bias(distance.clamp(-4, 3) + 4).permute(2, 0, 1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(size / self.heads) + bias, -1)
        return self.norm(x + (weights @ v).transpose(1, 2).reshape(batch, length, size))

    def forward(self, source, target, labels):
        memory = self._encoded(self.embed(source))
        y = self.embed(target)
        y = y + self.own(y)
        y = y + self.cross(y, memory)
        return F.cross_entropy(self.head(y).flatten(0, 1), labels.flatten())


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 32) / 8)
        self.place = nn.Parameter(torch.randn(1, 17, 32) / 8)
        self.block, self.head = GptBlock(32, 4), nn.Linear(32, 10)

    def forward(self, x, y):
        patches = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1) + self.place
        return F.cross_entropy(self.head(self.block(x)[:, 0]), y)


class Encoder(nn.Module):
    """torch's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, x, y):
        return F.mse_loss(self.layer(x), y)


class Dlrm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, 8) for rows in (40, 24, 56))
        self.bottom, self.top = nn.Linear(6, 8), nn.Linear(8 + 16, 1)

    def forward(self, dense, ids, y):
        rows = [torch.relu(self.bottom(dense))]
        rows += [table(ids[:, number]) for number, table in enumerate(self.tables)]
        stacked = torch.stack(rows, 1)
        crossed = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        click = torch.sigmoid(self.top(torch.cat([rows[0], crossed], 1)).squeeze(1))
        return F.mse_loss(click, y)


class Moe(nn.Module):
    """Two of four experts for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4, bias=False)
        self.w1 = nn.Parameter(torch.randn(4, 16, 32) / 4)
        self.w2 = nn.Parameter(torch.randn(4, 32, 16) / 6)

    def forward(self, x, y):
        chance, expert = torch.topk(torch.softmax(self.router(x), -1), 2, -1)
        chosen = (expert.unsqueeze(-1) == torch.arange(4)).to(x.dtype)
        gates = (chosen * chance.unsqueeze(-1)).sum(2)
        hidden = F.gelu(torch.einsum("bsh,ehf->bsef", x, self.w1))
        out = torch.einsum("bsef,efh->bseh", hidden, self.w2)
        return F.mse_loss((out * gates.unsqueeze(-1)).sum(2), y)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(40, 16), nn.LSTM(16, 24, 2, batch_first=True)
        self.head = nn.Linear(24, 40)

    def forward(self, tokens, labels):
        y, _ = self.lstm(self.embed(tokens))
        return F.cross_entropy(self.head(y).flatten(0, 1), labels.flatten())


class Masked(nn.Module):
    """A mask that all samples share, in calls by keyword too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x, mask, y):
        return F.mse_loss(self.second(torch.tanh(self.first(x)).masked_fill(mask, 0.0)), y)


class ProductBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).split(16, 2)
        return x + torch.softmax(q @ k.transpose(1, 2) / 4, -1) @ v


class Products(nn.Module):
    """Blocks of attention that is written down: scores, softmax, a sum of values."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.last = nn.ModuleList(ProductBlock() for _ in range(2)), nn.Linear(16, 4)

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(self.last(x), y)


def _words(*shape: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, shape)


CASES = {
    "mlp": (Mlp, lambda: (torch.randn(8, 32), torch.randn(8, 10))),
    "frozen": (Frozen, lambda: (torch.randn(8, 32), torch.randn(8, 10))),
    "dropout": (Dropping, lambda: (torch.randn(8, 32), torch.randn(8, 10))),
    "convnet": (Convnet, lambda: (torch.randn(8, 3, 16, 16), _words(8, below=4))),
    "residual": (Residual, lambda: (torch.randn(8, 32), torch.randn(8, 10))),
    "unet": (Unet, lambda: (torch.randn(4, 3, 16, 16), torch.randn(4, 2, 16, 16))),
    "gpt": (Gpt, lambda: (_words(8, 16, below=96), _words(8, 16, below=96))),
    "llama": (Llama, lambda: (_words(4, 8, below=64), _words(4, 8, below=64))),
    "t5": (T5, lambda: (_words(4, 6, below=64), _words(4, 8, below=64), _words(4, 8, below=64))),
    "vit": (Vit, lambda: (torch.randn(4, 3, 16, 16), _words(4, below=10))),
    "encoder": (Encoder, lambda: (torch.randn(4, 8, 32), torch.randn(4, 8, 32))),
    "dlrm": (Dlrm, lambda: (torch.randn(8, 6), _words(8, 3, below=24), torch.rand(8))),
    "moe": (Moe, lambda: (torch.randn(4, 8, 16), torch.randn(4, 8, 16))),
    "lstm": (Lstm, lambda: (_words(4, 6, below=40), _words(4, 6, below=40))),
}
# Of single tests.
OTHERS = {
    "products": (Products, lambda: (torch.randn(4, 8, 16), torch.randn(4, 8, 4))),
    "deep": (lambda: Gpt(layers=8), lambda: (_words(8, 16, below=96), _words(8, 16, below=96))),
}


def make(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A module and its arguments, the same every time."""
    torch.manual_seed(7)
    module, arguments = {**CASES, **OTHERS}[name]
    return module(), arguments()
