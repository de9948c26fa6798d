//! Features, configuration, roles and asynchronous messages.

use super::Encoded;
use super::port::{put_ports, read_ports};
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::{AsyncConfig, Code, Config, Features, Role, RoleMessage, RoleStatus, Version};

pub(crate) fn read_features(mut body: Cursor<'_>, version: Version) -> Decoded<Features> {
    let (datapath_id, n_buffers, n_tables) = (body.u64()?, body.u32()?, body.u8()?);
    let auxiliary_id = body.u8()?;
    body.skip(2)?;
    let (capabilities, actions) = (body.u32()?, body.u32()?);
    let v10 = version == Version::V10;
    Ok(Features {
        datapath_id,
        n_buffers,
        n_tables,
        auxiliary_id: if v10 { 0 } else { auxiliary_id },
        capabilities,
        actions: if v10 { actions } else { 0 },
        ports: if v10 { read_ports(body, version)? } else { Vec::new() },
    })
}

pub(crate) fn put_features(out: &mut Vec<u8>, features: &Features, version: Version) {
    let v10 = version == Version::V10;
    out.u64(features.datapath_id);
    out.u32(features.n_buffers);
    out.u8(features.n_tables);
    out.u8(if v10 { 0 } else { features.auxiliary_id });
    out.zeros(2);
    out.u32(features.capabilities);
    out.u32(if v10 { features.actions } else { 0 });
    if v10 {
        put_ports(out, &features.ports, version);
    }
}

pub(crate) fn read_config(mut body: Cursor<'_>) -> Decoded<Config> {
    Ok(Config { flags: body.u16()?, miss_send_len: body.u16()? })
}

pub(crate) fn put_config(out: &mut Vec<u8>, config: &Config) {
    out.u16(config.flags);
    out.u16(config.miss_send_len);
}

fn role(number: u32) -> Decoded<Role> {
    match number {
        0 => Ok(Role::NoChange),
        1 => Ok(Role::Equal),
        2 => Ok(Role::Primary),
        3 => Ok(Role::Secondary),
        _ => Err(Fault::new(Code::RoleBad, "there is no such role")),
    }
}

pub(crate) fn read_role(mut body: Cursor<'_>) -> Decoded<RoleMessage> {
    let role = role(body.u32()?)?;
    body.skip(4)?;
    Ok(RoleMessage { role, generation: Some(body.u64()?) })
}

pub(crate) fn put_role(out: &mut Vec<u8>, message: &RoleMessage) {
    out.u32(message.role as u32);
    out.zeros(4);
    out.u64(message.generation.unwrap_or_default());
}

/// `NXT_ROLE_REQUEST`, which has no role that stands for none.
pub(crate) fn read_nicira_role(mut body: Cursor<'_>) -> Decoded<RoleMessage> {
    let role = role(body.u32()?.saturating_add(1))?;
    Ok(RoleMessage { role, generation: None })
}

pub(crate) fn put_nicira_role(out: &mut Vec<u8>, message: &RoleMessage) -> Encoded {
    let number = (message.role as u32).checked_sub(1);
    out.u32(number.ok_or(Unsayable("a question for the role"))?);
    Ok(())
}

pub(crate) fn read_role_status(mut body: Cursor<'_>) -> Decoded<RoleStatus> {
    let (role, reason) = (role(body.u32()?)?, body.u8()?);
    body.skip(3)?;
    Ok(RoleStatus { role, reason, generation: body.u64()? })
}

pub(crate) fn put_role_status(out: &mut Vec<u8>, status: &RoleStatus) {
    out.u32(status.role as u32);
    out.u8(status.reason);
    out.zeros(3);
    out.u64(status.generation);
}

/// Masks until OpenFlow 1.3: three pairs, that of any other than a secondary controller first.
pub(crate) fn read_async(mut body: Cursor<'_>, version: Version) -> Decoded<AsyncConfig> {
    let mut out = AsyncConfig::default();
    if version < Version::V14 {
        for pair in out.0[..6].chunks_mut(2) {
            pair[1] = Some(body.u32()?);
            pair[0] = Some(body.u32()?);
        }
        return Ok(out);
    }
    let mut body = body.with(Code::PropertyLength);
    while !body.is_empty() {
        let (kind, mut value) = body.property()?;
        let place = out.0.get_mut(usize::from(kind));
        let place = place.ok_or(Fault::new(Code::PropertyType, "there is no such asynchronous message"))?;
        *place = Some(value.u32()?);
    }
    Ok(out)
}

pub(crate) fn put_async(out: &mut Vec<u8>, config: &AsyncConfig, version: Version) -> Encoded {
    if version < Version::V14 {
        for pair in config.0[..6].chunks(2) {
            for mask in [pair[1], pair[0]] {
                out.u32(mask.ok_or(Unsayable("that a mask of asynchronous messages stays as it is"))?);
            }
        }
        return Ok(());
    }
    for (kind, mask) in (0..).zip(&config.0) {
        if let Some(mask) = mask {
            let start = out.open(kind);
            out.u32(*mask);
            out.close(start);
        }
    }
    Ok(())
}
