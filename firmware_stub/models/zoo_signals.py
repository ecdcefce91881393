"""Networks over signals and tables for the zoo: filters, spectra, sensors, quantized lookups."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F  # noqa: N812

Tensors = tuple[torch.Tensor, ...]


class CausalBlock(nn.Module):
    """A dilated convolution that sees only the past, beside a shortcut."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.layer = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.relu(self.norm(self.layer(F.pad(x, (self.past, 0)))))


class TemporalNetwork(nn.Module):
    """A TCN: blocks of growing dilation."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(CausalBlock(4, 2**level) for level in range(3)))
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x)[:, :, -1])


class GatedTemporal(nn.Module):
    """WaveNet's gate: the halves of the channels as tanh and sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 8, 2, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = torch.split(self.layer(x), [4, 4], dim=1)
        return F.glu(self.layer(x), 1) + torch.tanh(left) * torch.sigmoid(right)


class Heartbeat(nn.Module):
    """Classifies an ECG: convolutions and pooling over one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 4, 7, stride=2), nn.Conv1d(4, 8, 5)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool1d(F.elu(self.norm(self.first(x))), 2)
        y = F.avg_pool1d(F.relu(self.second(y)), 3, stride=2)
        return F.log_softmax(self.head(F.adaptive_avg_pool1d(y, 1).flatten(1)), 1)


class WindowStatistics(nn.Module):
    """Features of a window of sensor data, and a classifier on them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(15, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, deviation = x.mean(2), x.std(2)
        low, high = x.amin(2), x.amax(2)
        spread = x.var(2, unbiased=False)
        return self.head(torch.cat([mean, deviation, low, high, spread], 1)).softmax(1)


class MelFrontEnd(nn.Module):
    """Frames of a signal, a window, a Fourier transform as matrices, mel filters, a logarithm."""

    def __init__(self, size: int = 16, hop: int = 8, filters: int = 5) -> None:
        super().__init__()
        self.size, self.hop = size, hop
        time, frequency = torch.arange(size).float(), torch.arange(size // 2 + 1).float()
        angles = 2 * math.pi / size * time[:, None] * frequency
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.register_buffer("filters", torch.rand(size // 2 + 1, filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = x.unfold(-1, self.size, self.hop) * self.window
        power = (frames @ self.cosine) ** 2 + (frames @ self.sine) ** 2
        mel = torch.log1p(power @ self.filters)
        return mel - mel.mean(1, keepdim=True)


class PerChannelEnergy(nn.Module):
    """Normalises energies by a smoothed past; the smoothing is a cumulative sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.arange(1, x.shape[1] + 1, dtype=torch.float32)
        smooth = torch.cumsum(x, 1) / count[:, None]
        return torch.pow(x / (1e-3 + smooth) + 2.0, 0.5) - 2.0**0.5


class Orientation(nn.Module):
    """Roll, pitch and heading of accelerometer and magnetometer."""

    def forward(self, x: torch.Tensor) -> Tensors:
        side, front, up = x.unbind(1)
        length = torch.sqrt(side * side + front * front + up * up) + 1e-6
        roll, pitch = torch.atan2(front, up), torch.asin(side / length)
        tilt = torch.acos(up / length) + torch.atan(front)
        heading = torch.remainder(torch.atan2(side, front) + 7.0, 2 * math.pi)
        return roll, pitch, tilt, heading, torch.fmod(tilt, 0.5)


class FlowStep(nn.Module):
    """A step of a normalising flow: logarithms and exponents near zero."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flipped = x.flip(1)
        return torch.expm1(self.layer(flipped) * 0.1) + F.softplus(x) + F.mish(x)


class GroupNormNet(nn.Module):
    """Group and instance norms between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.groups, self.instance = nn.GroupNorm(3, 6), nn.InstanceNorm2d(6, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.groups(self.first(x)))
        return F.adaptive_avg_pool2d(self.instance(self.second(y)), 2)


class PooledPyramid(nn.Module):
    """Averages over grids of several sizes, repeated to one size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        coarse = F.adaptive_avg_pool2d(x, (2, 3))
        wide = coarse.repeat(1, 1, x.shape[2] // 2, x.shape[3] // 3)
        pooled = F.max_pool2d(F.avg_pool2d(x, 2, stride=1), 2, ceil_mode=True)
        return torch.cat([wide.flatten(1), pooled.flatten(1)], 1)


class GraphLayer(nn.Module):
    """A graph convolution: gathers neighbours, and scatters what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        messages = self.layer(nodes.index_select(0, edges[0]))
        placed = edges[1][:, None].expand_as(messages)
        latest = torch.zeros_like(nodes).scatter(0, placed, messages)
        summed = torch.zeros_like(nodes).index_put((edges[1],), messages, accumulate=True)
        return F.relu(latest + summed + nodes.gather(0, placed))


class Recommender(nn.Module):
    """Bags of categories through a table, with flags packed into bits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, items: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
        low = torch.bitwise_and(flags, 3) | torch.bitwise_xor(flags, 1)
        chosen = self.table(torch.bitwise_and(items + low, 15))
        absent = torch.bitwise_not(items > 12) & (items >= 0)
        return self.head((chosen * absent[..., None]).sum(1))


class RingBuffer(nn.Module):
    """A window that keeps the latest samples in a buffer, and where to write next."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.zeros(2, 6))
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = torch.roll(self.window, -1, 1)
        window[:, -1] = x
        window[0, 1:3] = window[0, 1:3] * 0.5
        self.window.copy_(window)
        return self.head(window.reshape(1, -1))


class CountingClassifier(nn.Module):
    """Truths: any, all, and where the largest and the smallest stand."""

    def forward(self, x: torch.Tensor) -> Tensors:
        high, low = x.max(1), x.min(1)
        return high.values, low.indices, x.argmin(1), torch.any(x > 2), torch.all(x > -9)


class Constants(nn.Module):
    """Tensors that are made on the device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.shape[0]
        ramp = torch.arange(0, size, dtype=torch.float32) + torch.zeros(size) + torch.ones(size)
        full = torch.full_like(x, 0.5) * torch.ones_like(x) - torch.zeros_like(x)
        return (full.clone() + ramp[:, None]).to(torch.int32).to(torch.float32) + x


class QuantizedTable(nn.Module):
    """Token embeddings in 8, 4 or 2 bits, with a scale per group as in small language models."""

    def __init__(self, bits: int, tokens: int = 20, width: int = 8) -> None:
        super().__init__()
        self.bits = bits
        limit = 2 ** (bits - 1)
        table = torch.randint(-limit, limit, (tokens, width), dtype=torch.int8)
        parts = (table + limit).to(torch.uint8)
        if bits == 4:
            table = parts[:, ::2] * 16 + parts[:, 1::2]
        if bits == 2:
            table = sum(parts[:, place::4] * 4**place for place in range(4))
        self.register_buffer("table", table)
        self.register_buffer("scales", torch.rand(tokens, 2) + 0.1)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.quantized_decomposed
        look_up = {8: ops.embedding_byte, 4: ops.embedding_4bit, 2: ops.embedding_2bit}[self.bits]
        limit = 2 ** (self.bits - 1)
        return self.head(look_up(self.table, self.scales, None, -limit, limit - 1, tokens))


class Linears(nn.Module):
    """Layers for dynamic quantization."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.first(x)))


class PooledAudio(nn.Module):
    """Audio tags: convolutions over time with every kind of pooling over it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(2, 8, 5, padding=2), nn.Conv1d(8, 8, 3, padding=1)
        self.head = nn.Linear(24, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.avg_pool1d(F.relu(self.first(x)), 4, 2, 1)
        y = F.max_pool1d(F.relu(self.second(y)), 3, 2, 1)
        return self.head(F.adaptive_avg_pool1d(y, 3).flatten(1))


class AdaptivePeaks(nn.Module):
    """The largest of each third of a signal, in steps that are powers of two."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp2(F.adaptive_max_pool1d(x, 3).round())


class FeatureHash(nn.Module):
    """Hashes categories into rows of a table by shifts and exclusive ors."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, words: torch.Tensor, salt: torch.Tensor) -> torch.Tensor:
        mixed = torch.bitwise_xor(words, torch.bitwise_left_shift(words, 5)) * 0x9E37
        mixed = torch.bitwise_xor(mixed, torch.bitwise_right_shift(mixed, 7))
        mixed = torch.bitwise_left_shift(mixed, salt) + torch.bitwise_right_shift(mixed, salt + 60)
        return self.table(torch.bitwise_and(torch.bitwise_right_shift(mixed, 3), 15)).sum(1)


class BitUnpacker(nn.Module):
    """Four numbers of two bits in each byte, by Python's own shifts."""

    def forward(self, packed: torch.Tensor) -> Tensors:
        parts = [(packed >> shift) & 3 for shift in (0, 2, 4, 6)]
        return torch.stack(parts, -1), (packed >> 4) | (packed << 4)


class Selection(nn.Module):
    """Elements and rows that a mask chooses; how many there are depends on the numbers."""

    def forward(self, x: torch.Tensor) -> Tensors:
        strong = x.abs() > 0.5
        kept = x[strong.any(1)]
        placed = torch.zeros_like(x).masked_scatter(strong, x.flatten() * 2)
        marked = torch.index_put(placed, [x < -1.0], torch.tensor(-1.0))
        added = torch.index_put(marked, [strong[:, 0]], x[:1], accumulate=True)
        return kept, torch.masked_select(x, strong), torch.nonzero(strong), added


class LengthRegulator(nn.Module):
    """Speech synthesis: repeats each phoneme for as long as it is predicted to last."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 3)

    def forward(self, phonemes: torch.Tensor, durations: torch.Tensor) -> torch.Tensor:
        frames = phonemes.repeat_interleave(durations, 0, output_size=8)
        return torch.tanh(self.project(frames))


class Prototypes(nn.Module):
    """Few-shot learning: distances and angles to examples, and how alike these are themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("examples", torch.randn(5, 4))

    def forward(self, x: torch.Tensor) -> Tensors:
        away = torch.cdist(x, self.examples)
        angles = F.cosine_similarity(x[:, None], self.examples[None], dim=-1)
        decay = 0.5 ** torch.cdist(x, self.examples, p=1.0)
        bounded = torch.clamp(x, self.examples.amin(0), self.examples.amax(0))
        return away.argmin(1), angles, decay, bounded, F.pdist(self.examples * x[:1])


class Laplacian(nn.Module):
    """A graph's Laplacian: diagonals, windows over memory, and a part of a dimension."""

    def forward(self, edges: torch.Tensor) -> Tensors:
        degrees = edges.sum(1)
        laplacian = torch.diag_embed(degrees) - edges
        bands = torch.diagonal(laplacian, 1), torch.diagonal(laplacian, -2)
        windows = edges.as_strided((3, 4), (2, 1), 1)
        return torch.trace(laplacian), *bands, windows, torch.narrow_copy(laplacian, 0, 1, 2)


class MappedLayer(nn.Module):
    """One layer over each item of a sequence, and a smoothed sum, as loops in the program."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Tensors:
        def smooth(state: torch.Tensor, item: torch.Tensor) -> Tensors:
            following = state * 0.5 + item
            return following, following.clone()

        mapped = map_(lambda item: torch.relu(self.layer(item)), x)
        return mapped, scan(smooth, torch.zeros(4), x)[1]


class MixedTypes(nn.Module):
    """Statistics of counted pulses, of operands whose types PyTorch promotes."""

    def forward(
        self, codes: torch.Tensor, counts: torch.Tensor, x: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        doubled = codes * 2 - codes.flip(1) + 3
        level = torch.sqrt(counts) + torch.sin(codes) + counts**0.5
        total = codes.sum(1, dtype=torch.float32) / counts.float().sum(1)
        same = counts == codes.long()
        kept = torch.where(torch.isfinite(x), x, counts)
        mixed = torch.logaddexp(kept, level) * torch.eye(4)[:3]
        return doubled, total, same, mixed


class BagOfWords(nn.Module):
    """Mean, largest and weighted embeddings of the words of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.EmbeddingBag(20, 6, mode="mean", padding_idx=0)
        self.peak = nn.EmbeddingBag(20, 6, mode="max")
        self.sum, self.weight = nn.EmbeddingBag(20, 6, mode="sum"), nn.Linear(6, 1)

    def forward(self, words: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weights = torch.sigmoid(self.weight(self.peak.weight)).flatten()[words]
        bags = self.mean(words), self.peak(words), self.sum(words, per_sample_weights=weights)
        return torch.cat(bags, 1), self.mean(words.flatten(), starts)


class NeighbourStatistics(nn.Module):
    """What the edges of a graph bring to its nodes: means, extremes, products and counts."""

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, ...]:
        to = edges[1][:, None].expand(-1, x.shape[1])
        sent = x[edges[0]]
        mean = x.scatter_reduce(0, to, sent, "mean")
        peak = x.scatter_reduce(0, to, sent, "amax", include_self=False)
        low = x.scatter_reduce(0, to, sent, "amin")
        counts = torch.ones_like(to).scatter_reduce(0, to, torch.ones_like(to), "sum")
        return mean, peak - low, x.scatter_reduce(0, to, sent, "prod"), counts
