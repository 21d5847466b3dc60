//! Our recognisers against what dranspose's own ingesters made of the same messages (`golden/make.py`).

mod golden;
mod hostile;
mod vectors;
