"""Commands of everyday work: what only reads, and what has to be asked for whoever confines it.

A line is a command. They are what people who analyse data, teach, train models and program give a shell all day.
"""

from __future__ import annotations

READING = r"""
ls -la
ls -lhS data | head -20
ls -1 *.csv | wc -l
ls -lt --time-style=long-iso src
ls -d */
pwd && ls
tree -L 2 -I node_modules
tree -a --du -h src
du -sh .
du -sh * | sort -rh | head
du -ah --max-depth=1 . | sort -h | tail -n 20
df -h .
df -ih
stat -c '%n %s %y' src/a.py
file data/*
file -b --mime-type notes.txt
find . -name '*.py' | wc -l
find . -type f -name '*.csv' -size +1M -exec ls -lh {} +
find . -name '*.py' -exec wc -l {} +
find . -name '*.ipynb' -not -path '*/.ipynb_checkpoints/*' -print0 | xargs -0 ls -la
find . -mtime -1 -type f -printf '%T@ %p\n' | sort -n | tail
find src -name '*.py' -newer README.md
find . -type d -empty
find . -name '*.py' -exec grep -ln 'import pandas' {} \;
find . -name '*.log' -exec sh -c 'echo "$1: $(wc -l < "$1")"' _ {} \;
find . -maxdepth 1 -type f | while read -r f; do echo "$f $(stat -c %s "$f")"; done
for f in *.csv; do echo "$f"; done
for f in *.csv; do echo "$f: $(wc -l < "$f")"; done
for f in data/*.csv; do head -1 "$f"; done | sort | uniq -c
for i in {1..5}; do echo "$i"; done
for i in $(seq 1 10); do printf '%02d\n' "$i"; done
for d in */; do echo "$d $(ls "$d" | wc -l)"; done
for f in $(git ls-files '*.py'); do grep -c def "$f"; done
while read -r line; do echo "${line%%,*}"; done < data/train.csv
while IFS=, read -r a b rest; do echo "$b"; done < data/train.csv
if [ -f setup.cfg ]; then cat setup.cfg; else echo none; fi
if [[ -d src && ! -f missing ]]; then ls src; fi
[ -d .git ] && echo repo || echo none
test -f pyproject.toml && grep -A5 '\[project\]' pyproject.toml
case "$(uname)" in Linux) cat /etc/os-release;; *) sw_vers;; esac
n=0; for f in *.py; do n=$((n+1)); done; echo $n
count=$(find . -name '*.py' | wc -l); echo "files: $count"
total=0; while read -r s; do total=$((total + s)); done < <(find . -type f -printf '%s\n'); echo $total
cat notes.txt
cat -A notes.txt | head
cat src/*.py | wc -l
head -n 50 src/a.py
head -5 data/train.csv | column -t -s,
tail -n 100 logs/app.log
tail -f -n 20 logs/app.log | head -3
tail -n +2 data/train.csv | cut -d, -f3 | sort | uniq -c | sort -rn | head
sed -n '10,40p' src/a.py
sed 's/a/b/' notes.txt
sed -e 's/foo/bar/g' -e '/^#/d' notes.txt
sed -E 's/([0-9]+),([0-9]+)/\2 \1/' data/train.csv | head
sed '1d;$d' data/train.csv
sed -n '/def main/,/^$/p' src/a.py
awk '{print $1}' notes.txt
awk -F, '{s+=$3} END {print s/NR}' data/train.csv
awk -F, 'NR>1 {count[$2]++} END {for (k in count) print k, count[k]}' data/train.csv
awk -F'\t' '{ if ($3 > 0.5) print $1 "\t" $3 }' scores.tsv
awk 'NR%100==0' data/train.csv
awk 'length > 100 {print FILENAME": "FNR": "length}' src/*.py
awk 'BEGIN {srand(1)} {if (rand() < 0.01) print}' data/train.csv
awk -v min=10 '$2 >= min {printf "%s %.2f\n", $1, $2}' scores.tsv
awk '!seen[$0]++' notes.txt
awk '/error/{n++} END{print n+0}' logs/app.log
gawk 'match($0, /id=([0-9]+)/, m) {print m[1]}' logs/app.log
cut -d, -f1,3 data/train.csv | head
paste -d, a.txt b.txt
join -t, a.csv b.csv
comm -12 <(sort a.txt) <(sort b.txt)
diff -u a.txt b.txt
diff -r src src2
diff <(head -1 a.csv | tr , '\n') <(head -1 b.csv | tr , '\n')
cmp a.bin b.bin
sort -t, -k3,3nr data/train.csv | head -n 10
sort -u notes.txt | wc -l
uniq -c notes.txt
tr ',' '\t' < data/train.csv | head
tr -d '\r' < notes.txt | wc -c
tr '[:upper:]' '[:lower:]' < notes.txt | grep -oE '\w+' | sort | uniq -c | sort -rn | head -25
rev notes.txt
tac notes.txt | head
nl -ba src/a.py
fold -w 80 -s notes.txt
fmt -w 72 notes.txt
column -s, -t < data/train.csv | less -S
shuf -n 5 data/train.csv
seq 1 3 | paste -sd+ | bc
echo "scale=3; 10/3" | bc -l
echo $((2**20))
echo "$HOME" "$USER"
echo ${PATH//:/ }
echo "${files[@]}"
printf '%s\n' *.py
printf '%.2f\n' 3.14159
numfmt --to=iec 123456789
od -c notes.txt | head
xxd data/model.bin | head
xxd -l 64 -p data/model.bin
hexdump -C data/model.bin | head -n 20
strings data/model.bin | grep -i version
base64 notes.txt | head -c 100
echo aGVsbG8= | base64 -d
md5sum data/*.csv
sha256sum -c checksums.txt
cksum notes.txt
wc -lwc notes.txt src/*.py
grep -rn "TODO" src
grep -rn --include='*.py' 'import numpy' .
grep -rIl "pandas" . | head
grep -c '' data/train.csv
grep -v '^#' notes.txt | grep -v '^$'
grep -E 'loss: [0-9.]+' logs/train.log | tail -20
grep -oP '(?<=val_acc=)[0-9.]+' logs/train.log | sort -n | tail -1
grep -n 'def ' src/a.py | cut -d: -f1
zgrep error logs/app.log.gz | head
rg -n 'class \w+Error' src
rg --files | rg '\.py$' | xargs wc -l | sort -n
rg -tpy 'def test_' -c
ag foo src
fd -e py
grep -q main src/a.py && echo yes
ls | xargs -n1 basename
ls *.csv | xargs -I{} sh -c 'echo {} $(head -1 {} | tr , "\n" | wc -l)'
git ls-files | xargs wc -l
find . -name '*.csv' | xargs -P4 md5sum
cat files.txt | xargs -d '\n' stat -c '%s %n'
jq . data/config.json
jq -r '.items[] | [.id, .name] | @tsv' data/config.json
jq '.cells | map(.cell_type) | group_by(.) | map({(.[0]): length}) | add' nb.ipynb
jq -r '.cells[] | select(.cell_type == "code") | .source | join("")' nb.ipynb
jq -s 'map(.loss) | add / length' logs/metrics.jsonl
jq -c 'select(.level == "ERROR") | {ts, msg}' logs/app.jsonl | head
jq --arg k name '.[$k]' data/config.json
jq 'keys' package.json
cat package.json | jq .scripts
yq '.services | keys' compose.yaml
xmllint --xpath '//item/title/text()' feed.xml
xmllint --format feed.xml | head -40
csvcut -n data/train.csv
csvstat data/train.csv
csvlook data/train.csv | head
csvgrep -c 2 -m foo data/train.csv | csvcut -c 1,3
mlr --icsv --opprint stats1 -a mean,p50 -f price data/train.csv
xsv stats data/train.csv
sqlite3 data/app.db '.tables'
sqlite3 data/app.db '.schema users'
sqlite3 -header -csv data/app.db 'select count(*) from users where age > 3'
duckdb -c "select count(*) from 'data/train.csv'"
tar tzf archive.tar.gz
tar -tvf archive.tar | head
tar xzf archive.tar.gz -O README.md | head
tar --list --file=archive.tar.xz
tar cf - src | wc -c
unzip -l archive.zip
unzip -p archive.zip inner/data.csv | head
zipinfo archive.zip
zcat data.csv.gz | head -3
gzip -l data.csv.gz
gunzip -c data.csv.gz | wc -l
xzcat data.csv.xz | head
zstd -dc data.csv.zst | head -5
7z l archive.7z
identify images/*.png
identify -format '%f %wx%h\n' images/*.jpg
exiftool images/photo.jpg
ffprobe -v error -show_format video.mp4
pdfinfo paper.pdf
pdftotext -layout paper.pdf - | head -100
pdffonts paper.pdf
soxi audio.wav
mediainfo video.mp4
pandoc notes.md -t plain | head
pandoc paper.docx -t markdown | wc -w
h5ls -r model.h5
ncdump -h climate.nc
jupyter --version
jupyter --paths
jupyter kernelspec list
jupyter labextension list
jupyter nbconvert --to script --stdout nb.ipynb | head -50
nbdiff a.ipynb b.ipynb
jupytext --to py:percent -o - nb.ipynb
python --version
python3 -V
python -m json.tool data/config.json
python -m pip list
python -m platform
which python python3 pip
type -a python
command -v node
whereis gcc
pip list
pip list --format=freeze | grep -i torch
pip show numpy pandas
pip freeze
pip freeze | grep -i scikit
pip --version
pip check
pip config list
pip3 list | wc -l
uv pip list
uv --version
conda list
conda list | grep -i numpy
conda env list
conda info --envs
conda --version
mamba list
poetry show --tree
pyenv versions
node --version
npm --version
npm ls --depth=0
npm list react
npm config get prefix
npm run
yarn --version
pnpm list
cargo --version
cargo tree --offline
rustc --version
rustup show
go version
go env GOPATH
java -version
javac -version
gcc --version
cmake --version
make -n
make --version
R --version
julia --version
docker --version
git --version
tsc --version
ruff --version
ruff check --no-cache src
ruff rule E501
black --check --diff src
shellcheck scripts/*.sh
ps aux
ps aux --sort=-%mem | head -15
ps -ef | grep python
ps -o pid,ppid,cmd -p 1
pgrep -fl jupyter
top -bn1 | head -20
free -h
uptime
uname -a
nproc
lscpu | grep -i model
cat /proc/cpuinfo | grep 'model name' | uniq
cat /proc/meminfo | head -5
cat /etc/os-release
vmstat 1 2
whoami
id
groups
hostname
date
date -u +%Y-%m-%dT%H:%M:%SZ
date -d '3 days ago' +%F
cal
locale
ulimit -a
getconf _NPROCESSORS_ONLN
lsof -p 1
time ls -R . | wc -l
timeout 10 grep -rn needle .
nice -n 10 find . -name '*.pyc'
env LC_ALL=C sort notes.txt
LC_ALL=C sort notes.txt | uniq -d
printenv PATH
echo $CONDA_DEFAULT_ENV $VIRTUAL_ENV
git status
git status -sb
git log --oneline -20
git log -p -3 -- src/a.py
git log --since='2 weeks ago' --pretty=format:'%h %an %s' --stat
git log -p -S'needle' --pickaxe-regex --all
git log --graph --decorate --oneline --all | head -40
git log --format='%an' | sort | uniq -c | sort -rn
git log -L '/def main/,+10:src/a.py'
git diff
git diff HEAD~3 --stat
git diff --word-diff main...feature
git diff --cached --name-only
git -c color.ui=always diff | head -100
git show HEAD
git show HEAD:src/a.py | head
git blame -w -C src/a.py
git branch -a
git branch --show-current
git branch -vv --sort=-committerdate
git branch --contains HEAD
git tag -l 'v*'
git tag --sort=-creatordate | head
git remote -v
git stash list
git stash show -p
git rev-parse HEAD
git rev-list --count HEAD
git ls-files | grep '\.py$'
git ls-tree -r --name-only HEAD
git shortlog -sn
git describe --tags --always
git grep -n 'TODO' -- '*.py'
git reflog -10
git config --get user.email
git config --list
git merge-base main HEAD
git for-each-ref --sort=-committerdate --format='%(refname:short)' refs/heads
git cat-file -p HEAD
git check-ignore -v data/train.csv
git worktree list
git submodule status
git count-objects -vH
git -C src log -3
git --no-pager log -3 --name-status
git archive HEAD | tar t
cat src/a.py | sed -n '1,5p' | tr a-z A-Z
cat <<'EOF' | sort -u
b
a
EOF
wc -l $(git ls-files '*.py')
wc -l $(find . -name '*.py' -not -path './.venv/*') | tail -1
ls -la && git status && head -20 README.md
cd src && ls -la && wc -l *.py
(cd data && ls | head)
{ echo header; tail -n +2 data/train.csv; } | head -3
cat missing.txt 2>/dev/null || echo "not there"
ls nowhere 2>&1 | head -1
grep -rn foo src >/dev/null && echo found
set -o pipefail; zcat data.csv.gz | head -1 | tr , '\n' | nl
shopt -s globstar; wc -l **/*.py
f() { wc -l "$1"; }; f src/a.py; f README.md
arr=(a b c); echo "${arr[1]}"
x=$(cat VERSION); echo "v${x#v}"
bash -c 'for f in *.csv; do wc -l "$f"; done'
diff3 a.txt b.txt c.txt
basename "$(pwd)"
realpath src/../notes.txt
readlink -f link-in
mktemp
nm -C build/libx.so | head
objdump -d build/x.o | head -30
ldd /usr/bin/git
size build/x.o
man ls | head -20
openssl x509 -in cert.pem -noout -text
openssl version
iconv -f latin1 -t utf-8 notes.txt | head
expr 3 + 4
factor 1234567
yes | head -3
tee /dev/null < notes.txt
dd if=data/model.bin bs=1 count=16 | xxd
sleep 1; date
true && echo ok
tput cols
nvidia-smi
nvidia-smi --query-gpu=memory.used --format=csv
ip addr
ss -tlnp
crontab -l
systemctl status ssh
"""
"""Commands that only read; the last few are asked for: what they show is not in the sandbox."""

ASKING = r"""
rm notes.txt
rm -rf build
find . -name '*.pyc' -delete
find . -name '*.tmp' -exec rm {} \;
find . -name '*.py' | xargs rm
mv a.txt b.txt
cp a.txt b.txt
mkdir -p out/x
touch new.txt
ln -s a b
chmod +x run.sh
chown ada notes.txt
sed -i 's/a/b/' notes.txt
sort -o notes.txt notes.txt
echo x > out.txt
echo x >> notes.txt
cat a.txt b.txt > both.txt
grep foo notes.txt | tee out.txt
jq . a.json > b.json
awk '{print}' a > b
for f in *.csv; do head -1 "$f" > "$f.head"; done
tar czf out.tgz src
tar xzf archive.tar.gz
unzip archive.zip
gzip data.csv
gunzip data.csv.gz
pdftotext paper.pdf
convert a.png b.jpg
split -l 100 data.csv
truncate -s 0 notes.txt
dd if=/dev/zero of=x bs=1M count=1
patch -p1 < fix.diff
curl https://example.com
wget https://example.com/x.csv
ping -c 1 example.com
dig example.com
nc -l 8000
ssh host ls
scp a host:b
rsync -a src/ host:src/
pip install requests
pip download numpy
pip list --outdated
pip uninstall numpy
conda install numpy
conda create -n x
uv add requests
uv sync
poetry install
npm install
npm run build
yarn add react
cargo build
cargo run
make
cmake --build build
docker ps
docker run -it ubuntu
kubectl get pods
python -m http.server
sh -c 'rm x'
kill 123
pkill -f jupyter
killall python
sudo ls
su - ada
cat /proc/self/environ
cat /proc/1/environ
vim notes.txt
nano notes.txt
emacs notes.txt
code .
crontab -e
systemctl restart ssh
git add .
git commit -m x
git push
git pull
git fetch
git checkout main
git switch -c x
git reset --hard
git stash
git stash pop
git merge main
git rebase main
git clone https://example.com/x
git clean -fd
git branch -D x
git tag v1
git config user.name x
git remote add x y
git log --output=x
git -c core.pager='sh -c id' log
git diff --ext-diff
git submodule update --init
jupyter lab
jupyter nbconvert --to html nb.ipynb
jupyter nbconvert --execute --to notebook --stdout nb.ipynb
black src
ruff check --fix src
isort src
mlflow ui
tensorboard --logdir x
sqlite3 data/app.db 'delete from users'
sqlite3 data/app.db 'select 1' '.output x'
mysql -e 'select 1'
psql -c 'select 1'
aws s3 ls
gh pr list
gcloud auth list
hf download x
at now
nohup python x.py &
xargs rm < files.txt
time make
cat ~/outside.txt
cat ../outside/data.csv
cat link-out/data.csv
head {home}/outside/data.csv
cat < /dev/tcp/example.com/80
"""
"""Commands that write, reach out, or need other processes and rights."""

TRIED = r"""
npm test
npx create-react-app x
go run main.go
go test ./...
make test
python x.py
python -c 'print(1)'
python -m pytest
python - <<'EOF'
import os
EOF
pytest -q
node x.js
node -e '1'
Rscript x.R
julia x.jl
perl -e 'print 1'
ruby x.rb
./run.sh
bash run.sh
echo ls | bash
source .env
. ./env.sh
eval "$(cat x)"
env
printenv
export
declare -p
history
PATH=. ls
LD_PRELOAD=./x.so ls
GIT_EXTERNAL_DIFF=./x git diff
env PATH=. ls
timeout 5 python x.py
$CMD x
x=rm; $x notes.txt
"""
"""Commands that may do anything: a sandbox tries them without the means to."""


ANALYSIS = r"""
ls -la data
head -5 data/train.csv
wc -l data/*.csv
du -sh data
df -h .
file data/train.csv
cat pyproject.toml
sed -n '1,40p' src/shop/prices.py
grep -rn "def " src
git status --short
git log --oneline -10
git diff
git show --stat HEAD
git branch -a
git blame src/shop/prices.py
jq '.cells | length' nb.ipynb
jq -r '.cells[].source[]' nb.ipynb | head -20
sqlite3 data/app.db 'select count(*) from items'
sqlite3 -header data/app.db '.schema'
duckdb -c "select count(*) from 'data/train.csv'"
pip list
pip show pandas
pip list --format=freeze | grep -i pandas
python --version
which python
conda list
nvidia-smi
env | sort | head -20
printenv PATH
awk -F, '{s+=$2} END {print s}' data/train.csv
cut -d, -f1 data/train.csv | sort | uniq -c
find . -name '*.ipynb'
jupyter nbconvert --to script --stdout nb.ipynb
jupyter kernelspec list
python -c "import pandas as pd; print(pd.read_csv('data/train.csv').head())"
python -c "import pandas as pd; print(pd.read_csv('data/train.csv').describe().to_string())"
python -c "import pandas as pd; df = pd.read_csv('data/train.csv'); print(df.groupby('kind').price.mean())"
python -c "import pandas as pd; print(pd.read_parquet('data/train.parquet').dtypes)"
python -c "import pyarrow.parquet as pq; print(pq.read_schema('data/train.parquet'))"
python -c "import polars as pl; print(pl.read_csv('data/train.csv').null_count())"
python -c "import duckdb; print(duckdb.sql(\"select kind, avg(price) from 'data/train.csv' group by 1\"))"
python -c "import sqlite3; print(sqlite3.connect('data/app.db').execute('select * from items').fetchall())"
python -c "import json; print(len(json.load(open('nb.ipynb'))['cells']))"
python -c "import numpy as np; print(np.__version__, np.arange(6).reshape(2, 3).sum())"
python -c "import sys; print(sys.version, sys.prefix)"
python -c "import os; print(os.cpu_count())"
python -c "import shop; print(shop.__file__)" 2>&1 | tail -1
python -c "import torch; print(torch.cuda.is_available())"
python -c "import sklearn; print(sklearn.__version__)"
python -c "import matplotlib; print(matplotlib.get_backend())"
python -c "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as plt; plt.plot([1]); print('drawn')"
python -c "import tempfile; open(tempfile.mktemp(), 'w').write('x'); print('ok')"
python -c "import multiprocessing as mp; print(mp.Pool(2).map(abs, [-1, 2]))"
python -c "import subprocess; print(subprocess.run(['ls'], capture_output=True, text=True).stdout)"
python -c "from pathlib import Path; print(sum(p.stat().st_size for p in Path('data').iterdir()))"
python -c "import ast; print(ast.dump(ast.parse(open('src/shop/prices.py').read()))[:200])"
python -c "import importlib.metadata as m; print(m.version('pandas'))"
python - <<'EOF'
import pandas as pd
df = pd.read_csv('data/train.csv')
print(df.isna().sum())
EOF
python3 - <<'EOF'
import csv
with open('data/train.csv') as file:
    print(max(float(row['price']) for row in csv.DictReader(file)))
EOF
cat <<'EOF' | python -
print(1 + 1)
EOF
echo 'print(2 ** 10)' | python
python summary.py
python summary.py data/train.csv --by kind
python summary.py | head -3
python3 summary.py 2>&1 | tail -5
time python summary.py
timeout 60 python summary.py
(cd data && python ../summary.py train.csv)
PYTHONPATH=src python -c "import shop.prices as p; print(p.total([1, 2]))"
python -m json.tool nb.ipynb
python -m pytest --collect-only -q
python -m timeit "sum(range(100))"
python -m pip check || true
python -X importtime -c "import json" 2>&1 | tail -3
python -W error -c "print('ok')"
python -m site
python -m pydoc json | head -20
python -m pip list | head
PYTHONPATH=src python -m doctest src/shop/prices.py
pytest --collect-only -q
pytest -q
pytest -x tests/
pytest -q tests/test_prices.py::test_total
pytest -q 2>&1 | tail -20
pytest -q -k total --tb=short
pytest --version
mypy src
python -m mypy src
ruff check src
ruff format --check src
ruff check src --output-format=json
node -e "console.log(1 + 1)"
node summary.js
perl -ne 'print if /chair/' data/train.csv
bash count.sh
./count.sh
bash -c 'for f in data/*.csv; do wc -l "$f"; done'
for f in data/*.csv; do python -c "import sys; print(sys.argv[1])" "$f"; done
make test
npm test
"""
"""Commands that only read, of an agent that helps a data scientist."""

CHANGING = r"""
mkdir -p out/plots
touch src/shop/__init__.py
cp data/train.csv out/copy.csv
mv out/copy.csv out/moved.csv
rm out/moved.csv
rm -rf out/plots
ln -s ../data/train.csv out/link.csv
chmod +x summary.py
sed -i 's/total/sum_of/' notes.md
sed -i.bak -e '1d' notes.md
echo "# Notes" > notes2.md
cat notes.md notes2.md > all.md
printf 'x\n' >> notes2.md
head -3 data/train.csv > out/head.csv
jq '.metadata = {}' nb.ipynb > out/nb.ipynb
cut -d, -f1 data/train.csv | sort -u > out/kinds.txt
tee out/tee.txt < notes2.md
tar czf out/data.tgz data
tar xzf out/data.tgz -C out
gzip -k out/kinds.txt
unzip -o data/archive.zip -d out
zip -q out/src.zip -r src
patch -p0 < fix.diff
split -l 2 data/train.csv out/part-
python summary.py > out/summary.txt
python train.py
python train.py --out out/model2.json
python train.py 2>&1 | tee out/train.log
python -c "import pandas as pd; pd.read_csv('data/train.csv').to_parquet('out/train.parquet')"
python -c "import matplotlib; matplotlib.use('Agg'); from matplotlib import pyplot as p; p.plot([1]); p.savefig('out/p.png')"
python - <<'EOF'
from pathlib import Path
Path('out/made.txt').write_text('x')
EOF
sqlite3 data/app.db "insert into items values (9, 'lamp')"
duckdb -c "copy (select 1) to 'out/one.csv'"
pytest -q
pytest --junitxml=out/report.xml
pytest -q --cov=src --cov-report=term
ruff check --fix src
ruff format src
black .
isort src
make
make clean
npm run build
jupyter nbconvert --to script nb.ipynb
jupyter nbconvert --to html --output-dir out nb.ipynb
jupyter nbconvert --execute --inplace nb.ipynb
git add -A
git commit -m "Add a summary"
pip install requests
git checkout -b feature
"""
"""Commands of the same agent that change things; the last need sockets, the network or the repository's data."""


def _commands(text: str) -> tuple[str, ...]:
    """Split `text` into commands; a here-document goes to its end."""
    found: list[str] = []
    lines = iter(text.strip().splitlines())
    for line in lines:
        command = line
        if "<<'EOF'" in line:
            for more in lines:
                command += f"\n{more}"
                if more == "EOF":
                    break
        found.append(command)
    return tuple(found)


def reading() -> tuple[str, ...]:
    """The everyday commands that only read."""
    return _commands(READING)


def asking() -> tuple[str, ...]:
    """The commands that are asked for in mode default, confined or not."""
    return _commands(ASKING)


def tried() -> tuple[str, ...]:
    """The commands that are tried in a sandbox, and asked about without one."""
    return _commands(TRIED)


def analysis() -> tuple[str, ...]:
    """The commands that only read, of a data scientist's agent."""
    return _commands(ANALYSIS)


def changing() -> tuple[str, ...]:
    """The commands of that agent that change things, in an order that makes sense."""
    return _commands(CHANGING)
