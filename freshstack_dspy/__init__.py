"""Judged retrieval and RAG test collections for your own domain.

    from freshstack_dspy import build, evaluate, retrieve

    collection = build("build.toml")
    run = retrieve(collection, "hybrid")
    print(evaluate(collection.qrels(), run).means)

The public names are those of `__init__.pyi`; each is imported when it is first used, so that
`import freshstack_dspy` loads nothing heavy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
