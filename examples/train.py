"""Stands in for the training of mnist-search.yaml: gradient descent on a small problem with a best
learning rate near 0.2. Prints a loss for each epoch. usage: train.py --lr RATE"""
import argparse
import math

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
lr = parser.parse_args().lr

# Two directions of different steepness: too small a rate is slow in one, too large a rate swings
# in the other.
flat, steep = 1.0, 9.0
x, y = 1.0, 1.0
for epoch in range(10):
    x -= lr * flat * x
    y -= lr * steep * y
    loss = 0.5 * (flat * x * x + steep * y * y)
    print(f"epoch {epoch + 1} loss {loss:.6g}", flush=True)
print(f"lr {lr:.4f} final loss {loss:.6g} log10 {math.log10(loss + 1e-300):.2f}")
