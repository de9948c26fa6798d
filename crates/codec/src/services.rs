//! The services of a switch: Weir's own messages.

/// A service of a switch, by whose number `sf_action` and the action `softflow` name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAbout {
    /// Its number, from 1.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
}

/// Some of a switch's services, rising by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceList {
    /// The number from which on to ask for more; 0 where these were the last.
    pub next: u16,
    /// They.
    pub services: Vec<ServiceAbout>,
}

impl ServiceList {
    /// The longest list of a message, in bytes.
    const ROOM: usize = 60_000;

    /// Of all services, those from a number on that one message holds.
    pub fn from(first: u16, all: impl IntoIterator<Item = ServiceAbout>) -> Self {
        let mut list = Self::default();
        let mut room = Self::ROOM;
        for about in all.into_iter().filter(|about| about.number >= first) {
            let bytes = ServiceAbout::HEADER + about.name.len() + about.kind.len();
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None => {
                    list.next = about.number;
                    break;
                }
            }
            list.services.push(about);
        }
        list
    }
}

impl ServiceAbout {
    /// Bytes of its numbers on the wire.
    pub(crate) const HEADER: usize = 6;
}
