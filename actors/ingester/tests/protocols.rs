//! Our recognisers against what dranspose's own ingesters made of the same messages (`golden/make.py`).

#[path = "protocols/captures.rs"]
mod captures;
#[path = "protocols/golden.rs"]
mod golden;
#[path = "protocols/hostile.rs"]
mod hostile;
#[path = "protocols/vectors.rs"]
mod vectors;
