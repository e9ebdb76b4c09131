//! What every store of Onefold must do, as one suite; and the memory store.
