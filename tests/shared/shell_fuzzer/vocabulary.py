"""Words and phrases that generated commands are made of: files, options, scripts, what stands before and behind programs.

Entries stand on lines of text, two blanks apart; in a table each program begins a line, and further lines are indented.
`{PROJECT}` and `{OUTSIDE}` stand for folders of the world, which have other names each time. ODD names what is seldom,
wrong, or must not pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def _words(text: str) -> Sequence[str]:
    return tuple(re.split(r"  +|\s*\n\s*", text.strip()))


def _table(text: str) -> Mapping[str, Sequence[str]]:
    rows = re.split(r"\n    (?=\S)", text.strip())
    return {name: _words(rest) for name, _, rest in (row.partition(":  ") for row in rows)}


FILES = _words(
    r"""
    README.md  notes.txt  nums.txt  data.csv  x.json  b.txt  src/main.py  src/deep/mod.py  names  sub/notes.txt
    sub/deep/more.txt  log.gz  names0  sums.md5  src/../notes.txt  ./notes.txt  one.bin  {PROJECT}/notes.txt
    link-in/main.py  sub/deep/../notes.txt  ~/project/notes.txt  $PWD/notes.txt
"""
)
ODD_FILES = _words(
    r"""
    'a b.txt'  "a b.txt"  a\ b.txt  '[ab].txt'  [ab].txt  \[ab].txt  a\*b  'a*b'  "quote'.txt"  $'new\nline.txt'
    ./-rf  -- -rf  '~'  \~  ./~  "$HOME"  '$HOME'  \$HOME  café.txt  ./--output=made  program.awk  program.sed
    magic  loop  made  ls  run.sh  -  ''  .  ..  src  sub/deep
"""
)
HIDDEN_FILES = _words(
    r"""
    .env  sub/.env  node_modules/pkg/.env  .venv/.env  secrets/key.pem  secrets/deep/token.txt  link-env
    src/cert.pem  private/plan.txt  link-secrets/key.pem  ./.env  .e'n'v  .en\v  sub/../.env  secrets  private  .e?v
    .[e]nv  .[!x]nv  .*  s*/.env  */.env  .{env,x}  src/../.env  s?crets/*  secrets/**  *.pem  .["e"]nv  .['e'x]nv
    .[\e]nv  .[[:alpha:]]nv  link-secrets/*  {PROJECT}/.env  ~/project/.env
"""
)
OUTSIDE_FILES = _words(
    r"""
    {OUTSIDE}/secret.txt  ../../../outside/secret.txt  link-out/secret.txt  link-file  link-home/id_rsa
    ~/.ssh/id_rsa  ~/notes.txt  ../notes.txt  ../.env  ~+/../notes.txt  ~-/notes.txt  ~ada/notes.txt  ~root/.bashrc
    sub/up/notes.txt  link-out  link-home  sub/up  sub/deep/root/etc/fstab  src/out/notes.txt  /etc/fstab
    /etc/shadow  /proc/self/environ  /proc/$PPID/environ  /  ~  ~/  ..  ../project-evil/notes.txt
    link-out/../notes.txt  a=~/.ssh/id_rsa
    x:~/.ssh/id_rsa  a=~/notes.txt  a={OUTSIDE}/secret.txt  $HOME/notes.txt  ${HOME}/notes.txt  $HOME/.ssh/id_rsa
    "$HOME"/notes.txt  link-*/secret.txt  l[i]nk-file  link-f?le  */secret.txt  ../*/notes.txt
    link-["o"]ut/secret.txt  ["l"]ink-file  ['l'm]ink-file  [\l]ink-file  [!a]ink-file  {link-file,notes.txt}
    {notes.txt,../notes.txt}  link-in/../../notes.txt  link-in/../notes.txt  sub/deep/../../../notes.txt  *  link-*
    l*/*  *file  @(link-file)  $'link-file'  $"link-file"  link-out/*  ~/.s*/*  sub/*/notes.txt  */../notes.txt
    src/out/../main.py  link-out/sub/../names  file://localhost/etc/fstab  @link-file  ~/../ada/notes.txt
    ''~/notes.txt  \~/notes.txt  "~"/notes.txt  ~/''notes.txt  ~''/notes.txt  sub/deep/root/*  a=/etc/fstab
    $OLDPWD/notes.txt
"""
)
FOLDERS = _words(
    r"""
    src  sub  src/deep  sub/deep  .  ./src  link-in  node_modules  src/../sub  "$PWD"  {PROJECT}
"""
)
ODD_FOLDERS = _words(
    r"""
    ..  ~  -  link-out  link-home  sub/up  sub/deep/root  a=  secrets  .git  /  ../..  {OUTSIDE}  $HOME  src/..
    link-in/..  link-out/..  nowhere  nowhere/..  ''  s*  -P link-in  -P sub/up/..  -L src  -- src  -e src  --  ~+
    ~-  sub/deep/..  loop  src src  +1  private
"""
)
PATTERNS = _words(
    r"""
    one  't.*o'  -e one  -- one  '^[a-z]'  x  "one two"  CANARY  ''  -one  '[[:alpha:]]'  A
"""
)
TEXTS = _words(
    r"""
    x  'a b'  "$HOME"  -n  ~/notes.txt  a=~  %s  '%s\n'  *  $(pwd)  -e  --  {a,b}  \*  $?  1
"""
)
NUMBERS = _words(
    r"""
    1  2  0  +2  -1  10  1k  '3'  ~  x
"""
)
REVISIONS = _words(
    r"""
    HEAD  HEAD~1  main  v1  HEAD:notes.txt  HEAD:.env  HEAD~1..HEAD  other  :notes.txt  HEAD^{tree}  :/F
"""
)
DANGEROUS = _table(
    r"""
    sort:  -o made  --output=made  -omade  --compress-program=./run.sh  --files0-from=names0  -T link-out  -S 1
    uniq:  notes.txt made  -- notes.txt made  -c - made
    grep:  -R  -f names  -d recurse  --include=* -r  -r  --directories=recurse  -nr  --dereference-recursive
    ls:  -R  -LR  --dired  -laR  -L  -H
    wc:  --files0-from=names0  --files0-from names0
    du:  --files0-from=names0  -L  -X names  -D  -aL  --exclude-from=names
    find:  -L .  -exec cat {} +  -delete  -fprint made  -files0-from names0  -follow  -fls made  -ok cat {} ;
    file:  -f names  -m magic  -C -m magic  --files-from=names  -z  -L
    date:  -f names  -s 1  -r link-file  --file=names  --set=1
    diff:  --from-file=notes.txt  --to-file=link-file  -r . link-out  -r src sub  --exclude-from=names  -X names  -N
    shuf:  -o made  --output=made  --random-source=link-file  -e a b
    tail:  -f  -F  --follow=name  --pid=1 -f
    md5sum:  -c sums.md5  --check sums.md5  -wc sums.md5
    sha256sum:  -c sums.md5  --check
    cksum:  -a md5 -c sums.md5  --check sums.md5
    od:  --traditional  -S 3
    hexdump:  -f names  -e '1/1 "%c"'
    base64:  -i  --ignore-garbage
    column:  -J  --json
    stat:  -L  -c %n  --printf=%n
    realpath:  --relative-to=..  -m  --relative-base=/
    join:  -t, data.csv data.csv  --check-order
    comm:  notes.txt nums.txt
    jq:  -f names  . -f names  --slurpfile a names  --rawfile a .env  --rawfile a link-file  -L link-out  -n env
    sed:  -i s/a/b/  -n w\ made  -f program.sed  -n 'r link-file'  '1e cat link-file'  -s  --in-place=x p
        s/a/b/w\ made
    awk:  -f program.awk  'BEGIN{system("./run.sh")}'  '{print > "made"}'  -v a=~/x  '{getline x < "link-file"}'
        -E program.awk
    hostname:  -F names  x  -f
    whereis:  -B . -f ls  -l
    tree:  -o made  --fromfile names
    rg:  --pre=./run.sh  -L  --hostname-bin=./run.sh  -z  --ignore-file=names  -f names
    command:  -v ls  cat link-file  -p ls  ls
    test:  -v 'a[$(./run.sh)]'  -t 1  -e link-file
    printf:  -v x a  '%n' x  '%(%Y)T'  %s ~/x
    type:  -a ls  ls
    pwd:  -P  x
"""
)
DANGEROUS_GIT = _words(
    r"""
    --output=made  --output made  --ext-diff  --textconv  -O./run.sh  --no-index  --show-signature  --paginate
    -Onames  --open-files-in-pager=./run.sh  --exec=./run.sh  --contents=link-file  --contents link-file  --stdin
    --ignore-revs-file=names  -S names  --pathspec-from-file=names  --exclude-from=names  -X names  -f names
    --exclude-per-directory=names  --file=names  --file link-file  -f link-file  --blob=HEAD:x  --edit  --batch
    --filters  --submodule=log  --submodule  --recurse-submodules  --update  --mailmap  --use-mailmap  --unset x.y
    --no-index link-file notes.txt  --no-index notes.txt ../notes.txt  -d v1  -D side  -m x  --parseopt  --sq-quote
    --git-path x  --resolve-git-dir ../other/.git  --work-tree=..  --config-env=a.b=HOME  --format='%G?'
    --format=%h
"""
)
BEFORE_GIT = _words(
    r"""
    -C src  -C ..  -C link-out  -c core.fsmonitor=./run.sh  -c core.pager=./less  -p  --paginate  --no-pager
    --git-dir=../other/.git  --git-dir=.git  --work-tree=..  --exec-path=.  --bare  -c alias.log='!./run.sh' log
    --no-pager  --namespace=x  --literal-pathspecs  --no-optional-locks  -P  --no-replace-objects
    -c color.ui=always
"""
)
PLAIN_ASSIGNMENTS = _words(
    r"""
    LANG=C  LC_ALL=C  TZ=UTC  NO_COLOR=1  LC_ALL=C  COLUMNS=80  CI=1
"""
)
ODD_ASSIGNMENTS = _words(
    r"""
    PATH=.:$PATH  PATH=.  a=~/x  IFS=x    GIT_PAGER=./less  PAGER=./less  GIT_EXTERNAL_DIFF=./run.sh
    BASH_ENV=./run.sh  HOME=.  TZ=../../link-file    GIT_DIR=x  LANG=../x  CDPATH=..  CDPATH=~ cd  TZ=:~/x
    NODE_ENV=~/x  a+=~  LESSOPEN=x  LC_ALL=$(./run.sh)    LANG=~  _=x
"""
)
PLAIN_WRAPPERS = _words(
    r"""
    timeout 2  timeout -k 1 2  nice  nice -n 5  time  time -p  nohup  stdbuf -oL  command  env  builtin
"""
)
ODD_WRAPPERS = _words(
    r"""
    xargs    xargs -n1  xargs -a names  exec  !  env -i  timeout --foreground 2  nice -5  command --  sudo  eval
    time --    xargs -I{}  xargs -0  stdbuf -o 0  setsid  bash -c  timeout -s KILL 2  nohup --  command -p  coproc
"""
)
PLAIN_REDIRECTS = _words(
    r"""
    2>/dev/null  2>&1  >/dev/null  < notes.txt  <notes.txt  2>&1 >/dev/null  < sub/notes.txt  <<< text  </dev/null
"""
)
ODD_REDIRECTS = _words(
    r"""
    > made  >> notes.txt  >| made  &> made  < link-file  < .env  <> made  >& made  < ~/notes.txt  2> ../made
    < /dev/tcp/127.0.0.1/80  > /dev/udp/127.0.0.1/80  3< link-file  <&3  < $HOME/notes.txt  {x}< link-file  >made.$$
    < [l]ink-file  < link-f*  > ~/made  > $x  <<< ~/x  <<< $(cat notes.txt)  1>&-  > /dev/stdout  < link-out/names
"""
)
CHANGES = _words(
    r"""
    mkdir new  mkdir -p new/deep  touch new.txt  touch sub/new.txt  rm b.txt  rm -f nums.txt  rmdir sub/none
    rm -r src/deep  mv notes.txt moved.txt  cp notes.txt copy.txt  cp -r src copied  sed -i s/one/1/ notes.txt
    mv src moved  cp b.txt src  cp -r src/. sub  mv notes.txt sub  mv link-in sub/l  mv link-out inner
    mv link-out src  rm link-in  rm -rf node_modules  tar xf packed.tar  tar xf plain.tar  tar xf plain.tar -C sub
    tar xf packed.tar x  tar cf new.tar src  find . -name notes.txt -exec cp {} sub/.envrc \;
    find src -type f -exec cp {} made/ \;  find sub -type f -exec mv {} {}.pth \;  find . -name '*.md' -delete
    dd if=notes.txt of=.git/hooks/x  dd if=/dev/zero of=made count=1  patch -p0 -o .mcp.json b.txt names
    split -b 1 notes.txt .git/hooks/  gzip -k notes.txt  zip -q new.zip notes.txt  mknod made c 1 3  mkfifo made
    rm -rf src && ln -s ../outside src  rm -rf sub && ln -s .git sub  awk '{print > ".envrc"}' notes.txt
    tee .git/hooks/x made < notes.txt  rm -rf src && mkdir src && touch src/new
"""
)
PLAIN_PLACES = _words(
    r"""
    new  made  notes.txt  sub  src  sub/new  src/deep  b.txt  nums.txt  copied  link-in  link-in/new  README.md
"""
)
ODD_PLACES = _words(
    r"""
    link-out  link-file  link-out/new  ../new  ~/new  .git/hooks/x  .git/config  .claude/x  .vscode/x  .mcp.json
    sub/up/new  link-home/new  sub/.git  '.GIT/x'  .venv/bin/ls  x/.claude  .claude  .git  ~  .  ..  a=~/new
    link-out/.  link-in/..  link-in/../new  sub/*  *  .*  src/out  src/out/new  $HOME/new  [n]ew  {a,b}  "a b"
    ./-rf  -- -rf  -t src  -t link-out  --target-directory=link-out  a=/tmp/x  secrets  secrets/new  .env  new/x
    sub/.envrc  sitecustomize.py  node_modules/x  .gitmodules  sub/deep/root/tmp/x  nowhere/../../new  .husky/x
    loop/x  .husky  .idea/x  sub/.claude
"""
)
FILTERS = _words(
    r"""
    head -2  wc -l  sort  cat  uniq -c  tail -n 1  grep o  tr a b  cut -c1  cat -  sort -u -  xargs echo  xargs cat
    tee made  sh  xargs -n1 wc -l  grep -c '' - link-file
"""
)
MOVERS = _words(
    r"""
    cd  cd  cd  cd  pushd  cd --  cd -L  cd -P  command cd  builtin cd  popd;cd
"""
)
LOOP_BODIES = _words(
    r"""
    cat $f  echo "$f"  cat "$f"  ls $f  echo $f  wc -l -- "$f"  cd "$f"  cp "$f" made  mv $f $f.bak  rm -rf $f
    touch .git/hooks/x$f  touch $f.pth  ln -s $f .envrc  ln -s ../$f out  chmod +x $f  mkdir -p .vscode/$f
    cp $f sub/.$f  echo x >> $f  gzip -kf $f  ln -sf /etc $f
"""
)
SUBSTITUTIONS = _words(
    r"""
    $(@)  "$(@)"  `@`  <(@)  $( @ )
"""
)
HERE_TEXTS = _words(
    r"""
    text  $HOME  $(cat link-file)  `cat .env`  ${x:-~/notes.txt}
"""
)
VALUES = _words(
    r"""
    1  x  -x  --output=made  made  -o  ~/x  names  *  ''  $HOME
"""
)
FORMS_OF_A_CHARACTER = _words(
    r"""
    '@'  "@"  \@  ?  *  [@]  ["@"]  [!@]  [@-z]  {@,z}  $'@'  [[:alnum:]]  @''  [^/]  +(@)
"""
)
INSERTED = (
    "'",
    '"',
    "\\",
    " ",
    "$",
    "~",
    "*",
    "-",
    "--",
    ";",
    "&",
    "|",
    "\n",
    "`",
    "#",
    "{",
    "}",
    "(",
    ")",
    "=",
    "\\\n",
    "/",
    "..",
    "\t",
)
CHANGERS = _words(
    r"""
    mkdir  touch  rm  rmdir  mv  cp  sed -i s/o/0/  mkdir -p  rm -rf  cp -r  ln -s  cp -a  mv -n  chmod +x  tee
    touch -d 2020-01-01  cp --preserve  rm -d  sed -i.bak p  touch -r  ln  ln -sf  ln -sr  tar cf  gzip -f  split -b 4
    truncate -s 0  install -m 4755  chmod u+s  chmod -R 777  cp -al  cp -rs  mv -T  mv -f -t  sort -o  unzip -o  rm -r
"""
)
TESTS_OF_FIND = _words(
    r"""
    -name '*.py'  -type f  -maxdepth 1  -name x  -print  -print0  -ls  -newer notes.txt  -size +1  -o -name b.txt
    ! -name x  \( -name a -o -name b.txt \)  -mtime -1  -path './src/*'  -prune  -empty  -iname 'R*'  -type l
"""
)
ODD_TESTS_OF_FIND = _words(
    r"""
    -exec cat {} +  -exec cat {} \;  -delete  -fprint made  -execdir ./run.sh \;  -ok cat {} \;  -follow  -L
    -xtype f  -samefile link-file  -newer link-file  -printf '%p'  -fls made  -quit  -name *.py  -regex '.*'
    -lname '*'  -exec wc -l {} +  -depth  -depth -delete  -newermt 2020-01-01  -printf %p -fprintf made x
    -name -delete  -files0-from names0  -context x  -inum 1  -perm /111
"""
)
SCRIPTS = _table(
    r"""
    printf:  '%s\n'  %s  x  '%d'  --  '%n'
    test:  -e @  -f @  -d @  @ -nt @  -n @  @ = x  ! -e @  -s @ -a -r @  @ -eq 1  -v @  @ -ef @  -e @ -o -L @
    date:  -u  +%Y  -d tomorrow  -r notes.txt  -Iseconds  -r @  --date=x  -R  '+%s %n'  -f names  x
    sed:  -n 1p  -n '1,2p'  -n '/one/p'  2q  -n '$p'  -n -e 1p -e '2p'  p  s/a/b/  's/a/b/w made'  -n '1r link-file'
        -n '/x/,+1p'  1d  -ne 1p  -n '1w made'  --expression=p  -n 'p;e'  -E -n '/a|b/p'  -n '1!p'
        -n '/[/]w made/p'  -n 1p\;w\ made
    awk:  '{print $1}'  'NR==1'  -F, '{print $2}'  '{s+=$1} END {print s}'  '/one/{print}'  'END{print NR}'
        '{print > "made"}'  'BEGIN{getline x < "link-file"; print x}'  '{print $1, $NF}'  '{print | "cat"}'
        'NR>1 && $1!=2'  -F '\t' '{print}'  'BEGIN{system("cat link-file")}'  -v x=1 '{print x}'  '/a/,/b/'
        '{print FILENAME}'  '{print}' a=~/x  '{print}' x=1
    jq:  .  -r .a  '.a.b[]'  -n 1  -n '[inputs]'  'env'  '$ENV.HOME'  -c keys  'input_filename'
        -n 'import "x" as x; 1'  -rn '"x"'  '.a | length'  -s .  --arg a b .  '@sh'  '$__loc__'  'input'
        'getpath(["a"])'  -n 'input|.'  'include "x"; .'  -n '$__prog_args'  'debug'  'limit(1;.)'
    command:  -v ls  -V cat  -p ls  cat  -v run.sh  -V git
    config:  --get user.name  user.name  --list  get user.name  user.name x  --unset x.y  -e  core.editor
        list --show-origin
    stash:  list  show  show HEAD  drop  list -p  -p
    remote:  -v  get-url origin  update  show origin  add x ../other
    reflog:  show  expire --all  HEAD  delete HEAD@{0}
    cat-file:  -p @  -t @  -s @  blob @  -e @  --textconv @  --filters @  --batch
"""
)
