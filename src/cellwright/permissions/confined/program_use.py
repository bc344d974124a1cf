"""Programs that only read, by name. A wrong name here is no danger to anybody: a sandbox refuses the rest.

Of a few it is known which uses write, and so would fail. The rest is believed: `sed 'w x'` is taken for a reader, and
the sandbox refuses its file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from cellwright.permissions.shell.read_only.git_reads import git_reads
from cellwright.permissions.shell.running_flags import runs_or_writes
from cellwright.text import lazy_pattern

Use = Literal["reads", "changes", "unknown"]
"""The doings of a command as far as its name tells: look, change files where it is told to, or anything else."""

Arguments = Sequence[str | None]
"""The words behind a program; None for one that shows only when the command runs."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELL_WORDS = _names(
    ": [ break cd continue declare dirs echo exec exit export false getopts hash help jobs let local mapfile popd printf"
    " pushd pwd read readarray readonly return set shift shopt sleep test times true type typeset ulimit umask unset wait"
)
"""Builtins, which change nothing but the shell itself."""

READERS = _names(
    # text
    "ack ag awk base32 base64 basenc bat batcat cat cmp column colordiff comm cut delta diff diff3 diffstat egrep expand"
    " fgrep fmt fold gawk grep head hexdump hd join look mawk more most nawk nl numfmt od paste pr rev rg ripgrep sdiff"
    " sed seq shuf sort strings tac tail tr tsort ugrep unexpand uniq wc wdiff xxd less zless zmore"
    # files
    " b2sum b3sum basename cksum cloc df dir dirname du eza exa fd fdfind file find getfacl getfattr locate ls lsattr lsd"
    " md5 md5sum mktemp namei ncdu pathchk readlink realpath scc sha1sum sha224sum sha256sum sha384sum sha512sum shasum"
    " stat sum tokei tree vdir whereis which"
    # data and documents
    " bc csvcut csvgrep csvjoin csvjson csvlook csvsort csvstack csvstat datamash dc dasel dot2tex exiftool expr factor"
    " ffprobe fx gron h5dump h5ls htmlq identify iconv in2csv jq mdcat mediainfo mlr nbdiff nbshow ncdump ogrinfo gdalinfo"
    " pandoc pdffonts pdfimages pdfinfo pdftotext pngcheck pqrs qpdf qsv soxi sqlite3 duckdb tomlq xmllint xmlstarlet xq"
    " xsltproc xsv yamllint yes yq zipinfo"
    # archives
    " 7z 7za bzcat bzip2 bunzip2 cpio gunzip gzip gzcat jar lz4 lz4cat lzcat tar bsdtar gtar unar lsar unrar unxz unzip xz"
    " xzcat zcat zgrep zegrep zfgrep zstd unzstd zstdcat zstdgrep xzgrep bzgrep zcmp zdiff"
    # the machine, without its network
    " arch cal date free getconf getent groups hostname hostnamectl id iostat locale logname lscpu lsof mpstat ncal nproc"
    " pgrep pmap ps pstree sar sw_vers sysctl timedatectl top tput tty uname uptime users vmstat whoami"
    # programs and code
    " addr2line apropos c++filt hadolint info ldd man nm objdump otool radon readelf shellcheck size vulture whatis"
    " dos2unix unix2dos env printenv git pip pip3 conda mamba micromamba uv poetry pipx pyenv npm yarn pnpm cargo rustup go"
    " node python python3 ruff black isort flake8 pyflakes pycodestyle pydocstyle bandit jupyter jupytext make openssl"
    " docker kubectl R Rscript julia java dd tee"
)
"""Programs that read and print, or do so in the uses that `_WRITES` and `_USES` let through."""

NEEDS_DEVICES = frozenset({"nvidia-smi"})
"""Programs that ask a device, which no sandbox has."""

CHANGERS = _names(
    "chmod cp csplit gzip gunzip bzip2 bunzip2 install ln mkdir mv patch rename rm rmdir sed sort split tar tee touch"
    " truncate unix2dos dos2unix unxz unzip unzstd xz zip zstd find iconv xxd yq dd uniq shuf ruff black isort"
)
"""Programs that change the files they are told to, and nothing else, where they are not only reading."""


def _any(pattern: str | re.Pattern[str]) -> Callable[[Arguments], bool]:
    """Return a test whether an argument is `pattern` as a whole."""
    compiled = re.compile(pattern, re.DOTALL) if isinstance(pattern, str) else pattern
    return lambda arguments: any(word is not None and compiled.fullmatch(word) for word in arguments)


def _operands(arguments: Arguments) -> list[str | None]:
    return [word for word in arguments if word is None or not word.startswith("-") or word == "-"]


def _first(arguments: Arguments) -> str:
    return next((word or "" for word in _operands(arguments)), "")


def _compresses(arguments: Arguments) -> bool:
    prints = _any(r"--(stdout|to-stdout|list|test)|-[A-Za-z0-9]*[clt][A-Za-z0-9]*")(arguments)
    return not prints and bool(_operands(arguments))


def _tar_writes(arguments: Arguments) -> bool:
    flags = [word for word in arguments if word is not None and word.startswith("-")]
    bundle = arguments[0] if arguments and arguments[0] is not None and not arguments[0].startswith("-") else ""
    short = bundle + "".join(flag[1:] for flag in flags if not flag.startswith("--"))
    if "t" in bundle or "d" in bundle or any(re.fullmatch(r"-[A-Za-z]*[td][A-Za-z]*", flag) for flag in flags):
        return False
    if _any(r"--(list|diff|compare|test-label)")(arguments):
        return False
    if "x" in short or _any("--extract|--get")(arguments):
        return not ("O" in short or _any("--to-stdout")(arguments))
    to_output = "-" in arguments or _any("--file=-|-[A-Za-z]*f-")(arguments)
    return not to_output


_SQL_WRITES = lazy_pattern(
    r"\b(insert|update|delete|create|drop|alter|replace|vacuum|reindex|attach|copy|export|install|pragma\s+\w+\s*=)\b"
    r"|(\A|\s)\.(import|output|once|save|restore|backup|shell|system|clone|excel|open)\b",
    re.IGNORECASE,
)


def _sql_writes(arguments: Arguments) -> bool:
    if len(_operands(arguments)) < 2 and not _any("-c|-version")(arguments):
        return True  # what it is to do it reads from its input
    return _SQL_WRITES.search(" ".join(word or "" for word in arguments)) is not None


_WRITES: Mapping[str, Callable[[Arguments], bool]] = {
    "sed": _any(r"-[A-Za-z]*i.*|--in-place(=.*)?"),
    "sort": _any(r"-[A-Za-z]*o.*|--output(=.*)?"),
    "shuf": _any(r"-o.*|--output(=.*)?"),
    "uniq": lambda arguments: len(_operands(arguments)) > 1 and not _any(r"-[fsw]|--(skip|check)-.*")(arguments),
    "find": _any(r"-delete|-f(print|printf|print0|ls)"),
    "tree": _any("-o"),
    "yq": _any(r"-[A-Za-z]*i[A-Za-z]*|--inplace|--in-place"),
    "mlr": _any("-I"),
    "iconv": _any(r"-o.*|--output(=.*)?"),
    "xmllint": _any(r"--output.*"),
    "xsltproc": _any(r"-o|--output.*"),
    "xmlstarlet": lambda arguments: _first(arguments) == "ed" and _any(r"-[A-Za-z]*L[A-Za-z]*|--inplace")(arguments),
    "xxd": lambda arguments: len(_operands(arguments)) > 1 and not _any("-[lscogn]")(arguments),
    "pandoc": _any(r"-o.*|--output.*"),
    "pdftotext": lambda arguments: _operands(arguments)[-1:] != ["-"],
    "pdfimages": lambda arguments: not _any("-list")(arguments),
    "qpdf": lambda arguments: not _any("--(check|show-.*|json|list-.*|requires-password)")(arguments),
    "exiftool": _any(r"-[\w:-]+[+-]?=.*|-overwrite_original.*|-(o|tagsFromFile)|-w.*"),
    "tar": _tar_writes,
    "bsdtar": _tar_writes,
    "gtar": _tar_writes,
    "unzip": lambda arguments: not _any(r"-[A-Za-z]*[lvtpcZ][A-Za-z0-9]*")(arguments),
    "unrar": lambda arguments: _first(arguments) not in ("l", "lt", "v", "vt", "p", "t"),
    "unar": lambda arguments: True,
    "7z": lambda arguments: _first(arguments) not in ("l", "t"),
    "7za": lambda arguments: _first(arguments) not in ("l", "t"),
    "jar": lambda arguments: not (_first(arguments).lstrip("-").startswith("t") or _any("-t.*|--list")(arguments)),
    "cpio": lambda arguments: not _any(r"-[A-Za-z]*t[A-Za-z]*|--list")(arguments),
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd", "lz4"), _compresses),
    "tee": lambda arguments: any(
        word not in ("/dev/null", "/dev/stderr", "/dev/stdout") for word in _operands(arguments)
    ),
    "dd": _any(r"of=(?!/dev/null\Z).*"),
    "dos2unix": lambda arguments: not _any(r"-[ic].*|--info.*")(arguments),
    "unix2dos": lambda arguments: not _any(r"-[ic].*|--info.*")(arguments),
    "sqlite3": _sql_writes,
    "duckdb": _sql_writes,
    "hostname": lambda arguments: bool(_operands(arguments)) or _any("-F|--file.*|-b")(arguments),
    "date": _any(r"-s.*|--set.*"),
    "sysctl": _any(r"-w|--write|-p.*|--load.*|--system|[\w./]+=.*"),
    "top": lambda arguments: not _any(r"-[A-Za-z]*b[A-Za-z0-9]*|-l\d*")(arguments),
    "printenv": lambda arguments: not _operands(arguments),
    "identify": lambda arguments: _any("-write")(arguments),
    "jupytext": lambda arguments: (
        not (_any("--(output|paired-paths|version)|-o|--output=-")(arguments) and "-" in arguments)
    ),
    "exec": lambda arguments: bool(arguments),
    "ncdu": lambda arguments: not _any("-o-?")(arguments),
    "nbdiff": _any("--out.*"),
    "timedatectl": lambda arguments: _first(arguments) not in ("", "status", "show", "list-timezones"),
    "hostnamectl": lambda arguments: _first(arguments) not in ("", "status", "show"),
}
"""Programs, with what tells that they write, run something, or show what is nobody's business."""


def _one_of(*allowed: str) -> Callable[[Arguments], bool]:
    return lambda arguments: _first(arguments) in allowed


_PIP = _one_of("list", "show", "freeze", "check", "inspect", "debug", "help")


def _pip_reads(arguments: Arguments) -> bool:
    if _first(arguments) in ("list",) and _any("-o|--outdated|-u|--uptodate")(arguments):
        return False  # which asks the index
    operands = _operands(arguments)[:2]
    return _PIP(arguments) or operands in (["config", "list"], ["config", "get"], ["config", "debug"], ["cache", "dir"])


_MODULES = _names("json.tool platform site sysconfig calendar tokenize ast dis tabnanny pyclbr this")


def _python_reads(arguments: Arguments) -> bool:
    """Nothing but its own modules that print: any other code is the project's or Claude's."""
    words = list(arguments)
    while words and words[0] in ("-I", "-E", "-s", "-S", "-B", "-u", "-X", "utf8"):
        words.pop(0)
    if len(words) < 2 or words[0] != "-m":
        return False
    if words[1] in ("pip", "pip3"):
        return _pip_reads(words[2:])
    return words[1] in _MODULES and len(_operands(words[2:])) < 2


def _after(first: str, then: Callable[[Arguments], bool]) -> Callable[[Arguments], bool]:
    """Return a test of what stands behind the subcommand `first`."""

    def reads(arguments: Arguments) -> bool:
        return _first(arguments) == first and then(list(arguments)[list(arguments).index(first) + 1 :])

    return reads


def _either(*tests: Callable[[Arguments], bool]) -> Callable[[Arguments], bool]:
    return lambda arguments: any(test(arguments) for test in tests)


_CHECKS = _any(r"--(check|check-only|diff)|-c")
_CONDA = _either(
    _one_of("list", "info"),
    _after("env", _one_of("list", "export")),
    _after("config", lambda rest: _any(r"--(show|show-sources|get)(=.*)?|--describe")(rest)),
)
_NPM = _either(
    _one_of("ls", "list", "ll", "la", "root", "prefix", "bin", "explain", "why", "query"),
    _after("config", _one_of("get", "list", "ls")),
    _after("pkg", _one_of("get")),
    lambda arguments: list(arguments) in (["run"], ["run-script"]),
)

_USES: Mapping[str, Callable[[Arguments], bool]] = {
    "git": git_reads,
    "pip": _pip_reads,
    "pip3": _pip_reads,
    "python": _python_reads,
    "python3": _python_reads,
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    "uv": _either(_after("pip", _one_of("list", "show", "freeze", "tree", "check")), _one_of("version")),
    "poetry": _either(_one_of("show", "check", "about", "version"), _after("env", _one_of("info", "list"))),
    "pipx": _one_of("list"),
    "pyenv": _one_of("versions", "version", "root", "which", "whence", "commands", "shims", "prefix"),
    **dict.fromkeys(("npm", "pnpm"), _NPM),
    "yarn": _one_of("list", "why", "versions"),
    "cargo": _one_of("tree", "metadata", "locate-project", "pkgid", "read-manifest"),
    "rustup": _either(_one_of("show"), _after("toolchain", _one_of("list")), _after("target", _one_of("list"))),
    "go": _one_of("version", "env", "doc", "help"),
    "ruff": _either(
        _one_of("rule", "linter", "config", "version"),
        _after("check", lambda rest: not _any("--fix|--fix-only|--unsafe-fixes|--add-noqa|--watch|-w")(rest)),
        _after("format", _any("--check|--diff")),
    ),
    "black": _CHECKS,
    "isort": _CHECKS,
    "jupyter": _either(
        # not `--paths`: confined, Jupyter has folders of its own
        _any("--version"),
        _after("kernelspec", _one_of("list")),
        _after("labextension", _one_of("list", "check")),
        _after("nbextension", _one_of("list")),
        _after("nbconvert", lambda rest: _any("--stdout")(rest) and not _any("--execute|--inplace")(rest)),
        _one_of("troubleshoot"),
    ),
    "make": _any(r"-[A-Za-z]*n[A-Za-z]*|--(dry-run|just-print|recon|print-data-base)|-p|-qp"),
    "openssl": lambda arguments: (
        _first(arguments) in ("version", "x509", "asn1parse", "dgst", "verify", "crl", "ciphers")
        and not _any("-out.*|-sign.*|-CAkey.*|-signkey")(arguments)
    ),
    # only what their versions say: for the rest they reach beyond the sandbox, or run code
    **dict.fromkeys(("docker", "kubectl", "node", "R", "Rscript", "julia", "java"), lambda _arguments: False),
}
"""Programs that do anything, with what tells that a use of them only reads."""

_ABOUT_ITSELF = frozenset({"--version", "--help", "-V", "-version"})
_SHORT_ABOUT_ITSELF = frozenset({"-v", "-h", "version", "help"})


def use_of(program: str, arguments: Arguments) -> Use:
    """Return what `program` does with `arguments`, as far as this tells."""
    about_itself = _ABOUT_ITSELF | _SHORT_ABOUT_ITSELF if program in _USES else _ABOUT_ITSELF
    if len(arguments) == 1 and arguments[0] in about_itself and "/" not in program:
        return "reads"
    if program in SHELL_WORDS:
        writes = _WRITES.get(program)
        return "unknown" if writes is not None and writes(arguments) else "reads"
    name = program.rpartition("/")[2] if program.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/")) else program
    if name in READERS and not _writes(name, arguments):
        return "reads"
    return "changes" if name in CHANGERS and not runs_or_writes(name, _known(arguments)) else "unknown"


def _writes(name: str, arguments: Arguments) -> bool:
    if runs_or_writes(name, _known(arguments)):
        return True
    reads = _USES.get(name)
    if reads is not None:
        return not reads(arguments)
    writes = _WRITES.get(name)
    return writes is not None and writes(arguments)


def _known(arguments: Arguments) -> list[str]:
    return [word for word in arguments if word is not None]
