#!/usr/bin/python3
"""Epochs over images by PyTorch's DataLoader, as training reads them.

    volume_loader.py make FOLDER COUNT                 JPEGs of 20 to 60 KB, 1,000 to a folder
    volume_loader.py decoded|raw EPOCHS LIST...        epochs over the files named in each LIST (one path a
                                                       line), in a new random order each time, 2 workers

The lists take turns, so that a noisy moment harms all alike. Prints the files read in a second: a line an
epoch, a column a list. With "decoded" a worker makes a tensor of 3 x 224 x 224 of each image. With "raw" it
only reads the file: decoding costs the same wherever the file lies, and hides what it costs to read it.
"""
import io
import os
import sys
import time

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

KINDS = 100  # of images; each file has a number of its own behind the image


def make_image(generator):
    """Soft shapes with some noise on them, about as large as a photograph of that size."""
    shapes = torch.rand((1, 3, 12, 12), generator=generator)
    picture = torch.nn.functional.interpolate(shapes, size=(256, 256), mode="bicubic")[0]
    picture += torch.randn((3, 256, 256), generator=generator) * 0.06
    pixels = (picture.clamp(0, 1) * 255).to(torch.uint8).permute(1, 2, 0).contiguous()
    image = Image.frombytes("RGB", (256, 256), bytes(pixels.flatten().tolist()))
    while True:
        out = io.BytesIO()
        image.save(out, "JPEG", quality=int(torch.randint(60, 99, (1,), generator=generator)))
        if 20_000 <= out.tell() <= 60_000:
            return out.getvalue()


def make_files(folder, count):
    generator = torch.Generator()
    generator.manual_seed(1)
    images = [make_image(generator) for _ in range(KINDS)]
    for i in range(count):
        below = os.path.join(folder, f"{i // 1000:04d}")
        if i % 1000 == 0:
            os.makedirs(below)
        with open(os.path.join(below, f"{i:07d}.jpg"), "wb") as file:
            file.write(images[i % KINDS] + i.to_bytes(8, "big"))


class Files(Dataset):
    def __init__(self, paths, decoded):
        self.paths = paths
        self.decoded = decoded

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            if self.decoded:
                data = Image.open(file).convert("RGB").crop((16, 16, 240, 240)).tobytes()
                shape = (224, 224, 3)
            else:
                data = file.read()[:12288]
                shape = (64, 64, 3)
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(shape)


def make_loader(listing, decoded):
    with open(listing, encoding="utf-8") as lines:
        paths = lines.read().splitlines()
    order = torch.Generator()
    order.manual_seed(1)
    return DataLoader(Files(paths, decoded), batch_size=64, shuffle=True, num_workers=2, generator=order,
                      persistent_workers=True)


def read_epoch(loader):
    began = time.monotonic()
    seen = sum(len(images) for images in loader)
    if seen != len(loader.dataset):
        sys.exit(f"{seen} of {len(loader.dataset)} files were read")
    return seen / (time.monotonic() - began)


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "make":
        make_files(sys.argv[2], int(sys.argv[3]))
        return
    loaders = [make_loader(listing, sys.argv[1] == "decoded") for listing in sys.argv[3:]]
    for _ in range(int(sys.argv[2])):
        print(*(f"{read_epoch(loader):.1f}" for loader in loaders), flush=True)


if __name__ == "__main__":
    main()
