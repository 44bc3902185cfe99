#!/usr/bin/python3
"""volume_loader.py EPOCHS LIST... - epochs over the files named in each LIST (one path a line), in a
new random order each time, by PyTorch's DataLoader with 2 workers. The lists take turns, so that a
noisy moment harms all alike. Prints the files read in a second: a line an epoch, a column a list.

Images are not decoded: that costs the same wherever the file lies, and would hide what it costs to
read it.
"""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            data = bytearray(file.read())
        # What a decoder would hand on: a small tensor of the image, and how large the file was.
        image = torch.frombuffer(data, dtype=torch.uint8)[:12288].reshape(3, 64, 64)
        return image, len(data)


def make_loader(listing):
    with open(listing, encoding="utf-8") as lines:
        paths = lines.read().splitlines()
    order = torch.Generator()
    order.manual_seed(1)
    return DataLoader(Files(paths), batch_size=64, shuffle=True, num_workers=2, generator=order,
                      persistent_workers=True)


def read_epoch(loader):
    began = time.monotonic()
    seen = sum(len(sizes) for _, sizes in loader)
    if seen != len(loader.dataset):
        sys.exit(f"{seen} of {len(loader.dataset)} files were read")
    return seen / (time.monotonic() - began)


def main():
    torch.set_num_threads(1)
    loaders = [make_loader(listing) for listing in sys.argv[2:]]
    for _ in range(int(sys.argv[1])):
        print(*(f"{read_epoch(loader):.1f}" for loader in loaders), flush=True)


if __name__ == "__main__":
    main()
