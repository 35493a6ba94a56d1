"""Reference pages of the public Python API, made by pdoc from the docstrings.

python -m minikafka.deploy.api_docs FOLDER
"""

import sys
from pathlib import Path

import minikafka


def write(folder: Path) -> None:
    """Write a page each for `minikafka` and `minikafka.aio`, and an index, into the folder.

    Raise ModuleNotFoundError if pdoc, which comes with the extra `docs`, is not installed.
    """
    import pdoc

    for name in minikafka.__all__:
        getattr(minikafka, name)  # Loaded on first use; pdoc looks at what is there.
    pdoc.render.configure(docformat="markdown", show_source=False)
    pdoc.pdoc("minikafka", "!minikafka\\..+", "minikafka.aio", output_directory=folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    print(f"{sys.argv[1]}/index.html")
