"""Finds a Java for Spark, or installs one. Only Spark 4 needs it: Java 17 or newer.

    python -m minikafka.spark.java

As root without a terminal it installs Java by apt; on a terminal it asks first. If it may not or
cannot install Java, it prints the command to run and ends with exit code 1.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17
APT_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "openjdk-25-jre-headless")


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', told.stderr + told.stdout)
    return int(found.group(1)) if found else None


def main() -> int:
    """Make sure that a suitable Java is installed; return exit code 0 if it is."""
    version = java_version()
    if version is not None and version >= OLDEST:
        return 0
    have = "no Java" if version is None else f"Java {version}"
    package = _apt_package()
    if package is None:
        print(f"Spark needs Java {OLDEST}+ and found {have}: install one, or set JAVA_HOME")
        return 1
    command = ["apt-get", "install", "-y", "--no-install-recommends", package]
    root = os.geteuid() == 0
    manual = ("" if root else "sudo ") + " ".join(command)
    if sys.stdin.isatty():
        answer = input(f"Spark needs Java {OLDEST}+ and found {have}. Run `{manual}`? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print(f"not installed; run: {manual}")
            return 1
        command = [*([] if root else ["sudo"]), *command]
    elif not root:
        print(f"Spark needs Java {OLDEST}+ and found {have}; run: {manual}")
        return 1
    print(f"Spark needs Java {OLDEST}+ and found {have}: installing {package}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode:
        print(f"that failed; run: {manual}")
        return 1
    version = java_version()
    return 0 if version is not None and version >= OLDEST else 1


def _apt_package() -> str | None:
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0 and not sys.stdin.isatty():
        subprocess.run(["apt-get", "update"], stdout=subprocess.DEVNULL, check=False)
    for package in APT_PACKAGES:
        shown = subprocess.run(
            ["apt-cache", "show", package], capture_output=True, text=True, check=False
        )
        if shown.returncode == 0 and shown.stdout.strip():
            return package
    return APT_PACKAGES[0]


if __name__ == "__main__":
    sys.exit(main())
