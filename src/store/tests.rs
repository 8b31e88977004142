//! The store by itself: schema, fence, group commit, damage, death.
