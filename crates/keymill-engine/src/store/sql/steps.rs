//! Single steps that several algorithms take, each a statement with its arguments.

use std::ops::Range;

use super::driver::Step;
use super::statements::{INSTANCE_KNOW, LEASE_ADD, LEASE_CLOSE, SKIPS, SPACE_DEFINE, SPACE_MOVE};
use super::value::values;
use crate::instance::Instance;
use crate::store::values::json;
use crate::store::{LeaseId, Purpose, SpaceRecord};

/// Makes an instance known.
pub(super) fn know(instance: &Instance) -> Step<'_> {
    let Instance { id, host, pid, version, started_at } = instance;
    Step::new(&INSTANCE_KNOW, values![id, host, *pid, version, *started_at])
}

/// Records a range under the revision that the space has moved to.
pub(super) fn recorded<'a>(
    space: &'a SpaceRecord,
    ordinals: Range<u64>,
    purpose: Purpose,
    instance: &'a str,
) -> Step<'a> {
    let Range { start, end } = ordinals;
    let lease = space.mark.revision;
    Step::new(&LEASE_ADD, values![&space.name, lease, start, end, purpose.name(), instance])
}

/// Closes a lease, at its end or where its rest begins.
pub(super) fn closed<'a>(
    space: &'a str,
    lease: LeaseId,
    instance: &'a str,
    rest: Option<Range<u64>>,
) -> Step<'a> {
    let (start, end) = rest.map(|rest| (rest.start, rest.end)).unzip();
    Step::new(&LEASE_CLOSE, values![space, lease, instance, start, end])
}

/// Writes down how far a space has come.
pub(super) fn moved(space: &SpaceRecord) -> Step<'_> {
    let SpaceRecord { name, mark, base, .. } = space;
    let returned = json(&space.returned);
    Step::new(&SPACE_MOVE, values![name, mark.next, mark.revision, returned, *base])
}

/// Writes down the generations of a space.
pub(super) fn defined(space: &SpaceRecord) -> Step<'_> {
    let definition = json(&space.definition);
    Step::new(&SPACE_DEFINE, values![&space.name, definition, space.capacity])
}

/// Reads the ordinals that names occupy, of these; in order.
pub(super) fn skips_in<'a>(space: &'a str, ordinals: &Range<u64>) -> Step<'a> {
    Step::new(&SKIPS, values![space, ordinals.start, ordinals.end])
}
