"""Rows as lines of JSON, and a table in Markdown."""

import json
import sys


class Report:
    """Writes rows as they come; with a table asked for, they go to standard error."""

    def __init__(self, path, markdown):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.markdown = markdown
        self.table = []

    def row(self, row):
        line = json.dumps(row)
        print(line, file=sys.stderr if self.markdown else sys.stdout, flush=True)
        if self.file:
            print(line, file=self.file, flush=True)

    def summary(self, row):
        self.row(row)
        self.table.append(row)

    def end(self, head):
        """Closes the file; prints the table."""
        if self.file:
            self.file.close()
        if not self.markdown:
            return
        machine = head["machine"]
        copies = ", ".join(f"{rate} GB/s on {threads}" for threads, rate in machine["copy_16mb_gb_s"].items())
        print(
            f"{machine['cpu']}, {machine['cores']} cores, {machine['flags']}; "
            f"a copy of 16 MB: {copies} threads (read and written)."
        )
        versions = "; ".join(f"{name} {version}" for name, version in head["versions"].items())
        print(f"Instruction sets up to {head['isa']}. {head['flcc']}; {versions}.")
        for title, names in (("No switch to that", head["no_switch"]), ("Not there", head["missing"])):
            if names:
                print(f"{title}: {', '.join(names)}.")
        print()
        print("| spec | threads | flcc ms | best peer | peer ms | ratio | error |")
        print("|---|---|---|---|---|---|---|")
        for row in self.table:
            cells = [row["spec"], row["threads"], time(row.get("flcc_ms"))]
            cells += [row.get("best", "-"), time(row.get("best_ms"))]
            cells.append(f"{row['ratio']:.2f}" if "ratio" in row else "-")
            cells.append(f"{row['error']:.0e}" if "error" in row else "-")
            print("| " + " | ".join(map(str, cells)) + " |")


def time(milliseconds):
    """Three digits."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
