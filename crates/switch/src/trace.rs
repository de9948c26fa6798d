//! What becomes of a packet, for whoever asks at the control socket.

use crate::plane::Plane;
use crate::protocol::{from_hex, to_hex};
use crate::switch::Switch;
use crate::{frame, text};
use serde_json::{Value, json};
use weir_openflow::PortNo;

impl<P: Plane> Switch<P> {
    /// The frame to be traced, described as a match or given byte by byte, and where it comes in.
    pub(crate) fn frame(
        &self,
        packet: Option<String>,
        frame: Option<String>,
        in_port: Option<String>,
    ) -> Result<(PortNo, Vec<u8>), String> {
        let in_port = in_port.map(|port| self.port(&port)).transpose()?;
        let (described, frame) = match (packet, frame) {
            (Some(packet), None) => frame::described(&text::matching(&packet, self.plane.names())?)?,
            (None, Some(frame)) => (None, from_hex(&frame)?),
            _ => return Err("trace takes either a described `packet` or the bytes of a `frame`".to_owned()),
        };
        let in_port = in_port.or(described).ok_or("which port does it come in by? Say in_port=PORT")?;
        Ok((in_port, frame))
    }

    /// What becomes of it, and what that takes; with the frame as it was looked at.
    pub(crate) fn trace(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> Value {
        let mut told = json!(self.plane.trace(in_port, frame, metadata));
        told["in_port"] = json!(in_port.0);
        told["frame"] = json!(to_hex(frame));
        told
    }
}
