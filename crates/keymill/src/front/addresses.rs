//! Addresses: where clients come from, and which proxies may speak for them.
//!
//! `server` asks who may connect; `http` asks who sent a request. Settings are parsed into these
//! types. Nothing here does I/O.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// What addresses may do. It can be replaced while the server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRules {
    /// Proxies that may name the client: by the PROXY protocol, or by `X-Forwarded-For`.
    pub trusted_proxies: Vec<Network>,
    /// Connections that one address may have open at once; an IPv6 address counts with its /64.
    pub connections_per_address_max: usize,
}

/// A range of addresses, such as `10.0.0.0/8`; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// The client that a request comes from, as far as trusted proxies tell. Never a name that an
/// untrusted sender could have chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl AddressRules {
    /// Whether an address is one of a trusted proxy.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(address))
    }

    /// The client of a request: the sender itself, unless that is a trusted proxy. Then it is the
    /// last address of the `X-Forwarded-For` lines, given last line first, that is not a trusted proxy.
    pub fn client<'a>(
        &self,
        sender: IpAddr,
        forwarded_for: impl Iterator<Item = &'a str>,
    ) -> ClientAddress {
        let mut client = sender.to_canonical();
        for entry in forwarded_for.flat_map(|line| line.rsplit(',')) {
            if !self.is_trusted(client) {
                break;
            }
            // A proxy that names no address is the last one that is known.
            let Some(address) = parse_forwarded(entry.trim()) else { break };
            client = address;
        }
        ClientAddress(client)
    }
}

impl Network {
    /// Whether an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && masked(address, self.prefix) == self.first
    }
}

/// What connections are counted by: an IPv4 address, or the first 64 bits of an IPv6 address, because
/// a single customer usually has that many. An IPv4 address written as IPv6 counts as IPv4.
pub fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        address => masked(address, 64),
    }
}

/// An address with all bits after the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// An entry of `X-Forwarded-For`: an address, perhaps with a port, as some proxies write it.
fn parse_forwarded(entry: &str) -> Option<IpAddr> {
    let address = entry.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(entry.parse::<std::net::SocketAddr>().ok()?.ip()));
    let bare = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']'));
    let address = address.or_else(|| bare?.parse::<Ipv6Addr>().ok().map(IpAddr::V6));
    address.map(|address| address.to_canonical())
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let refuse = || {
            format!("`{text}` is not an address or a range of addresses, such as 10.0.0.0/8 or ::1")
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => {
                prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(refuse)?
            }
        };
        if masked(address, prefix) != address {
            return Err(format!(
                "`{text}` has bits set after its prefix; did you mean {}/{prefix}?",
                masked(address, prefix)
            ));
        }
        // IPv4 peers are compared as such, even if the socket shows them as IPv6.
        match address.to_canonical() {
            first @ IpAddr::V4(_) if address.is_ipv6() => {
                let prefix = prefix.checked_sub(96).ok_or_else(refuse)?;
                Ok(Network { first, prefix })
            }
            first => Ok(Network { first, prefix }),
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Default for AddressRules {
    fn default() -> AddressRules {
        AddressRules { trusted_proxies: Vec::new(), connections_per_address_max: 1_024 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_what_shares_its_prefix() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1", "::1", "::2"),
            ("10.0.0.0/8", "::ffff:10.0.0.7", "::10.0.0.7"),
            ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"),
        ] {
            let range: Network = range.parse().unwrap();
            assert!(range.contains(inside.parse().unwrap()), "{inside} in {range:?}");
            assert!(!range.contains(outside.parse().unwrap()), "{outside} in {range:?}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused_with_its_text() {
        for text in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "1.2.3"] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
        let error = "10.0.0.1/8".parse::<Network>().unwrap_err();
        assert!(error.contains("did you mean 10.0.0.0/8?"), "{error}");
    }

    #[test]
    fn ipv6_is_counted_by_its_first_64_bits() {
        let counted = |text: &str| counted_as(text.parse().unwrap());
        assert_eq!(counted("2001:db8:1:2:3::1"), counted("2001:db8:1:2:ffff::"));
        assert_ne!(counted("2001:db8:1:2::"), counted("2001:db8:1:3::"));
        assert_eq!(counted("::ffff:192.0.2.1"), counted("192.0.2.1"));
        assert_ne!(counted("192.0.2.1"), counted("192.0.2.2"));
    }

    #[test]
    fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
        check("203.0.113.1", &["198.51.100.1"], "203.0.113.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.0.0.2"], "198.51.100.1");
        check("10.0.0.1", &["1.1.1.1", "198.51.100.1", "10.0.0.2"], "198.51.100.1");
        check("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1");
        check("10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1");
        check("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1");
        check("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check("10.0.0.1", &["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2");
        check("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1");
    }

    #[track_caller]
    fn check(sender: &str, lines: &[&str], client: &str) {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let rules = AddressRules { trusted_proxies, ..AddressRules::default() };
        let found = rules.client(sender.parse().unwrap(), lines.iter().rev().copied());
        assert_eq!(found, ClientAddress(client.parse().unwrap()));
    }
}
