#!/usr/bin/env python3
"""Times FLCC and its peers on a CPU in one run and prints the ratio of the best peer to FLCC. See README.md."""

import argparse
import sys

import environment


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flcc", required=True, help="the release binary")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--group", default="all", help="corr, zncc, u8, volume, line, stream, piv; several with commas")
    parser.add_argument("--only", default="", help="workloads whose spec holds this, or a side: k16")
    parser.add_argument("--peer", default="", help="peers whose name holds this")
    parser.add_argument("--isa", choices=["avx512", "avx2"], default="avx512")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each cell of each round")
    parser.add_argument("--json", default="", help="a file for every row, as lines of JSON")
    parser.add_argument("--markdown", action="store_true", help="print a table; rows go to standard error")
    parser.add_argument("--libraries", default="", help="more folders of shared libraries, with colons")
    parser.add_argument("--programs", default="", help="the folder of peers that are programs")
    return parser.parse_args()


def main():
    asked = arguments()
    no_switch = environment.restrict(asked.isa)
    environment.prepare(asked.libraries.split(":"))
    # Only now: libraries read what was just set when they are loaded.
    from catalogue import Catalogue
    from flcc import Flcc
    from report import Report
    from rounds import Contest
    from workloads import GROUPS, workloads

    groups = GROUPS if asked.group == "all" else asked.group.split(",")
    unknown = set(groups) - set(GROUPS)
    if unknown or asked.rounds < 1:
        sys.exit(
            f"--group and --rounds: expected groups of {', '.join(GROUPS)} and at least one round, "
            f"got {asked.group} and {asked.rounds}"
        )
    flcc, catalogue = Flcc(asked.flcc, asked.isa), Catalogue(asked.isa, asked.programs)
    report = Report(asked.json, asked.markdown)
    head = {"machine": environment.machine(), "isa": asked.isa, "no_switch": no_switch, "flcc": flcc.version}
    head |= {"versions": catalogue.versions, "missing": catalogue.missing}
    report.row(head)
    for workload in workloads():
        if workload.group not in groups or not (asked.only in workload.name or asked.only == workload.side):
            continue
        pairs = workload.pairs()
        for threads in map(int, asked.threads.split(",")):
            contest = Contest(workload, pairs, threads, asked.seconds)
            contest.hold([peer for peer in catalogue.peers(workload) if asked.peer in peer.name], flcc, asked.rounds)
            for row in contest.rows():
                report.row(row)
            report.summary(contest.summary())
    report.end(head)


if __name__ == "__main__":
    main()
