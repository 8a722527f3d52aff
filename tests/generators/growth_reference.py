"""The growth's energy and gradient in float64 NumPy, written from the formulas."""

from __future__ import annotations

import numpy as np

WALL, DISC = 22.0, 15.0


def frame(x):
    """Unit central-difference tangents and lumped edge lengths."""
    span = np.roll(x, -1, 0) - np.roll(x, 1, 0)
    edge = np.linalg.norm(np.roll(x, -1, 0) - x, axis=1)
    return span / np.linalg.norm(span, axis=1, keepdims=True), 0.5 * (edge + np.roll(edge, 1))


def density(x, axes, discs):
    """Energy density of wall and discs at each point."""
    room = np.maximum(1.0 - np.linalg.norm(x / axes, axis=1), 0.05)
    rho = WALL / room**2
    for cx, cy, r in discs:
        away = x - (cx, cy)
        rho += DISC * r * ((away**2).sum(1) + r * r) ** -1.5
    return rho


def energy(x, axes=None, discs=()):
    """Tangent-point energy, alpha 3 and beta 6, plus wall and discs (none if ``axes`` is None)."""
    tangent, w = frame(x)
    d = x[None] - x[:, None]
    q = 1.0 / ((d**2).sum(2) + 1e-9)
    c = d[..., 0] * tangent[:, None, 1] - d[..., 1] * tangent[:, None, 0]
    pairs = (np.abs(c) ** 3 * q**3 * w[:, None] * w[None]).sum()
    return pairs + (0.0 if axes is None else (w * density(x, axes, discs)).sum())


def gradient(x, axes=None, discs=()):
    """Analytic gradient of :func:`energy`, shape [n, 2]."""
    tangent, w = frame(x)
    d = x[None] - x[:, None]
    q = 1.0 / ((d**2).sum(2) + 1e-9)
    ci = d[..., 0] * tangent[:, None, 1] - d[..., 1] * tangent[:, None, 0]
    cj = d[..., 0] * tangent[None, :, 1] - d[..., 1] * tangent[None, :, 0]
    k = w[None] * q**3
    pi, pj = np.abs(ci) * ci * k, np.abs(cj) * cj * k
    f = (np.abs(ci) ** 3 + np.abs(cj) ** 3) * k
    g = (2.0 * f * q)[..., None] * d
    g = g + pi[..., None] * np.stack([-tangent[:, 1], tangent[:, 0]], 1)[:, None]
    g = (g + pj[..., None] * np.stack([-tangent[:, 1], tangent[:, 0]], 1)[None]).sum(1)
    h = (pi[..., None] * np.stack([-d[..., 1], d[..., 0]], 2)).sum(1)
    gw = f.sum(1)
    push = np.zeros_like(x)
    if axes is not None:
        e = x / axes
        r = np.linalg.norm(e, axis=1)
        t = np.maximum(1.0 - r, 0.05)
        gw = gw + density(x, axes, discs)
        push = (2.0 * WALL / (t**3 * r))[:, None] * e / axes
        for cx, cy, size in discs:
            away = x - (cx, cy)
            u = 1.0 / ((away**2).sum(1) + size * size)
            push = push - (3.0 * DISC * size * u**2.5)[:, None] * away
    G = w[:, None] * (3.0 * g + push)
    GT = 3.0 * w[:, None] * h
    span = np.linalg.norm(np.roll(x, -1, 0) - np.roll(x, 1, 0), axis=1)
    U = (GT - (GT * tangent).sum(1)[:, None] * tangent) / span[:, None]
    edge = np.roll(x, -1, 0) - x
    ahead = edge / np.linalg.norm(edge, axis=1, keepdims=True)
    behind = np.roll(ahead, 1, 0)
    before, after = np.roll(gw, 1), np.roll(gw, -1)
    return (
        G
        + np.roll(U, 1, 0)
        - np.roll(U, -1, 0)
        + 0.5 * (before + gw)[:, None] * behind
        - 0.5 * (gw + after)[:, None] * ahead
    )
