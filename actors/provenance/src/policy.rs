//! The splitting policy: which queue a row goes through (contract §1, §2). Pure.
