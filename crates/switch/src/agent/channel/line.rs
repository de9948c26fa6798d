//! What is to be said to a controller.

use std::sync::mpsc::Sender;

/// Speaks to a controller.
#[derive(Clone, Debug)]
pub struct Line(pub Sender<Vec<u8>>);

impl Line {
    /// Queues an answer.
    pub fn answer(&self, bytes: Vec<u8>) {
        // Whoever asked may be gone.
        let _ = self.0.send(bytes);
    }

    /// Queues what nobody asked for.
    pub fn tell(&self, bytes: Vec<u8>) -> bool {
        self.0.send(bytes).is_ok()
    }

    /// Ends the connection, after what is queued.
    pub fn close(&self) {
        let _ = self.0.send(Vec::new());
    }
}
