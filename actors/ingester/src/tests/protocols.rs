//! The recognisers against dranspose's own ingesters on the same messages (`golden/make.py`).

mod golden;
mod hostile;
