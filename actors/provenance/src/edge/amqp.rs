//! The broker: exchanges, queues and channels as the original declares them (contract §1).
