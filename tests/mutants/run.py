#!/usr/bin/env python3
"""Applies the mutants of list.tsv one by one and runs the tests of the crate that each is in.

    tests/mutants/run.py            all that have no result yet
    tests/mutants/run.py 50 100     those from number 50 up to number 99
    tests/mutants/run.py --summary  counts of the results so far
    tests/mutants/run.py --histories [NAME..]    patches of histories/, which the tests named in them must catch; those of a suite
                                    only with ORCHESTRATOR_TEST_ROOT, its root file system: `tests/peers/suite make SUITE`

Run it in a clean tree that nobody works in: it changes sources, one line at a time, and puts them back. Results are appended
to target/mutants.tsv: number, result, file, function, line. A result is caught, missed, unviable (it does not compile) or gone
(the line is no longer in that function). The list holds lines that stand in the same function at commit 1fa5564, so that both
trees can be compared.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "target" / "mutants.tsv"
# A mutant that loops for ever counts as caught.
SECONDS = 900


def mutants():
    lines = (ROOT / "tests/mutants/list.tsv").read_text().splitlines()[1:]
    return [line.split("\t") for line in lines]


def done():
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {int(line.split("\t")[0]): line.split("\t")[1] for line in lines}


def mutated(text, function, line, replacement):
    """The text with `line` of `function` replaced, or None."""
    lines = text.split("\n")
    head = re.compile(rf"(\s*)(pub(\([\w:]+\))? )?(const )?(async )?fn {function}\b")
    for start, first in enumerate(lines):
        found = head.match(first)
        if not found:
            continue
        for at in range(start, len(lines)):
            if lines[at].strip() == line:
                lines[at] = lines[at].replace(line, replacement)
                return "\n".join(lines)
            if lines[at] == found.group(1) + "}":
                break
    return None


def verdict(file, function, line, replacement):
    before = file.read_text() if file.exists() else ""
    after = mutated(before, function, line, replacement)
    if after is None:
        return "gone"
    crate = f"orchestrator-{file.relative_to(ROOT).parts[1]}"
    cargo = ["cargo", "test", "--quiet", "--all-features", "-p", crate]
    file.write_text(after)
    try:
        if subprocess.run([*cargo, "--lib", "--no-run"], cwd=ROOT, capture_output=True).returncode:
            return "unviable"
        tests = subprocess.run([*cargo, "--tests"], cwd=ROOT, capture_output=True, timeout=SECONDS)
        return "caught" if tests.returncode else "missed"
    except subprocess.TimeoutExpired:
        return "caught"
    finally:
        file.write_text(before)


def histories(names):
    """Applies each patch of `histories`, or those named, and runs the tests that its head names, with the variables there."""
    missed = 0
    for patch in sorted((ROOT / "tests/mutants/histories").glob("*.patch")):
        head = dict(line.split(": ", 1) for line in patch.read_text().split("\n\n")[0].splitlines())
        suite = Path(os.environ.get("ORCHESTRATOR_TEST_ROOT", "")).name
        if names and patch.stem not in names or head.get("Suite", suite) != suite:
            continue
        environment = dict(word.split("=", 1) for word in head.get("With", "").split()) | os.environ
        program, filters = head["Caught by"].split(" -- ")
        cargo = ["cargo", "test", "--quiet", "--workspace", "--all-features", *program.split()]
        subprocess.run(["git", "apply", patch], cwd=ROOT, check=True)
        try:
            subprocess.run([*cargo, "--no-run"], cwd=ROOT, check=True)
            run = subprocess.run([*cargo, "--", *filters.split()], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        finally:
            subprocess.run(["git", "apply", "-R", patch], cwd=ROOT, check=True)
        missed += run.returncode == 0
        print("missed" if run.returncode == 0 else "caught", patch.name, flush=True)
        # What caught it: a time limit would prove nothing.
        print(*re.findall(r"^thread .* panicked at .*\n.*", run.stdout, re.MULTILINE), sep="\n", flush=True)
    sys.exit(missed)


def main(arguments):
    if arguments[:1] == ["--histories"]:
        histories(arguments[1:])
    if arguments == ["--summary"]:
        for result, count in sorted(Counter(done().values()).items()):
            print(result, count)
        return
    begin, end = (int(number) for number in arguments) if arguments else (0, len(mutants()))
    finished = done()
    RESULTS.parent.mkdir(exist_ok=True)
    for number, (path, former, function, line, replacement) in enumerate(mutants()):
        if number in finished or not begin <= number < end:
            continue
        file = ROOT / path
        if not file.exists() and former:
            file = ROOT / former
        result = verdict(file, function, line, replacement)
        with RESULTS.open("a") as results:
            results.write(f"{number}\t{result}\t{path}\t{function}\t{line}\n")
        print(number, result, path, function, flush=True)


main(sys.argv[1:])
