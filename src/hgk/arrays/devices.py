"""Where tensors live, and how work is launched there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch

from hgk.arrays import memory

DEVICES = "cpu, cuda, cuda:1, or auto"  # in the words of a command line


def device_of(name: str | torch.device) -> torch.device:
    """The device of this name; "auto" is an accelerator if there is one. A device that is absent is an error."""
    text = str(name)
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if text != "cpu" and not re.fullmatch(r"cuda(:\d+)?", text):
        raise ValueError(f"device={name!r} was given; 'cpu', 'cuda', 'cuda:1' (the second one) or 'auto' is expected.")
    device = torch.device(text)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device={name!r} was given and torch finds {torch.cuda.device_count()} CUDA devices here; use "
            "device='cpu', or 'auto' to take what there is (set_params(device='cpu') for a fitted model)."
        )
    return device


def accelerated(x: torch.Tensor) -> bool:
    """Whether the tensor lies on an accelerator, where launches cost more than operations."""
    return x.device.type != "cpu"


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def recording() -> bool:
    """Whether a graph is being recorded: nothing may wait for the device then."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # without waking the driver


def recorded(steps: Sequence[Callable[[], None]], device: torch.device) -> Callable[[], None]:
    """A function that takes every step once, side by side, by a single launch of a CUDA graph.

    Every step must have been taken before, so that libraries are loaded and kernels compiled. A processor takes them
    one after the other.
    """
    if device.type == "cpu":
        return lambda: _each(steps)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        main = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in steps]
        for stream, step in zip(streams, steps, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                step()
        for stream in streams:
            main.wait_stream(stream)
    return graph.replay


def _each(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()


@contextmanager
def on_device(n: int, device: torch.device) -> Iterator[None]:
    """Work on n rows there: Triton launches where torch is; running out of memory becomes a sentence."""
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        fitting_rows = int((0.9 * memory.available_memory(device) / (4 * 8)) ** 0.5)
        advice = (
            f"about {fitting_rows} do, so fit on a random part of the rows, or use device='cpu'."
            if fitting_rows < n
            else "other work has had a part of it that is free by now, so fit again, or use device='cpu'."
        )
        raise MemoryError(f"{n} rows did not fit into the memory of {device}; {advice}") from error
