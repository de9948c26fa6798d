//! Open vSwitch as a host that splits packets among copies of a chain: by its select groups, which choose by hashes alone.

use super::instance::Instance;
use super::{NAME, launch};
use crate::chain::HostPaths;
use crate::openflow::{self, Dialect};
use crate::{DutError, RunningDut, StartRequest};
use weir_trial::Split;

/// Whether it can split packets so; the reason where not.
pub(super) fn splits(split: Split) -> Result<(), String> {
    match split {
        Split::Flow => Ok(()),
        Split::RoundRobin => Err(format!(
            "{NAME} chooses by a hash of the flow and cannot split packets round robin; `split = \"flow\"` it does, and \
             weir does both"
        )),
    }
}

/// Starts it with its groups.
pub(super) fn start(request: &StartRequest<'_>, paths: &HostPaths) -> Result<Box<dyn RunningDut>, DutError> {
    let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
    splits(paths.split).map_err(unsupported)?;
    let (groups, flows) = openflow::split(paths, Dialect::OpenVSwitch);
    launch(request, flows, &groups)
}

/// Puts groups into the bridge, where there are any.
pub(super) fn add_groups(
    instance: &Instance,
    request: &StartRequest<'_>,
    groups: &str,
) -> Result<(), DutError> {
    if groups.is_empty() {
        return Ok(());
    }
    let file = request.folder.write("groups.txt", groups)?;
    instance.add_groups(&file, groups)
}
