//! Roles (OpenFlow 1.3.5, section 6.3.6).

use super::Agent;
use crate::ConnectionId;
use weir_codec::{AsyncKind, Body, Code, Role, RoleMessage, RoleStatus, Version};

/// Another controller became primary: the reason of a role's change.
const ANOTHER: u8 = 0;

impl Agent {
    /// A controller's role, as OpenFlow names it (ONF's words since 1.5.1), if it is connected.
    pub fn role(&self, of: ConnectionId) -> Option<&'static str> {
        Some(match self.peers.get(&of)?.role {
            Role::Primary => "primary",
            Role::Secondary => "secondary",
            Role::Equal | Role::NoChange => "equal",
        })
    }

    /// A controller wants a role, or to know the one that it has.
    pub(super) fn role_request(
        &mut self,
        from: ConnectionId,
        xid: u32,
        wanted: RoleMessage,
    ) -> Result<(), Code> {
        if matches!(wanted.role, Role::Primary | Role::Secondary)
            && let Some(generation) = wanted.generation
        {
            // Numbers go round: an older one is less than half of all numbers behind.
            let older = |last: u64| (generation.wrapping_sub(last) as i64) < 0;
            if self.generation.is_some_and(older) {
                return Err(Code::RoleStale);
            }
            self.generation = Some(generation);
        }
        if wanted.role == Role::Primary {
            self.demote_others(from);
        }
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        if wanted.role != Role::NoChange {
            peer.role = wanted.role;
        }
        // All ones where there was no election yet.
        let generation = wanted.generation.map(|_| self.generation.unwrap_or(u64::MAX));
        let has = RoleMessage { role: peer.role, generation };
        self.reply(from, xid, Body::RoleReply(has));
        Ok(())
    }

    /// There is one primary controller.
    fn demote_others(&mut self, but: ConnectionId) {
        let generation = self.generation.unwrap_or(u64::MAX);
        for (_, peer) in self.peers.iter_mut().filter(|(id, peer)| **id != but && peer.role == Role::Primary)
        {
            peer.role = Role::Secondary;
            if peer.version >= Version::V14 && peer.hears(AsyncKind::RoleStatus, ANOTHER) {
                let status = RoleStatus { role: Role::Secondary, reason: ANOTHER, generation };
                peer.tell(Body::RoleStatus(status));
            }
        }
    }
}
