//! Networks of trusted proxies: an address, or a prefix such as `10.0.0.0/8`.
//!
//! An IPv4 address that arrives in IPv6 clothes (`::ffff:10.0.0.1`, as a dual-stack socket reports it) is the IPv4
//! address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::kind::Wrong;

/// All addresses that begin with one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Whether this address is one of the network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.prefix_bits) == self.first
    }

    /// Whether every address of its family is one of the network's.
    pub fn is_everybody(&self) -> bool {
        self.prefix_bits == 0
    }

    /// An address or a prefix. The error says what else is wrong with something that looks like one.
    pub(crate) fn parse(text: &str) -> Result<Network, Wrong> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let written: IpAddr = address.parse().map_err(|_| Wrong::Kind)?;
        let written_bits_max = width(written);
        let prefix_bits = match bits {
            None => written_bits_max,
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => match bits.parse() {
                Ok(bits) if bits <= written_bits_max => bits,
                _ => {
                    return Err(Wrong::Because(format!(
                        "a prefix of this family has 0 to {written_bits_max} bits"
                    )));
                }
            },
            Some(_) => return Err(Wrong::Kind),
        };
        let address = written.to_canonical();
        // A prefix that was written for an IPv4 address in IPv6 clothes counts the clothes.
        let clothes = written_bits_max - width(address);
        let Some(prefix_bits) = prefix_bits.checked_sub(clothes) else {
            return Err(Wrong::Because("a prefix of ::ffff:0:0 has 96 to 128 bits".into()));
        };
        let first = masked(address, prefix_bits);
        if first != address {
            return Err(Wrong::Because(format!("write the network of this address, {first}/{prefix_bits}")));
        }
        Ok(Network { first, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with everything after the prefix zero. A prefix longer than the address leaves it as it is.
fn masked(address: IpAddr, prefix_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix_bits.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix_bits.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        Network::parse(network).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_in_the_networks_that_begin_like_it() {
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("10.0.0.7", "10.0.0.7"));
        assert!(!contains("10.0.0.7", "10.0.0.6"));
        assert!(contains("fd00::/8", "fdff::1"));
        assert!(!contains("fd00::/8", "fe80::1"));
        assert!(contains("0.0.0.0/0", "203.0.113.9"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(!contains("::/0", "203.0.113.9"));
        assert!(!contains("::1", "0.0.0.1"));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_the_ipv4_address() {
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(!contains("::ffff:10.0.0.0/104", "11.1.2.3"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in
            ["", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/33", "10.0.0.1/8", "::/129", "proxy", "::ffff:0:0/95"]
        {
            assert!(Network::parse(bad).is_err(), "{bad}");
        }
    }
}
