"""Where records are, and what cells mean. Trusted: it reads raw data, and no cell makes it fail.

To read it, in this order:

- `cells`: one raw cell as text, a number or a moment, and `columns`: as a value of its domain;
- `source`: the protocol of all sources; `opening` checks one by path, header and types alone;
  `tables` in memory, `files` (CSV by `delimited`) and `engines` give batches of raw columns;
- `rows`: at most k rows of each unit; `documents` and `texts`: the same for words;
- `storage`: what is put aside in files; `loaded`: what a lease has read; `workers`: shards of it on
  a cluster.
"""
