"""Files that are made from the code: writes them, or with `--check` says which are not current."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

GENERATED: dict[str, tuple[str, ...]] = {
    "docs/bad-inputs.md": ("-c", "from tests.bad_inputs import markdown; print(markdown(), end='')"),
    "docs/performance.md": ("-m", "bench", "report", "--print"),
    "docs/reference.md": ("-c", "from headrace.reference import markdown; print(markdown(), end='')"),
}
"""Each file, and the Python arguments that print it."""


def made(arguments: tuple[str, ...]) -> str:
    """What the file should hold."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"python {' '.join(arguments)} failed with {done.returncode}; see above")
    return done.stdout


def main() -> None:
    """Writes what is not current, or only says so and fails."""
    checking = "--check" in sys.argv[1:]
    stale = 0
    for name, arguments in GENERATED.items():
        path = ROOT / name
        wanted = made(arguments)
        present = path.read_text(encoding="utf-8") if path.exists() else ""
        if wanted == present:
            continue
        stale += 1
        if checking:
            lines = difflib.unified_diff(
                present.splitlines(), wanted.splitlines(), name, "as it should be", lineterm=""
            )
            print("\n".join(list(lines)[:30]))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
            print(f"{name}: written")
    if checking and stale:
        sys.exit(f"{stale} of {len(GENERATED)} generated files are not current\n  hint: make docs")


if __name__ == "__main__":
    main()
