"""The paper's experiments as one command: data sets, splits, methods, a store of results, tables and figures.

    datasets   the paper's 15 sets, three small ones that come with scikit-learn, and files of your own
    protocol   splits, scaling to [-1, 1], the error
    methods/   one small file per method
    store      one line per finished run, durable
    runner     which runs are missing; processes on this machine, or a Dask cluster

See docs/bench.md, and ``hgk bench --help``.
"""
