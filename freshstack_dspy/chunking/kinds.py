"""Which kind of text a file holds, by its name. These tables are all there is to it."""

from typing import Literal, TypeGuard, get_args

Language = Literal[
    "bash", "c", "c_sharp", "cpp", "css", "gdscript", "go", "html", "java", "javascript",
    "kotlin", "lua", "php", "python", "ruby", "rust", "scala", "swift", "tsx", "typescript",
]  # fmt: skip
FileKind = Literal[Language, "markdown", "rst", "asciidoc", "org", "latex", "text"]

_SUFFIXES: dict[FileKind, str] = {
    "bash": "sh bash zsh ksh bats ebuild",
    "c": "c",
    "c_sharp": "cs csx",
    "cpp": "cpp cc cxx c++ h hpp hh hxx h++ ipp tpp cu cuh ino",
    "css": "css",
    "gdscript": "gd",
    "go": "go",
    "html": "html htm xhtml vue svelte blade.php",
    "java": "java",
    "javascript": "js jsx mjs cjs",
    "kotlin": "kt kts",
    "lua": "lua",
    "php": "php phtml php5 php7 php8",
    "python": "py pyi pyw bzl",
    "ruby": "rb rake gemspec ru",
    "rust": "rs",
    "scala": "scala sc sbt",
    "swift": "swift",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "markdown": "md markdown mdown mkd mdx rmd qmd",
    "rst": "rst rest",
    "asciidoc": "adoc asciidoc asc",
    "org": "org",
    "latex": "tex ltx sty cls",
}
_NAMES: dict[FileKind, str] = {
    "bash": ".bashrc .bash_profile .profile .zshrc pkgbuild",
    "python": "build workspace sconstruct sconscript wscript",
    "ruby": "gemfile rakefile vagrantfile podfile brewfile guardfile",
}
_ALIASES: dict[str, FileKind] = {
    "c#": "c_sharp", "csharp": "c_sharp", "c++": "cpp", "ipython": "python", "sh": "bash",
}  # fmt: skip
_KIND_OF_SUFFIX: dict[str, FileKind] = {
    suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()
}
_KIND_OF_NAME: dict[str, FileKind] = {
    name: kind for kind, names in _NAMES.items() for name in names.split()
}


def file_kind(path: str) -> FileKind:
    """Tell a file's kind from its path; whatever is not in the tables is `text`.

    `.h` is read as C++, whose grammar reads C as well; templates are read as the HTML around
    their own marks.
    """
    name = path.rpartition("/")[2].lower()
    if name in _KIND_OF_NAME:
        return _KIND_OF_NAME[name]
    suffixes = name.split(".")[1:]
    for suffix in (".".join(suffixes[-2:]), ".".join(suffixes[-1:])):
        if suffix in _KIND_OF_SUFFIX:
            return _KIND_OF_SUFFIX[suffix]
    return "text"


def language_named(name: str) -> FileKind:
    """Tell the kind of code from the name of its language, as Jupyter's kernels give it."""
    name = name.lower()
    return name if is_language(name) else _ALIASES.get(name, "text")


def is_language(kind: str) -> TypeGuard[Language]:
    """Whether a kind is code, which a grammar reads."""
    return kind in get_args(Language)
