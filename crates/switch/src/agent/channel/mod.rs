//! Connections and bytes: for now, the line to a controller.

mod line;

pub use line::Line;
