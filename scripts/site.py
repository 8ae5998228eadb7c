"""Builds the site: the documents as pages, and the page `play`, one file with the engine that opens from a disk too.

`make site` runs it. The engine needs a Rust compiler that knows WebAssembly: rustup's, after
`rustup target add wasm32-unknown-unknown`, or Debian's packages rustc-web, rust-web-src and lld. `make docs` builds the
documents alone.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "site" / "play"
TARGET = "wasm32-unknown-unknown"
FEATURES = "-Ctarget-feature=+simd128,+bulk-memory"
#: Modules in the order in which they import each other, as one script each.
PAGE = ("numbers", "looks", "scene", "history", "stage", "strips", "story", "challenge", "play")
WORKER = ("engine", "worker")
MISSING = (
    "make site needs a Rust compiler that knows WebAssembly, and found none. On Debian or Ubuntu: sudo apt-get install "
    "rustc-web rust-web-src lld-16 (or any later lld). With rustup: rustup target add wasm32-unknown-unknown. Then run "
    "make site again."
)


class ToolsError(Exception):
    """No compiler here knows WebAssembly."""


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _with_rustup() -> tuple[list[str], dict[str, str]] | None:
    sysroot = _said("rustc", "--print", "sysroot")
    if not sysroot or not (Path(sysroot) / "lib" / "rustlib" / TARGET / "lib").is_dir():
        return None
    return [], {}


def _with_debian() -> tuple[list[str], dict[str, str]] | None:
    """Debian's compiler has no library for this target; the library's sources are compiled too."""
    rustc, sources = Path("/usr/bin/rustc"), Path("/usr/lib/rustlib/src/rust/library/std")
    linkers = [name for n in range(25, 14, -1) if shutil.which(name := f"wasm-ld-{n}")]
    linker = shutil.which("wasm-ld") or next(iter(linkers), None)
    if not rustc.is_file() or not sources.is_dir() or linker is None:
        return None
    environment = {"RUSTC": str(rustc), "RUSTC_BOOTSTRAP": "1", "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER": linker}
    return ["-Z", "build-std=std,panic_abort"], environment


def engine() -> bytes:
    """Compiles the engine for browsers.

    Raises:
        ToolsError: no compiler here can.
        subprocess.CalledProcessError: it does not compile.
    """
    found = _with_rustup() or _with_debian()
    if found is None:
        raise ToolsError(MISSING)
    options, environment = found
    # A folder of its own: what is compiled for this machine stays.
    target = ROOT / "target" / "site"
    environment |= {"CARGO_TARGET_DIR": str(target), "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": FEATURES}
    command = [
        "cargo",
        "build",
        "--quiet",
        "--locked",
        *options,
        "--target",
        TARGET,
        "--profile",
        "site",
        "-p",
        "knee-wasm",
    ]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True)
    return (target / TARGET / "site" / "knee_wasm.wasm").read_bytes()


def _script(modules: tuple[str, ...]) -> str:
    """Modules as one script: no module of a page that is opened from a disk may import another."""
    texts = [(SOURCES / f"{name}.js").read_text(encoding="utf-8") for name in modules]
    names = [
        name
        for text in texts
        for name in re.findall(r"^(?:export )?(?:const|let|function|class|async function) (\w+)", text, re.M)
    ]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"site/play: two modules of one script declare {', '.join(twice)}; rename one of each")
    joined = "\n".join(re.sub(r"^import .*;\n", "", text, flags=re.M) for text in texts)
    script = re.sub(r"^export ", "", joined, flags=re.M)
    if "</script" in script:
        raise ValueError("site/play: a script contains </script, which would end it")
    return script


def _style() -> str:
    """The page's style, with the colours of all pages."""
    themes = runpy.run_path(str(ROOT / "python" / "knee" / "view" / "palette.py"))["THEMES"]
    light, dark = (
        "".join(f" --{name}: {value};" for name, value in themes[each].items()) for each in ("light", "dark")
    )
    rules = (SOURCES / "play.css").read_text(encoding="utf-8")
    root = f":root {{ color-scheme: light dark;{light} }}"
    return f"{root}\n@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n{rules}"


def page(wasm: bytes) -> str:
    """The page as one file."""
    text = (SOURCES / "index.html").read_text(encoding="utf-8")
    script = f"\n{_script(PAGE)}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' 'wasm-unsafe-eval' blob:; worker-src blob:; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode((ROOT / "site" / "pages" / "icon.svg").read_bytes()).decode()
    parts = {
        "<!-- policy -->": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "<!-- icon -->": f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
        "/* style */": _style(),
        "/* engine */": base64.b64encode(wasm).decode(),
        "/* worker */": _script(WORKER),
        "/* script */": script,
    }
    for place, part in parts.items():
        head, found, tail = text.partition(place)
        if not found:
            raise ValueError(f"site/play/index.html: `{place}` is missing")
        text = head + part + tail
    return text


def play(out: Path) -> int:
    """Builds the page `play` into a folder; gives the exit code."""
    try:
        wasm = engine()
    except ToolsError as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    except subprocess.CalledProcessError as failed:
        return failed.returncode
    out.mkdir(parents=True, exist_ok=True)
    unfinished = out / ".play.html"
    unfinished.write_text(page(wasm), encoding="utf-8")
    unfinished.replace(out / "play.html")
    compressed = len(gzip.compress(wasm)) / 1e3
    print(f"{out / 'play.html'}: the engine has {len(wasm) / 1e3:.0f} kB, compressed {compressed:.0f} kB")
    return 0


def documents(out: Path, pictures: bool = True) -> int:
    """Builds the documents as pages into a folder, where `play` may be; gives the exit code, 1 for any warning."""
    import site_pages

    work = ROOT / "target" / "site-pages"
    site_pages.write(work / "source", play=(out / "play.html").is_file(), pictures=pictures)
    options = ["--nitpicky", "--fail-on-warning", "--quiet", "--builder", "html", "--doctree-dir", str(work / "trees")]
    code = subprocess.run([sys.executable, "-m", "sphinx", *options, str(work / "source"), str(out)]).returncode
    if code == 0:
        print(f"{out / 'index.html'}: the site")
    return code


def main() -> int:
    """Builds the site into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site" / "build", help="default: site/build")
    parser.add_argument("--only", choices=("play", "documents"), help="build only this; default: both")
    given = parser.parse_args()
    code = 0 if given.only == "documents" else play(given.out)
    return code or (0 if given.only == "play" else documents(given.out))


if __name__ == "__main__":
    sys.exit(main())
