"""Writing pictures and films. Every file appears whole or not at all."""

import importlib
import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from PIL import Image

from atlas.domains.minigrid.render import same_size
from atlas.errors import AtlasError

FILM_SUFFIXES = (".gif", ".mp4")
HOLD = 4
"""The last frame of a film stays this many times as long as the others."""


def write_whole(path: Path | str, content: bytes | str) -> None:
    """Write a file under a passing name, then give it its own: readers never see half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, passing = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(passing, 0o666 & ~_umask())
        os.replace(passing, path)
    except BaseException:
        os.unlink(passing)
        raise


def _umask() -> int:
    """The mode bits that new files lack here; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_picture(image: Image.Image, path: Path | str) -> None:
    """Write an image as PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())


def save_film(frames: Sequence[Image.Image], path: Path | str, fps: float = 4.0) -> None:
    """Write frames as an animation: GIF or MP4, by the suffix of the path."""
    suffix = Path(path).suffix.lower()
    if suffix not in FILM_SUFFIXES:
        raise AtlasError(f"{path}: films end in {' or '.join(FILM_SUFFIXES)}")
    pages = same_size(frames)
    write_whole(path, _gif(pages, fps) if suffix == ".gif" else _mp4(pages, fps))


def _gif(pages: Sequence[Image.Image], fps: float) -> bytes:
    palette = _palette(pages)
    frames = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    beat = round(1000 / fps)
    beats = [beat] * (len(frames) - 1) + [HOLD * beat]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=beats, loop=0)
    return buffer.getvalue()


def _palette(pages: Sequence[Image.Image]) -> Image.Image:
    """One palette for all frames, so that nothing flickers: from up to 32 of them, side by side."""
    some = pages[:: len(pages) // 32 + 1]
    width, height = pages[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for number, page in enumerate(some):
        sheet.paste(page, (0, height * number))
    return sheet.quantize(255)


def _mp4(pages: Sequence[Image.Image], fps: float) -> bytes:
    """H.264, which every browser plays."""
    ffmpeg = _ffmpeg()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        size = (pages[0].width, pages[0].height)
        writer = ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2, ffmpeg_log_level="error")
        writer.send(None)
        for page in [*pages, *[pages[-1]] * (HOLD - 1)]:
            writer.send(page.tobytes())
        writer.close()
        return path.read_bytes()


def _ffmpeg() -> ModuleType:
    try:
        return importlib.import_module("imageio_ffmpeg")
    except ImportError:
        raise AtlasError("MP4 films need ffmpeg: pip install 'atlas-ued[video]', or name the file .gif") from None
