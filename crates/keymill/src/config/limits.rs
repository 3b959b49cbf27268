//! Checks the section `limits` of the settings.

use std::time::Duration;

use anyhow::bail;
use keymill_engine::operations::Limits;

use super::settings::LimitSettings;
use crate::front::http::UNSENT_MIN;
use crate::server::ServerLimits;

/// All keys of a take are drawn before its answer begins.
pub(super) const COUNT_MAX: Max = Max { number: 10_000_000, text: "10,000,000" };
pub(super) const CONNECTIONS_MAX: Max = Max { number: 1_000_000, text: "1,000,000" };

/// The maximum of a setting, and how messages write it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Max {
    pub(super) number: u32,
    pub(super) text: &'static str,
}

impl LimitSettings {
    /// The limits of the service.
    pub(super) fn of_service(&self) -> anyhow::Result<Limits> {
        Ok(Limits {
            count_max: within("limits.count_max", self.count_max, COUNT_MAX)?,
            waiting_max: self.waiting_max,
            wait_max: seconds("limits.wait_seconds", self.wait_seconds)?,
            heartbeat_every: seconds("limits.heartbeat_seconds", self.heartbeat_seconds)?,
        })
    }

    /// The limits of the server.
    pub(super) fn of_server(&self) -> anyhow::Result<ServerLimits> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let connections_max =
            within("limits.connections_max", self.connections_max, CONNECTIONS_MAX)?;
        Ok(ServerLimits {
            connections_max: connections_max as usize,
            first_byte_time_max: seconds("limits.first_byte_seconds", self.first_byte_seconds)?,
            header_time_max: seconds("limits.header_seconds", self.header_seconds)?,
            idle_time_max: seconds("limits.idle_seconds", self.idle_seconds)?,
            redis_idle_time_max: Some(seconds_or_none(
                "limits.redis_idle_seconds",
                self.redis_idle_seconds,
            )?)
            .filter(|time| !time.is_zero()),
            drain_delay: seconds_or_none("limits.drain_delay_seconds", self.drain_delay_seconds)?,
            drain_time_max: seconds("limits.drain_seconds", self.drain_seconds)?,
            threads: if self.threads == 0 { cores } else { self.threads },
        })
    }

    /// How many connections an address may have.
    pub(super) fn connections_per_address_max(&self) -> anyhow::Result<usize> {
        let setting = "limits.connections_per_address_max";
        Ok(within(setting, self.connections_per_address_max, CONNECTIONS_MAX)? as usize)
    }

    /// How many bytes of large answers may wait to be sent. With less than the minimum, only a few answers
    /// could be sent at once.
    pub(super) fn unsent_max(&self) -> anyhow::Result<usize> {
        let bytes = self.unsent_max_bytes;
        if bytes < UNSENT_MIN {
            bail!("limits.unsent_max_bytes must be at least {UNSENT_MIN}, not {bytes}");
        }
        Ok(bytes)
    }
}

pub(super) fn seconds(setting: &str, seconds: f64) -> anyhow::Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(1) && time <= Duration::from_secs(86_400) => {
            Ok(time)
        }
        _ => bail!("{setting} must be from 0.001 to 86400, not {seconds}"),
    }
}

fn seconds_or_none(setting: &str, given: f64) -> anyhow::Result<Duration> {
    if given == 0.0 { Ok(Duration::ZERO) } else { seconds(setting, given) }
}

fn within(setting: &str, value: u32, max: Max) -> anyhow::Result<u32> {
    if !(1..=max.number).contains(&value) {
        bail!("{setting} must be from 1 to {}, not {value}", max.text);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_is_written_as_it_is() {
        for max in [COUNT_MAX, CONNECTIONS_MAX] {
            assert_eq!(max.text.replace(',', "").parse(), Ok(max.number));
        }
    }
}
