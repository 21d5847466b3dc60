//! How rows that meet in a batch, or in the writer, become one (contract §6). Pure.
