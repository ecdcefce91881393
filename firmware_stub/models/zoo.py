"""Small networks of many architectures: what they call decides which operators the device needs.

Sizes are small, so that all of them are exported and run in a minute; the operators are those of
their full-size relatives.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

Tensors = tuple[torch.Tensor, ...]


class Recurrent(nn.Module):
    """A recurrent layer over a sequence, and a classifier on its last step."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(6, 8, batch_first=True, **options)
        self.classifier = nn.Linear(16 if options.get("bidirectional") else 8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.layer(x)
        return F.log_softmax(self.classifier(steps[:, -1]), dim=-1)


class GruCell(nn.Module):
    """One step of a GRU written out, with its state as an input and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> Tensors:
        state = self.cell(x, state)
        return self.head(state), state


class LstmCell(nn.Module):
    """One step of an LSTM that streams."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> Tensors:
        return self.cell(x, (hidden, cell))


class Attention(nn.Module):
    """Heads of scaled dot-product attention, causal or not."""

    def __init__(self, width: int = 16, heads: int = 4, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(x).chunk(3, dim=-1)
        split = (batch, length, self.heads, width // self.heads)
        query, key, value = (part.reshape(split).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward block, each after a norm and with a shortcut."""

    def __init__(self, width: int = 16, *, causal: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, causal=causal)
        self.feed = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class TransformerEncoder(nn.Module):
    """Tokens with learned positions through two encoder layers."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.layers = nn.Sequential(*(EncoderLayer(causal=causal) for _ in range(2)))
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1])
        x = self.layers(self.tokens(tokens) + self.positions(places))
        return self.head(x.mean(1))


class TorchEncoder(nn.Module):
    """PyTorch's own encoder layer with a mask of padded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)

    def forward(self, x: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[:2]).masked_fill(padded, -1e9)
        return self.layer(x, src_key_padding_mask=mask)


class KvCache(nn.Module):
    """A decoder step: keys and values of earlier tokens stay in buffers, written by position."""

    def __init__(self, width: int = 16, heads: int = 4, length: int = 8) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        shape = (1, heads, length, width // heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        batch, steps, width = x.shape
        split = (batch, steps, self.heads, width // self.heads)
        parts = self.project(x).chunk(3, dim=-1)
        query, key, value = (part.reshape(split).transpose(1, 2) for part in parts)
        self.keys[:, :, position] = key
        self.values[:, :, position] = value
        past = torch.arange(self.length) <= position[-1]
        y = F.scaled_dot_product_attention(query, self.keys, self.values, past[None, None, None])
        return self.out(y.transpose(1, 2).reshape(batch, steps, width))


class RotaryAttention(nn.Module):
    """RMS norm and rotary positions, as small language models have them."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(width)
        self.project = nn.Linear(width, 3 * width, bias=False)
        frequencies = 1.0 / 100.0 ** (torch.arange(0, width // heads, 2) / (width // heads))
        self.register_buffer("frequencies", frequencies)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(x.shape[2]).float(), self.frequencies)
        left, right = x.unflatten(-1, (-1, 2)).unbind(-1)
        cosine, sine = angles.cos(), angles.sin()
        both = (left * cosine - right * sine, left * sine + right * cosine)
        return torch.stack(both, -1).flatten(-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(self.norm(x)).split(x.shape[-1], dim=-1)
        split = (x.shape[0], x.shape[1], self.heads, -1)
        query, key, value = (part.reshape(split).transpose(1, 2) for part in parts)
        query, key = self.rotate(query), self.rotate(key)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        mask = torch.ones(x.shape[1], x.shape[1]).tril() == 0
        weights = scores.masked_fill(mask, -math.inf).softmax(-1)
        return x + (weights @ value).transpose(1, 2).flatten(2)


class VisionTransformer(nn.Module):
    """Patches of an image, a class token, one encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 5, 16))
        self.layer = EncoderLayer()
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1)
        return self.head(self.layer(tokens + self.positions)[:, 0])


class ShiftedWindows(nn.Module):
    """Attention within windows that are shifted by a roll, as in Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        y = torch.roll(x, (-1, -1), (1, 2))
        y = y.reshape(batch, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 2, 4, 5)
        y = self.attention(y.reshape(-1, 4, channels))
        y = y.reshape(batch, height // 2, width // 2, 2, 2, channels).permute(0, 1, 3, 2, 4, 5)
        return x + torch.roll(y.reshape(x.shape), (1, 1), (1, 2))


def convolution(inputs: int, outputs: int, kernel: int = 3, **options: Any) -> nn.Sequential:
    """A convolution of the same size, a norm and a ReLU."""
    options.setdefault("padding", kernel // 2)
    layer = nn.Conv2d(inputs, outputs, kernel, bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    """One level down and up again by interpolation, beside a shortcut."""

    def __init__(self, mode: str, *, to_size: bool = False) -> None:
        super().__init__()
        self.mode, self.to_size = mode, to_size
        self.down, self.middle = convolution(1, 4), convolution(4, 8)
        self.up, self.head = convolution(12, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.down(x)
        y = self.middle(F.max_pool2d(skip, 2))
        corners = None if self.mode == "nearest" else False
        if self.to_size:
            y = F.interpolate(y, size=skip.shape[2:], mode=self.mode, align_corners=corners)
        else:
            y = F.interpolate(y, scale_factor=2.0, mode=self.mode, align_corners=corners)
        return self.head(self.up(torch.cat([y, skip], 1))).argmax(1)


class ConvAutoencoder(nn.Module):
    """Strided convolutions down, transposed ones up."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ELU(), nn.Conv2d(4, 8, 3, stride=2)
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1),
            nn.ELU(),
            nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1, groups=2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.decoder(self.encoder(x)))


class WaveDecoder(nn.Module):
    """Transposed convolutions over one dimension with dilation, as vocoders have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1)
        self.second = nn.ConvTranspose1d(6, 1, 3, dilation=2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(F.leaky_relu(self.first(x), 0.2)))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expand, depthwise, project."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 12, 1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU6(),
            nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU6(),
            nn.Conv2d(12, 4, 1, bias=False),
            nn.BatchNorm2d(4),
        )
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.adaptive_avg_pool2d(x + self.body(x), 1).flatten(1))


class ChannelsLast(nn.Module):
    """Convolutions of images whose channels are adjacent in memory."""

    def __init__(self, *, normalized: bool) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8) if normalized else nn.Identity()
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 12, 1)
        self.classify = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.stem(x)))
        y = F.max_pool2d(F.relu(self.pointwise(self.depthwise(y))), 2)
        return self.classify(y.mean((2, 3)))


class SqueezeExcite(nn.Module):
    """MobileNetV3's block: hard swish, and channels weighted by hard sigmoids."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.squeeze, self.expand = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.hardswish(self.depthwise(x))
        weights = F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))
        return x + y * F.hardsigmoid(self.expand(weights))


class ShuffleUnit(nn.Module):
    """ShuffleNet's split, branch and shuffle of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = convolution(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=1)
        y = torch.cat([left, self.branch(right)], 1)
        batch, channels, height, width = y.shape
        return y.reshape(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(y.shape)


class DetectorHead(nn.Module):
    """Boxes of a grid of anchors, and those of the highest scores."""

    def __init__(self) -> None:
        super().__init__()
        self.features = convolution(3, 8, stride=2)
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x: torch.Tensor) -> Tensors:
        y = self.features(x)
        height, width = y.shape[2:]
        rows, columns = torch.arange(height), torch.arange(width)
        grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).reshape(-1, 2)
        boxes = self.boxes(y).flatten(2).transpose(1, 2)[0]
        centers = (boxes[:, :2].sigmoid() + grid) / width
        sizes = torch.exp(boxes[:, 2:].clamp(max=4.0)) / width
        corners = torch.cat([centers - sizes / 2, centers + sizes / 2], -1)
        scores, classes = self.scores(y).flatten(2)[0].sigmoid().max(0)
        best, places = scores.topk(5)
        return corners[places], best, classes.gather(0, places)


class NonMaximum(nn.Module):
    """Peaks of a heat map: what the maximum of its neighbourhood is, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.heat = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Tensors:
        heat = torch.sigmoid(self.heat(x))
        kept = torch.where(F.max_pool2d(heat, 3, 1, 1) == heat, heat, torch.zeros_like(heat))
        kept = kept / F.adaptive_max_pool2d(heat, 1)
        values, places = kept.flatten(1).sort(descending=True)
        return values[:, :4], places[:, :4] // x.shape[3], places[:, :4] % x.shape[3]


class BoxOverlap(nn.Module):
    """Overlap of boxes with each other, and the largest of them."""

    def forward(self, boxes: torch.Tensor) -> Tensors:
        area = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(1)
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        both = (high - low).clamp(min=0).prod(2)
        overlap = both / (area[:, None] + area[None] - both + 1e-6)
        overlap = overlap.triu(1)
        return overlap.amax(0), overlap.amin(1), (overlap > 0.1).any(0), (overlap < 0.9).all(1)


class StyleBlock(nn.Module):
    """Style transfer's residual block: mirrored edges, instance norms, and edges that repeat."""

    def __init__(self) -> None:
        super().__init__()
        self.mirrored = nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")
        self.repeated = nn.Conv2d(3, 3, 3, padding=1, padding_mode="replicate")
        self.first, self.second = (nn.InstanceNorm2d(3, affine=True) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first(self.mirrored(x)))
        return (
            x + self.second(self.repeated(F.pad(y, (1, 2, 2, 1), mode="reflect")))[..., 2:-1, 1:-2]
        )


class KeptEdges(nn.Module):
    """Edges of lines, pictures and volumes, gates and pixels as operators of their own."""

    def forward(self, x: torch.Tensor) -> Tensors:
        picture = F.pad(F.pad(x, (1, 2, 2, 1), mode="reflect"), (1, 0, 2, 0), mode="replicate")
        line = F.pad(F.pad(picture[0], (2, 3), mode="reflect"), (1, 1), mode="replicate")
        volume = F.pad(picture[None], (1, 1, 1, 1, 1, 1), mode="reflect")
        volume = F.pad(volume, (0, 1, 1, 0, 1, 0), mode="replicate")
        odds = torch.logit(torch.sigmoid(line), 1e-4)
        return F.pixel_unshuffle(x, 2), F.glu(picture, 3), odds, volume


class Panorama(nn.Module):
    """Convolutions around a circle: the right edge of a panorama continues at the left."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.glu(self.line(x), 1)


class SpatialTransformer(nn.Module):
    """Predicts how an image is turned, and samples it at the turned positions."""

    def __init__(self, mode: str = "bilinear") -> None:
        super().__init__()
        self.mode, self.reach = mode, 1.5 if mode == "bilinear" else 1.25
        self.look = nn.Linear(64, 6)
        nn.init.normal_(self.look.weight, 0.0, 0.02)
        with torch.no_grad():
            self.look.bias.copy_(torch.tensor([0.9, 0.2, 0.1, -0.2, 0.9, 0.0]))

    def forward(self, x: torch.Tensor) -> Tensors:
        turn = self.look(x.flatten(1)).reshape(-1, 2, 3)
        grid = F.affine_grid(turn, list(x.shape), align_corners=False)
        smooth = F.grid_sample(x, grid, self.mode, padding_mode="border", align_corners=False)
        other = "nearest" if self.mode == "bilinear" else self.mode
        return smooth, F.grid_sample(x, grid * self.reach, other, align_corners=True)


class BroadcastProducts(nn.Module):
    """Matrix products of every rank: vectors, matrices, batches, and those that broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.Parameter(torch.randn(2, 4, 4))
        self.query = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> Tensors:
        scores = torch.matmul(x[:, None], self.heads)  # [3, 2, 5, 4]: per item and head
        pooled = torch.matmul(scores, self.query)
        mixed = torch.matmul(torch.softmax(pooled, -1).unsqueeze(-2), x[:, None])
        return mixed, torch.matmul(self.query, self.query), x[0] @ self.query, self.query @ x[0].T


class QuantizedResidual(nn.Module):
    """A residual block for static quantization by portable kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.first(x))) + x


class Difference(nn.Module):
    """What two filters see differently, pooled with windows over the edge."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x) - self.second(x)
        return self.head(F.max_pool2d(y, 3, 2, ceil_mode=True))


class VideoClip(nn.Module):
    """Convolutions and pools of volumes: what moves in a few frames."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv3d(2, 4, 3, padding=1, stride=(1, 2, 1)), nn.BatchNorm3d(4)
        self.second = nn.Conv3d(4, 6, (2, 3, 3), groups=2, dilation=(2, 1, 1), padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool3d(F.relu(self.norm(self.first(x))), (1, 2, 2))
        return F.avg_pool3d(self.second(y), 2, 2, 1, ceil_mode=True).flatten(1)


class LocalResponse(nn.Module):
    """Normalization over neighbouring channels, as in AlexNet: exported with avg_pool3d."""

    def __init__(self) -> None:
        super().__init__()
        self.filter, self.norm = nn.Conv2d(3, 6, 3), nn.LocalResponseNorm(3, 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(self.norm(F.relu(self.filter(x))), 2)


class Thumbnail(nn.Module):
    """Shrinks an image with a filter before it looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = F.interpolate(x, size=(6, 5), mode="bilinear", antialias=True)
        return self.filter(small)


class GroupedFilters(nn.Module):
    """Convolutions in groups: some channels in each, and several outputs of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = nn.Conv2d(8, 16, 3, padding=1, groups=4)
        self.each = nn.Conv2d(16, 32, 3, stride=2, groups=16, bias=False)
        self.wide = nn.Conv2d(32, 4, (1, 3), dilation=(1, 1), groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wide(F.relu(self.each(F.relu(self.groups(x)))))


class TransposedFilters(nn.Module):
    """Transposed convolutions: overlapping and separate, with gaps, in groups and of lines."""

    def __init__(self) -> None:
        super().__init__()
        self.overlap = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)
        self.apart = nn.ConvTranspose2d(6, 4, 2, stride=3, groups=2, output_padding=(1, 0))
        self.gaps = nn.ConvTranspose2d(4, 2, 3, dilation=2, bias=False)
        self.line = nn.ConvTranspose1d(2, 3, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.line(self.gaps(self.apart(F.relu(self.overlap(x)))).mean(2))


class Photograph(nn.Module):
    """A classifier of images of 224 by 224 pixels, which take 602,112 bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.filter = nn.Conv2d(3, 8, 8, stride=8), nn.Conv2d(8, 8, 3, groups=8)
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.filter(F.relu(self.patches(x))))
        return self.classifier(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Reduced(nn.Module):
    """Layers with weights and activations of 16 bits, between inputs and outputs of float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.layers = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, groups=2),
            nn.ConvTranspose2d(4, 3, 2, stride=2),
            nn.GroupNorm(3, 3),
            nn.Upsample(scale_factor=2.0),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(48, 6),
            nn.LayerNorm(6),
            nn.Softmax(-1),
        ).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x.to(self.dtype)).float()
