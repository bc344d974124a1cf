"""The use of a program, by its name and arguments. A wrong name here endangers nobody: a sandbox refuses the rest.

Of a few it is known which uses write, and so would fail. The rest is believed: `sed 'w x'` is taken for a reader, and
the sandbox refuses its file. Programs that can do anything are tried in the same bounds, except those that are known to
need more: these would only fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from cellwright.permissions.rules.command_pattern import runs_or_writes
from cellwright.permissions.shell.git import GLOBAL_WITH_VALUE, git_reads
from cellwright.text import lazy_pattern

Use = Literal["reads", "changes", "runs", "unknown"]
"""The doings of a command as far as its name tells: look, change files where it is told to, run any code, or need more.

More than a sandbox has: the network, devices, other processes, services, rights, a repository's data.
"""

Arguments = Sequence[str | None]
"""The words behind a program; None for one that shows only when the command runs."""

_INSTALLS_HOOKS = frozenset({"i", "install", "ci", "add", "update", "upgrade", "up", "link", "dedupe", "rebuild"})
_GIT_MAKES = frozenset({"clone", "init", "submodule", "config"})
_REMOTE = frozenset({"add", "remove", "rm", "rename", "set-url", "set-branches", "set-head"})


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
    r"\b(insert|update|delete|create|drop|alter|replace\s+into|vacuum|reindex|attach|copy|export|install|pragma\s+\w+\s*=)\b"
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
    # only what their versions say: the rest needs more, or is any code
    **dict.fromkeys(("docker", "kubectl", "node", "R", "Rscript", "julia", "java"), lambda _arguments: False),
}
"""Programs that do anything, with what tells that a use of them only reads."""

NEEDS_MORE = _names(
    # the network
    " curl wget aria2c http https xh ftp sftp lftp ssh scp sshfs mosh rclone telnet nc ncat netcat socat ping ping6"
    " traceroute tracepath mtr dig nslookup host whois nmap ip ifconfig ss netstat route iptables nft tcpdump"
    " psql mysql mariadb mongosh mongo redis-cli cqlsh sqlcmd clickhouse-client bq snowsql"
    " aws gcloud gsutil az gh glab hub hf huggingface-cli kaggle wandb mlflow databricks dbt modal vercel netlify heroku"
    " fly flyctl doctl terraform pulumi ansible ansible-playbook twine ollama"
    # services, containers, other machines
    " docker docker-compose podman buildah nerdctl kubectl helm minikube kind k9s vagrant singularity apptainer"
    " sbatch srun salloc squeue scancel sinfo sacct qsub qstat qdel bsub bjobs ray spark-submit"
    # servers
    " streamlit gradio uvicorn gunicorn hypercorn flask celery airflow dagster prefect tensorboard jupyter-lab"
    " jupyter-notebook jupyter-server voila panel bokeh nginx caddy redis-server postgres mongod"
    # other processes, rights, the machine
    " kill pkill killall skill renice fuser strace ltrace gdb perf sudo su doas pkexec chroot unshare nsenter mount umount"
    " systemctl service journalctl launchctl loginctl crontab at atq atrm batch useradd usermod userdel passwd chown chgrp"
    " setfacl setcap mkfs fdisk parted losetup swapon modprobe dmesg reboot shutdown poweroff ufw"
    # packages
    " apt apt-get aptitude dpkg dnf yum rpm apk pacman snap flatpak brew port nix nix-env guix easy_install gem bundle"
    " composer cpan cpanm luarocks opam stack cabal bower volta nvm fnm asdf mise sdk"
    # devices
    " nvidia-smi rocm-smi nvtop gpustat amd-smi intel_gpu_top xpu-smi"
    # screens and terminals
    " vim vi nvim nano emacs code cursor subl gedit kate open xdg-open display eog evince firefox chromium google-chrome"
    " xclip xsel pbcopy pbpaste screen tmux watch notify-send gnome-terminal osascript"
)
"""Programs that a sandbox keeps from all that they are for: they are asked about at once."""

MAKERS = _names(
    "make gmake ninja cmake meson bazel scons gcc g++ cc c++ clang clang++ gfortran nvcc rustc ld ar javac mvn gradle ant"
    " cython f2py swig protoc tsc webpack vite rollup esbuild pdflatex xelatex lualatex latexmk bibtex convert magick"
    " mogrify ffmpeg sox gnuplot papermill sphinx-build mkdocs jekyll hugo quarto rsync zip virtualenv cookiecutter prettier"
    " autopep8 yapf pyupgrade autoflake nbstripout pre-commit dvc mkfifo mknod script"
)
"""Programs that make or change files, as they or the project see fit: in bounds for reading they would only fail."""

_ABOUT_ITSELF = frozenset({"--version", "--help", "-V", "-version"})
_SHORT_ABOUT_ITSELF = frozenset({"-v", "-h", "version", "help"})


def use_of(program: str, arguments: Arguments) -> Use:
    """Return what `program` does with `arguments`, as far as this tells."""
    about_itself = _ABOUT_ITSELF | _SHORT_ABOUT_ITSELF if program in _USES else _ABOUT_ITSELF
    if len(arguments) == 1 and arguments[0] in about_itself and "/" not in program:
        return "reads"
    if program in SHELL_WORDS:
        writes = _WRITES.get(program)
        return "runs" if writes is not None and writes(arguments) else "reads"
    name = _name(program)
    if name in READERS and not _writes(name, arguments):
        return "reads"
    if name in CHANGERS and not runs_or_writes(name, _known(arguments)):
        return "changes"
    return "unknown" if _needs_more(name, arguments) else "runs"


def makes_files(program: str, arguments: Arguments) -> bool:
    """Return whether a program that can do anything is known to make or change files when it is used like this."""
    name = _name(program)
    makes = _MAKES.get(name)
    if makes is not None:
        return makes(arguments)
    return name in MAKERS or (name in READERS and name not in _USES and _writes(name, arguments))


def _name(program: str) -> str:
    return program.rpartition("/")[2] if program.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/")) else program


def _needs_more(name: str, arguments: Arguments) -> bool:
    if "--help" in arguments or "--version" in arguments:
        return False
    runs = _RUNS.get(name)
    return not runs(arguments) if runs is not None else name in NEEDS_MORE


_SERVES = lazy_pattern(r"(start|dev|serve|server|watch|preview|storybook|publish|deploy)(:.*)?|runserver|.*-server")
_INSTALLS = _names("pip pip3 ensurepip conda easy_install twine")
_SERVERS = _names("http.server uvicorn gunicorn flask streamlit gradio jupyterlab notebook celery dask ipykernel")


def _python_runs(arguments: Arguments) -> bool:
    """Return whether Python is given code that may end well without the network."""
    module = _module(arguments)
    if module == "jupyter":
        return _jupyter_runs(list(arguments)[list(arguments).index("-m") + 2 :])
    return module not in _INSTALLS | _SERVERS and not _any("runserver|run_server")(arguments)


def _module(arguments: Arguments) -> str:
    """The module that Python runs by `-m`; "" if it runs something else."""
    for at, word in enumerate(arguments):
        if word == "-m":
            return (arguments[at + 1] or "") if at + 1 < len(arguments) else ""
        if word is None or not word.startswith("-") or word in ("-c", "-"):
            return ""
    return ""


def _jupyter_runs(arguments: Arguments) -> bool:
    # a kernel is reached by sockets, which nothing confined has
    if _first(arguments) == "nbconvert":
        return not _any("--execute|--ExecutePreprocessor.*")(arguments)
    return _first(arguments) in ("", "kernelspec", "labextension", "nbextension", "trust", "troubleshoot", "--paths")


def _scripts_run(arguments: Arguments) -> bool:
    words = [word or "" for word in _operands(arguments)]
    if words[:1] in (["run"], ["run-script"]):
        words = words[1:]
    elif words[:1] not in (["test"], ["t"], ["exec"], ["build"]):
        return False
    return not any(map(_SERVES.fullmatch, words[:1]))


_FETCHES = _names(
    "install i ci add remove rm uninstall up update upgrade sync lock download wheel index search create init publish login"
    " dlx link unlink audit outdated info view why-not purge autoremove dist-upgrade full-upgrade reinstall tap get"
    " build-dep clean autoclean group swap source fetch pull push global-add self cache-clean rehash default component-add"
)


def _fetches_nothing(arguments: Arguments) -> bool:
    """Return whether a program that installs packages is used for something else, as far as its words tell."""
    words = [word or "" for word in _operands(arguments)]
    if _any("--outdated|--uptodate")(arguments):
        return False  # which asks the index
    return bool(words) and _FETCHES.isdisjoint(words[:2]) and not any(map(_SERVES.fullmatch, words[:1]))


_LISTS = _either(
    _one_of("list", "show", "search", "policy", "info", "depends", "rdepends", "leaves", "deps", "outdated", "query"),
    _any(r"-(l|L|s|S|q\w*|Q\w*|W)|--(list|listfiles|status|search|query|installed)"),
)

_RUNS: Mapping[str, Callable[[Arguments], bool]] = {
    **dict.fromkeys(("python", "python3"), _python_runs),
    "npm": _scripts_run,
    **dict.fromkeys(("pnpm", "yarn", "bun", "pip", "pip3", "pyenv", "rustup"), _fetches_nothing),
    **dict.fromkeys(("git", "pipx", "deno"), lambda _arguments: False),
    **dict.fromkeys(("conda", "mamba", "micromamba", "hatch", "pdm", "pipenv"), _one_of("run")),
    "uv": _either(_one_of("run"), lambda arguments: _first(arguments) != "pip" and _fetches_nothing(arguments)),
    "poetry": _either(_one_of("run"), _fetches_nothing),
    **dict.fromkeys(("apt", "aptitude", "dpkg", "dnf", "yum", "rpm", "apk", "snap", "flatpak", "brew", "gem"), _LISTS),
    "pacman": _any(r"-Q\w*"),
    "mlflow": _one_of("experiments", "runs", "artifacts"),
    "tensorboard": _any("--inspect"),
    "flask": _one_of("routes"),
    "dbt": _one_of("ls", "list", "parse"),
    **dict.fromkeys(("hf", "huggingface-cli"), _one_of("cache", "scan-cache", "env", "version")),
    "cargo": _one_of("check", "build", "test", "run", "clippy", "bench", "doc", "fmt", "b", "t", "r", "c"),
    "go": _one_of("run", "test", "vet", "build", "list", "fmt", "mod", "tool"),
    "jupyter": _jupyter_runs,
    "openssl": lambda arguments: _first(arguments) not in ("s_client", "s_server", "ocsp"),
    "rsync": lambda arguments: not any(":" in (word or ":") for word in _operands(arguments)),
    "dvc": _one_of("status", "dag", "repro", "params", "metrics", "diff"),
    **dict.fromkeys(
        ("hostname", "date", "sysctl", "timedatectl", "hostnamectl"), lambda _arguments: False
    ),  # they set the machine's
}
"""Programs that need more than a sandbox has for most of their uses, with what tells the other uses."""

_MAKES: Mapping[str, Callable[[Arguments], bool]] = {
    **dict.fromkeys(("python", "python3"), lambda arguments: _module(arguments) in ("venv", "virtualenv", "build")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), lambda arguments: "build" in _operands(arguments)),
    **dict.fromkeys(
        ("sqlite3", "duckdb"), lambda arguments: _SQL_WRITES.search(" ".join(_known(arguments))) is not None
    ),
    "cargo": lambda _arguments: True,
    "go": _one_of("build", "fmt"),
    "jupyter": _one_of("nbconvert", "trust"),
    "openssl": _any("-(out|keyout|CAcreateserial).*"),
    "tsc": lambda arguments: not _any("--noEmit")(arguments),
    "prettier": _any("--write|-w"),
    **dict.fromkeys(("autopep8", "yapf", "autoflake"), _any("-[A-Za-z]*i[A-Za-z]*|--in-place")),
    "magick": lambda arguments: _first(arguments) != "identify",
    "rsync": lambda arguments: not _any(r"-[A-Za-z]*n[A-Za-z]*|--dry-run|--list-only")(arguments),
    "dvc": _one_of("repro"),
    "make": lambda arguments: not _operands(arguments) or _first(arguments) not in ("test", "check", "lint", "help"),
    # they print, ask or replace the shell
    **dict.fromkeys(("printenv", "top", "ncdu", "exec"), lambda _arguments: False),
}
"""Programs that make files in some of their uses, with what tells these; the others are in `MAKERS`."""


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


def made_protected(program: str, arguments: Sequence[str]) -> str:
    """The protected name that `program` makes or changes with `arguments`; "" if none is known."""
    valued = GLOBAL_WITH_VALUE if program == "git" else frozenset[str]()
    words = [
        word
        for before, word in zip(("", *arguments), arguments, strict=False)
        if word and not word.startswith("-") and before not in valued
    ]
    first = words[0] if words else ""
    match program:
        case "git" if first in _GIT_MAKES or (first == "remote" and words[1:2] and words[1] in _REMOTE):
            return ".git"
        case "npm" | "pnpm" | "bun" if first in _INSTALLS_HOOKS:
            return "node_modules/.bin"
        case "yarn" if first in _INSTALLS_HOOKS | {""} and "--version" not in arguments:
            return "node_modules/.bin"
        case "virtualenv":
            return "pyvenv.cfg"
        case "uv" if first in ("venv", "sync"):
            return "pyvenv.cfg"
        case _ if program.startswith("python") and list(arguments[:2]) == ["-m", "venv"]:
            return "pyvenv.cfg"
        case _:
            return ""
