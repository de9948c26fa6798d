#!/usr/bin/env python3
"""Makes a site of the documents: target/site/html, by MkDocs (mkdocs.yml).

Links between documents are those of the repository, so its documents are laid out for MkDocs as they lie there, with what they
link to beside them. A document that no part of the site's navigation names, a link or an anchor that leads nowhere: the site is
not made, and it is said why. A link to a file that the site does not show, a script say, becomes its path as text.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "target/site/source"
HTML = ROOT / "target/site/html"
MKDOCS = ROOT / ".weir/venv/bin/mkdocs"
# What stands on the site as it is.
FILES = {".md", ".svg", ".png", ".toml", ".flows", ".json", ".py"}
FOLDERS = ["docs", "plans", "schemas", "python", "packaging"]
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def committed():
    """The files of the repository, as git knows them."""
    said = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True)
    return [pathlib.Path(name) for name in said.stdout.split("\0") if name]


def shown(path):
    """Whether a file stands on the site."""
    if len(path.parts) == 1:
        return path.suffix == ".md"
    return path.parts[0] in FOLDERS and path.suffix in FILES and not path.is_relative_to("docs/runs")


def settled(document, target):
    """The path from the root that a link in a document leads to, or nothing for one out of the repository."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return None
    return pathlib.Path(os.path.normpath(document.parent / target.split("#")[0]))


def text_of(document, files):
    """A document whose links to what the site does not show are paths in its text."""
    def link(found):
        path = settled(document, found[2])
        if path is None or path in files:
            return found[0]
        return f"{found[1]} (`{path}`)" if found[1].strip("`") != str(path) else f"`{path}`"
    return LINK.sub(link, (ROOT / document).read_text())


def lay_out(files):
    shutil.rmtree(SOURCE, ignore_errors=True)
    for path in files:
        place = SOURCE / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            place.write_text(text_of(path, files))
        else:
            shutil.copy(ROOT / path, place)


def main():
    files = {path for path in committed() if shown(path) and (ROOT / path).exists()}
    named = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    lost = sorted(str(path) for path in files if path.suffix == ".md" and path.parts[0] in ("docs",) and str(path) not in named)
    if lost:
        sys.exit(f"site: mkdocs.yml leads to none of {', '.join(lost)}: give each a line under `nav`")
    lay_out(files)
    done = subprocess.run([MKDOCS, "build", "--strict", "--quiet", "--clean"], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit("site: not made; the lines above name what is wrong")
    pages = sum(1 for _ in HTML.rglob("*.html"))
    print(f"site: {pages} pages in {HTML.relative_to(ROOT)}; open {HTML.relative_to(ROOT)}/README.html, or serve the folder")


if __name__ == "__main__":
    main()
