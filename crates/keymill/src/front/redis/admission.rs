//! Admission over the Redis protocol: who is at the other end of a connection, and whether a command may go on.
//!
//! `session` asks before it looks at anything that a command names. A token is shown once; what it may do is looked up
//! again for each read and after each wait, by its hash, so that a revocation holds on open connections.

use super::commands::{Entry, Needs, Verb};
use super::failure::Failure;
use super::frame::Command;
use super::session::{Session, text};
use crate::access::Caller;
use crate::access::rights::Right;
use crate::front::admission::Wanted;

impl Session<'_> {
    /// Whether the client may keep its connection open without using it: it has shown a token, or needs none.
    pub(crate) fn may_stay(&self) -> bool {
        let is_known =
            |caller: &Caller| caller.token_name().is_some() || !self.redis.access.is_on();
        match &self.caller {
            Some(caller) => is_known(caller),
            None => self.redis.recognize(self.token.as_ref()).is_ok_and(|caller| is_known(&caller)),
        }
    }

    /// Refuses a command that its sender may not send.
    #[inline]
    pub(super) fn admit_command(
        &mut self,
        entry: &Entry,
        command: Command<'_>,
    ) -> Result<(), Failure> {
        let right = match entry.needs {
            Needs::Nothing => return Ok(()),
            Needs::Token => return self.admit(None),
            Needs::Take => Right::Take,
            Needs::Read => Right::Read,
        };
        if entry.verb != Verb::Exists {
            return self.admit(Some((right, Some(&text(command.part(1))))));
        }
        for space in command.parts_from(1) {
            self.admit(Some((right, Some(&text(space)))))?;
        }
        Ok(())
    }

    /// Refuses what the client may not do.
    #[inline]
    pub(super) fn admit(&mut self, wanted: Wanted<'_>) -> Result<(), Failure> {
        let redis = self.redis;
        if self.caller.is_none() {
            let caller = redis.recognize(self.token.as_ref());
            self.caller = Some(caller.map_err(|denied| Failure::denied(denied, wanted))?);
        }
        let caller = self.caller.as_ref().expect("it is known by now");
        let allowed = redis.access.allow(caller, wanted, || Some(redis.counted_as));
        allowed.map_err(|denied| Failure::denied(denied, wanted))
    }

    /// Who the client is. It was admitted before.
    #[inline]
    pub(super) fn caller(&self) -> &Caller {
        self.caller.as_ref().expect("whoever takes keys was admitted")
    }
}
