"""The filter's programs, played on calls by a machine of a dozen lines: so that both architectures are judged on one."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from cellwright.sandbox.seccomp import Filter, program
from row_tables import for_each_row

ALLOW, KILL, REFUSE, PRETEND, ABSENT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050000, 0x00050000 | 38
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {
    "x86_64": {
        "read": 0,
        "socket": 41,
        "connect": 42,
        "chmod": 90,
        "utimensat": 280,
        "ptrace": 101,
        "clone": 56,
        "ioctl": 16,
        "fcntl": 72,
        "setrlimit": 160,
        "bind": 49,
        "msgctl": 71,
        "fanotify_init": 300,
    },
    "aarch64": {
        "read": 63,
        "socket": 198,
        "connect": 203,
        "chmod": 53,
        "utimensat": 88,
        "ptrace": 117,
        "clone": 220,
        "ioctl": 29,
        "fcntl": 25,
        "setrlimit": 164,
        "bind": 200,
        "msgctl": 187,
        "fanotify_init": 262,
    },
}
for numbers in NUMBERS.values():
    numbers |= {"io_uring_setup": 425, "clone3": 435}


def answer(rules: Filter, machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What a filter answers to a call."""
    data = struct.pack("=IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    built = program(rules, machine)
    instructions = [struct.unpack_from("=HBBI", built, at) for at in range(0, len(built), 8)]
    at = value = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x54:
                value &= operand
            case 0x06:
                return operand
            case 0x15:
                at += if_true if value == operand else if_false
            case 0x35:
                at += if_true if value >= operand else if_false
            case 0x45:
                at += if_true if value & operand else if_false
            case _:
                raise AssertionError(code)


NO_TERMINAL = 0x00050000 | 25

READING = Filter(metadata="pretended")
LANDLOCKED = Filter(metadata="pretended", signals=True, shared_by_key=True)

REQUESTS = {
    # terminals: reading and setting them, their sizes, new ones; typing into them
    **dict.fromkeys((0x5401, 0x5402, 0x540F, 0x5413, 0x5414, 0x5441, 0x802C542A, 0x80045430, 0x40045431), ALLOW),
    **dict.fromkeys((0x5412, 0x541C, 0x541D, 0x541F, 0x5423, 0x5437), REFUSE),
    # descriptors: how much there is, closing at exec, waiting
    **dict.fromkeys((0x541B, 0x5421, 0x5450, 0x5451, 0x5460), ALLOW),
    # files: their flags as they are, sharing what they hold with others; changing that
    **dict.fromkeys((0x80086601, 0x801C581F, 0x80087601, 0x40049409, 0xC020660B), ALLOW),
    **dict.fromkeys((0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40806685), REFUSE),
    # sockets: interfaces as they are; who is signalled
    **dict.fromkeys((0x8905, 0x8912, 0x8913, 0x8927), ALLOW),
    **dict.fromkeys((0x8901, 0x8902), REFUSE),
    # freezing and trimming a disk, encrypting, snapshots of btrfs, setting an interface, and what nobody knows
    **dict.fromkeys((0xC0045877, 0xC0185879, 0x800C6613, 0x50009401, 0x8914, 0x12345678), NO_TERMINAL),
}


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_calls_are_answered(machine: str) -> None:
    rows = [
        ("read", READING, (), ALLOW),
        ("socket", READING, (1, 1), ALLOW),
        ("socket", READING, (1, 1 | 0o2000000), ALLOW),
        ("socket", READING, (1, 2), REFUSE),
        ("socket", READING, (2, 1), REFUSE),
        ("socket", READING, (2 | 1 << 32, 1), REFUSE),
        ("socket", Filter(network="hosts"), (2, 1), ALLOW),
        ("socket", Filter(network="hosts"), (1, 1), REFUSE),
        ("socket", Filter(network="hosts"), (16, 3), REFUSE),
        ("socket", Filter(network="any"), (16, 3), ALLOW),
        ("connect", READING, (3,), REFUSE),
        ("connect", Filter(network="any"), (3,), ALLOW),
        ("chmod", READING, (), PRETEND),
        ("chmod", Filter(metadata="refused"), (), REFUSE),
        ("chmod", Filter(), (), ALLOW),
        ("utimensat", Filter(metadata="refused"), (), PRETEND),
        ("ptrace", Filter(network="any"), (), REFUSE),
        ("io_uring_setup", READING, (), REFUSE),
        ("clone", READING, (0x10000000 | 17,), REFUSE),
        ("clone", READING, (17,), ALLOW),
        ("clone3", READING, (), ABSENT),
        ("clone", READING, (0x20000 | 17,), REFUSE),
        ("clone", READING, (0x8000 | 17,), REFUSE),
        ("fcntl", READING, (0, 2), ALLOW),
        *(("fcntl", READING, (0, command), REFUSE) for command in (8, 10, 15, 1024, 1026)),
        ("setrlimit", READING, (7,), ALLOW),
        ("setrlimit", READING, (15,), REFUSE),
        ("setrlimit", Filter(keeps_marks=False), (15,), ALLOW),
        ("bind", READING, (), ALLOW),
        ("bind", LANDLOCKED, (), REFUSE),
        ("bind", replace(LANDLOCKED, network="any"), (), ALLOW),
        ("msgctl", READING, (), ALLOW),
        ("msgctl", LANDLOCKED, (), REFUSE),
        ("fanotify_init", READING, (), REFUSE),
    ]
    wrong = [row for row in rows if answer(row[1], machine, NUMBERS[machine][row[0]], *row[2]) != row[3]]
    assert wrong == []


@for_each_row("machine", sorted(ARCHITECTURES))
def test_requests_to_devices_and_files_are_let_through_by_a_list(machine: str) -> None:
    for rules in (READING, LANDLOCKED, Filter(network="any")):
        # the higher half of the number is nothing to the kernel
        answers = {each: answer(rules, machine, NUMBERS[machine]["ioctl"], 0, each | 7 << 32) for each in REQUESTS}
        assert answers == REQUESTS


@for_each_row("rules", [READING, Filter(network="any"), Filter(signals=True, shared_by_key=True, metadata="refused")])
def test_calls_in_foreign_numbers_kill(rules: Filter) -> None:
    assert answer(rules, "x86_64", 0, architecture=0x40000003) == KILL
    assert answer(rules, "x86_64", 0x40000000 | 41) == KILL
    assert answer(rules, "aarch64", 63, architecture=0x40000028) == KILL


def test_signals_without_a_scope_go_to_the_own_group_alone() -> None:
    rules = Filter(signals=True)
    own, asked, other, everybody = ((0, 15), (1234, 0), (1234, 15), (2**64 - 1, 9))
    assert [answer(rules, "x86_64", 62, *call) for call in (own, asked, other, everybody)] == [
        ALLOW,
        ALLOW,
        REFUSE,
        REFUSE,
    ]


def test_limits_of_others_are_read_and_not_set_and_no_process_sets_what_it_is_known_by() -> None:
    asked = [answer(READING, "x86_64", 302, *call) for call in ((0, 1, 99), (7, 1, 0), (7, 1, 99), (7, 1, 1 << 32))]
    assert asked == [ALLOW, ALLOW, REFUSE, REFUSE]
    asked = [answer(READING, "x86_64", 302, *call) for call in ((0, 15, 0), (0, 15, 99), (0, 15, 1 << 32), (7, 15, 9))]
    assert asked == [ALLOW, REFUSE, REFUSE, REFUSE]
