"""Pictures and films on disk: whole files, readable again."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from atlas.errors import AtlasError
from atlas.show import media

FRAMES = [Image.new("RGB", (63, 48), colour) for colour in ((255, 0, 0), (0, 200, 0), (0, 0, 255))]


def test_pictures_read_back(tmp_path: Path) -> None:
    media.save_picture(FRAMES[0], tmp_path / "new" / "a.png")
    with Image.open(tmp_path / "new" / "a.png") as image:
        assert image.size == (63, 48)
        assert image.convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def test_gif_holds_every_frame(tmp_path: Path) -> None:
    media.save_film(FRAMES, tmp_path / "a.gif", fps=4)
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 3
        assert film.size == (64, 48), "even, as H.264 wants it"
        beats = []
        for i in range(3):
            film.seek(i)
            beats.append(film.info["duration"])
            np.testing.assert_allclose(film.convert("RGB").getpixel((5, 5)), FRAMES[i].getpixel((5, 5)), atol=8)
    assert beats == [250, 250, 1000]


def test_mp4_is_a_film(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    media.save_film(FRAMES, tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"


def test_without_ffmpeg_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(AtlasError, match=r"atlas-ued\[video\]"):
        media.save_film(FRAMES, tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_unknown_films_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match=r"\.gif or \.mp4"):
        media.save_film(FRAMES, tmp_path / "a.avi")
