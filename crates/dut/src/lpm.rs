//! How much DPDK's longest-prefix table holds, as its example programs set it up.
//!
//! A route longer than /24 takes a group of 256 entries together with the others of its /24, and
//! the programs have [`GROUPS`] of them. Beyond that they fail, so it is said before.

use std::collections::HashSet;
use weir_wire::table::{Ipv4Prefix, Route};

/// Groups for routes longer than /24 (`IPV4_L3FWD_LPM_NUMBER_TBL8S`, `TABLE_LPM_NUMBER_TBL8`).
const GROUPS: usize = 256;

/// Prefix length up to which a route needs no group.
const DIRECT_BITS: u8 = 24;

/// Whether the routes fit; the reason where they do not.
pub(crate) fn fits(routes: &[Route], most: u32) -> Result<(), String> {
    if routes.len() > most as usize {
        return Err(format!("its table holds {most} routes"));
    }
    let long = routes.iter().filter(|route| route.prefix.bits() > DIRECT_BITS);
    let groups: HashSet<Ipv4Prefix> =
        long.map(|route| Ipv4Prefix::covering(route.prefix.address(), DIRECT_BITS)).collect();
    if groups.len() > GROUPS {
        return Err(format!(
            "its table holds routes longer than /{DIRECT_BITS} in {GROUPS} networks of that length; \
             these are in {} (l3fwd:768 still fits)",
            groups.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::Nf;

    #[test]
    fn routes_beyond_24_bits_are_counted_by_their_networks() {
        let fits = |routes| fits(&Nf::L3Fwd { routes }.routes(), 1 << 20);
        assert_eq!([fits(1), fits(512), fits(768)], [Ok(()), Ok(()), Ok(())]);
        let error = fits(769).unwrap_err();
        assert!(error.contains("/24") && error.contains("257"), "{error}");
    }

    #[test]
    fn a_table_has_a_stated_size() {
        let error = fits(&Nf::L3Fwd { routes: 700 }.routes(), 512).unwrap_err();
        assert_eq!(error, "its table holds 512 routes");
    }
}
