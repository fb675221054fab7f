"""Build the documentation as a site, with MkDocs: `make docs` runs this in .venv-docs.

The pages are copied first, each to the place that it has in the repository, so that their links stay as they are.
A page that is nowhere in the navigation, a link or an anchor that leads nowhere fails the build.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Pages, and what pages link to or show.
COPIED = ("*.md", "LICENSE", "bench/*.md", "docs/**/*")


def copy_pages(folder: Path) -> None:
    """Copy all pages into an empty folder, in the places that they have in the repository."""
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in COPIED:
        for file in sorted(ROOT.glob(pattern)):
            if file.is_file():
                target = folder / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)


def build(pages: Path, site: Path) -> bool:
    """Build the site from the repository's pages; False where MkDocs warned of anything."""
    # MkDocs is in .venv-docs alone; the tests import this module without it.
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    copy_pages(pages)
    config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(pages), site_dir=str(site), strict=True)
    try:
        build_site(config)
    except Abort as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    return True


def main() -> int:
    """Read the arguments and build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "build", help="the folder for `pages` and `site`")
    folder = parser.parse_args().into.resolve()
    done = build(folder / "pages", folder / "site")
    if done:
        site = folder / "site"
        print(f"Open {site / 'index.html'}; for search, `python -m http.server -d {site}` and http://localhost:8000")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
