"""Which programs of awk pass unasked: those that can only compute and print."""

from __future__ import annotations

from cellwright.permissions.shell.read_only.programs import MAX_LENGTH, only_prints
from row_tables import for_each_row

PASSES = (
    "{print $1}",
    "{ print $1, $NF }",
    "{print $(NF-1)}",
    '{print NR": "$0}',
    '{print $1 "/" $2}',
    '{print $1"\\t"$2}',
    "NR==1",
    "NR>1 && NR<=10",
    "NR>1{print $2}",
    "NR % 2 == 0",
    "$3 > 100",
    '$3 == "x" {print $1}',
    "/error/",
    "/error/{print $2}",
    "$2 ~ /^a.c$/ {print}",
    "$2 !~ /x/ || NF > 3",
    "END{print NR}",
    "{s+=$1} END {print s}",
    "NR>1 {sum+=$2} END {print sum/NR}",
    "{c[$1]++} END{for(k in c) print k, c[k]}",
    "{c[$1,$2]+=$3}\nEND {\n  for (k in c) print c[k]\n}",
    "BEGIN{print 1+2*3}",
    "{print FILENAME, FNR; n++}; END{print n}",
)
ASKS = (
    "",
    'BEGIN{system("id")}',
    'BEGIN {system ("id")}',
    '{print > "out"}',
    '{print $1 >> "out"}',
    "{print $1 > $2}",
    "{print NR>1}",
    "{print NR > 1}",
    '{print | "sh"}',
    '{print |& "sh"}',
    '"id" | getline',
    'BEGIN{while(("id" | getline x) > 0) print x}',
    '{getline x < "/etc/passwd"; print x}',
    "BEGIN{getline; print}",
    'BEGIN{print ENVIRON["KEY"]}',
    "BEGIN{print PROCINFO}",
    "function s(x) {return x}",
    '@load "filefuncs"',
    '@include "x"',
    'BEGIN{f="system"; @f("id")}',
    "{printf $1}",
    "{close($1)}",
    "{fflush()}",
    "{system}",
    # where a pattern ends, and so where a string begins, must not be read in two ways
    '/[/{print "]/{system($1)}#"}',
    '/a\\/{print "/{system($1)}#"}',
    '{print s/NR "/; system($1); x=" 1/2}',
    "{print a/b} NR/2>1",
    'NR /x/ {print "/"}',
    '{print "\\""}',
    '{print "a}',
    "{print 'a'}",
    "{print $1} # }",
    "{print system}",
    "{print sy stem}",
    "s(1)",
    "{print 0x1f}",
    "{print 1e9}",
    "{print $1",
    "print $1",
    "{NF=999999999}",
    "{$0=1}",
    "while(1)",
    "{if(1) print}",
    "{print \t $1}",
    "{print \u00e9}",
)


@for_each_row("program", PASSES)
def test_what_only_computes_and_prints_passes(program):
    assert only_prints(program)


@for_each_row("program", ASKS)
def test_all_else_asks(program):
    assert not only_prints(program)


def test_a_long_program_is_not_looked_at():
    assert only_prints("{print $1}".ljust(MAX_LENGTH))
    assert not only_prints("{print $1}".ljust(MAX_LENGTH + 1))
