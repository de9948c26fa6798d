//! Weir's action that hands a packet to a service, in its two forms (`docs/openflow.md`).
//!
//! With one number it has a length of its own. With other arguments these follow the service's number, each with its kind in a byte: a
//! number is four bytes, a text its length in a byte and itself in UTF-8. Where they end, zeros do.

use super::read::{exactly, zeros};
use super::{SERVICE, SERVICE_WITH};
use crate::Code;
use crate::cursor::{Cursor, Decoded, Fault, Put as _};
use weir_openflow::{Action, Argument, Arguments};

/// Kinds of arguments.
const NUMBER: u8 = 1;
const TEXT: u8 = 2;

/// Reads what follows the action's number, which is one of the two; `padded` where a form that is longer may hold it.
pub(super) fn read(kind: u16, mut body: Cursor<'_>, padded: bool) -> Decoded<Action> {
    if kind == SERVICE {
        if !padded {
            exactly(&body, 6)?;
        }
        let (service, argument) = (body.u16()?, body.u32()?);
        zeros(&mut body)?;
        return Ok(Action::Service { service, argument });
    }
    let service = body.u16()?;
    let mut arguments = Vec::new();
    let wrong = |what| Fault::new(Code::ActionArgument, what);
    let mut ahead = body;
    while let Ok(kind @ 1..) = ahead.u8() {
        if arguments.len() == Arguments::MOST {
            return Err(wrong("a service takes fewer arguments"));
        }
        arguments.push(match kind {
            NUMBER => Argument::Number(ahead.u32()?),
            TEXT => {
                let length = usize::from(ahead.u8()?);
                let text = std::str::from_utf8(ahead.bytes(length)?);
                Argument::Text(text.map_err(|_| wrong("a text is not UTF-8"))?.into())
            }
            _ => return Err(wrong("there is no such kind of argument")),
        });
        body = ahead;
    }
    zeros(&mut body)?;
    let arguments = Arguments::new(arguments);
    Ok(arguments.map_err(|_| wrong("a text is too long, or has control characters"))?.call(service))
}

/// Writes what follows Weir's number.
pub(super) fn put(out: &mut Vec<u8>, action: &Action) {
    match action {
        Action::Service { service, argument } => {
            out.u16(SERVICE);
            out.u16(*service);
            out.u32(*argument);
        }
        Action::ServiceWith { service, arguments } => {
            out.u16(SERVICE_WITH);
            out.u16(*service);
            for argument in arguments.list() {
                match argument {
                    Argument::Number(number) => {
                        out.push(NUMBER);
                        out.u32(*number);
                    }
                    Argument::Text(text) => {
                        out.extend_from_slice(&[TEXT, text.len() as u8]);
                        out.extend_from_slice(text.as_bytes());
                    }
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Known, put_actions, read_actions};
    use super::*;
    use crate::Version;

    /// An experimenter's action of Weir's with these bytes behind its number.
    fn decoded(body: &[u8]) -> Decoded<Vec<Action>> {
        let mut action = vec![0xff, 0xff, 0, (8 + body.len()) as u8, 0xff, 0x57, 0x45, 0x52];
        action.extend_from_slice(body);
        read_actions(Cursor::new(&action, Code::ActionLength), Version::V13, Known::default())
    }

    fn list(arguments: &[Argument]) -> Action {
        Arguments::new(arguments.to_vec()).unwrap().call(2)
    }

    #[test]
    fn the_bytes_that_the_document_has_are_read_and_written() {
        let web = list(&[Argument::Number(7), Argument::Text("web".into())]);
        let experimenters = [0, 1, 0, 2, 1, 0, 0, 0, 7, 2, 3, b'w', b'e', b'b', 0, 0];
        assert_eq!(decoded(&experimenters).unwrap(), std::slice::from_ref(&web));
        let mut note = Vec::new();
        put_actions(&mut note, Version::V13, std::slice::from_ref(&web), false).unwrap();
        let as_note = [
            0xff, 0xff, 0, 32, 0, 0, 0x23, 0x20, 0, 8, 0xff, 0x57, 0x45, 0x52, 0, 1, 0, 2, 1, 0, 0, 0, 7, 2,
            3, b'w', b'e', b'b', 0, 0, 0, 0,
        ];
        assert_eq!(note, as_note);
    }

    #[test]
    fn every_list_comes_back_as_it_was_in_each_version() {
        let text = |text: &str| Argument::Text(text.into());
        let lists = [
            vec![],
            vec![Argument::Number(0)],
            vec![Argument::Number(0), Argument::Number(0)],
            vec![text("")],
            vec![text("é, \"x\""), Argument::Number(u32::MAX), text("")],
            vec![text(&"x".repeat(Arguments::LONGEST)); Arguments::MOST],
        ];
        for version in [Version::V10, Version::V13, Version::V15] {
            for arguments in &lists {
                let action = list(arguments);
                let mut bytes = Vec::new();
                put_actions(&mut bytes, version, std::slice::from_ref(&action), false).unwrap();
                let read = read_actions(Cursor::new(&bytes, Code::ActionLength), version, Known::default());
                assert_eq!(read.unwrap(), [action], "{arguments:?} in {version:?}");
            }
        }
    }
}
