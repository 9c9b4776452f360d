"""Which IP addresses belong to the public internet: the only ones that tenants may have us call."""

import ipaddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Ways to write an IPv4 address inside an IPv6 one that `is_global` does not look through.
_TUNNELS = (
    ipaddress.ip_network("64:ff9b::/96"),  # NAT64
    ipaddress.ip_network("64:ff9b:1::/48"),  # NAT64, local use
    ipaddress.ip_network("2002::/16"),  # 6to4
    ipaddress.ip_network("2001::/32"),  # Teredo
)


def is_public(address: IpAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in tunnel for tunnel in _TUNNELS):
            return False
    return address.is_global and not address.is_multicast
