"""The oracle's device under test: whole-number arithmetic, the same as in tests/oracle/device.rs.

Both sides must give the same packet counts for the same trial, so nothing here may round
differently in the two languages: only `load * seconds` and `capacity * seconds` are floats, each a
single IEEE 754 operation on the same values, then truncated.
"""

MASK = (1 << 64) - 1
MILLION = 1_000_000
BILLION = 1_000_000_000


def scramble(value):
    """SplitMix64: one well-mixed 64-bit number from another."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def trial(device, number, load, seconds):
    """Counts (intended, lost) of the device's trial of that number, from 0."""
    chance = scramble(device["seed"] ^ (number << 32))
    first, second = chance & 0xFFFFFFFF, chance >> 32
    # The sum of two uniform numbers: noise with a triangular distribution around 0.
    swing = first % MILLION + second % MILLION - (MILLION - 1)
    shift = device["noise_ppm"] * swing // MILLION
    capacity = max(1, device["capacity"] * (MILLION + shift) // MILLION)
    intended = int(load * seconds)
    forwarded = min(intended, int(capacity * seconds) + device["queue"])
    received = forwarded - forwarded * device["loss_ppb"] // BILLION
    if scramble(chance) % 1000 < device["disturbed_permille"]:
        received -= received // 20
    return intended, intended - received
