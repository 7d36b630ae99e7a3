"""The custodian: a server that holds the records, and the client of those who never do.

- `custody` reads custody.toml; `accounts` knows who may ask; `messages` are what crosses processes;
- the worker process of a data set holds the wall (`desk`, `worker`); `supervisor` keeps it alive;
- the web process (`office`, `server`, `web`) has no right to the data: it knows accounts, sizes and
  rates, and passes requests on;
- the analyst's process has `client`, and `rehearsal` for trying code before paying.
"""
