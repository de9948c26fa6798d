//! Classification: tables of prioritised matches with un-wildcarding, and the caches before them.
